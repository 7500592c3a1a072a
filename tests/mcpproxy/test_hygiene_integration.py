"""What is loaded when: a client waits for `mcpproxy run`, so its start stays light, and so do the lower packages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

NEVER = {
    "aiofiles",
    "analysis",
    "argparse",
    "asyncio",
    "concurrent",
    "duckdb",
    "email",
    "http",
    "jsonschema",
    "logging",
    "multiprocessing",
    "pydantic",
    "rich",
    "socket",
    "ssl",
    "subprocess",
    "textual",
}
"""Modules that the path of a byte never loads, not even late."""

LATE = {"captures.envelope", "dataclasses", "inspect", "orjson"}
"""Modules that may be loaded once the server is starting: orjson, and what it imports in turn."""

DEAR = {"captures.exact_judge", "contextlib", "enum", "json", "pathlib", "re", "typing"}
"""Modules that would take half of the time allowed for a start."""

# The audit event comes just before each fork; the first fork is the guard, the second one the server.
WATCHED = """
import sys
def watch(event, arguments, path=sys.argv.pop(1)):
    if event == "os.fork":
        with open(path, "a") as file:
            file.write(" ".join(sys.modules) + "\\n")
sys.addaudithook(watch)
from mcpproxy.__main__ import main
main()
"""


def families(modules: list[str]) -> set[str]:
    """Returns the names of modules, and of the packages that they are in."""
    return {
        ".".join(parts[:n]) for module in modules for parts in [module.split(".")] for n in range(1, len(parts) + 1)
    }


def test_start_of_run_loads_nothing_heavy(tmp_path: Path) -> None:
    wrapped = ["run", "--capture", str(tmp_path / "c.mcpcap"), "--", "true"]
    subprocess.run([sys.executable, "-c", WATCHED, str(tmp_path / "modules"), *wrapped], check=True)
    forks = (tmp_path / "modules").read_text().splitlines()
    assert len(forks) == 2
    for loaded in forks:
        assert families(loaded.split()) & (NEVER | LATE | DEAR) == set()


def test_run_never_loads_what_it_does_not_need(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "mcpproxy", "run", "--capture", str(tmp_path / "c.mcpcap")]
    done = subprocess.run([*command, "--", "true"], capture_output=True, check=True)
    imported = re.findall(r"^import time:.*\| +(\S+)$", done.stderr.decode(), re.MULTILINE)
    assert "mcpproxy.relay.stdio" in imported
    assert "orjson" in imported
    assert families(imported) & NEVER == set()


@pytest.mark.parametrize(
    "name", ["captures", "analysis", "mcpproxy", "mcpproxy.cli", "mcpproxy.relay", "mcpproxy.wire"]
)
def test_a_package_by_itself_loads_nothing_but_a_little_of_the_standard_library(name: str) -> None:
    others = loaded_by(f"import {name}") - families([name])
    assert {module for module in others if module.partition(".")[0] not in sys.stdlib_module_names} == set()
    assert others & (NEVER | LATE) == set()


def test_the_file_format_needs_neither_its_meaning_nor_a_database() -> None:
    modules = ("envelope", "errors", "file", "frame", "integrity", "paths", "reader", "record", "redact", "writer")
    loaded = loaded_by(*(f"import captures.{module}" for module in modules))
    assert loaded & (NEVER | {"mcpproxy"}) == set()


def test_meaning_is_computed_without_a_database_or_a_screen() -> None:
    loaded = loaded_by("from analysis import *")
    assert "analysis.conversation.session" in loaded
    assert loaded & {"aiofiles", "asyncio", "duckdb", "mcpproxy", "pydantic", "rich", "textual"} == set()


def test_a_comparison_begins_without_what_only_some_of_them_need() -> None:
    loaded = loaded_by("import mcpproxy.cli.compare")
    assert "analysis.comparison.observe" in loaded
    assert loaded & {"asyncio", "duckdb", "email", "http", "jsonschema_rs", "ssl", "textual"} == set()


def test_what_makes_text_harmless_loads_nothing_else() -> None:
    code = "import sys, re; old = set(sys.modules); import mcpproxy.sanitise; print(sorted(set(sys.modules) - old))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "unicodedata" not in loaded
    assert not {"json", "orjson", "asyncio", "captures", "analysis"} & set(re.findall(r"\w+", loaded))


def loaded_by(*statements: str) -> set[str]:
    """Returns what a fresh interpreter has loaded after some statements and had not loaded before."""
    code = "\n".join(["import sys; before = set(sys.modules)", *statements, "print(*(set(sys.modules) - before))"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return families(done.stdout.decode().split())
