"""The documentation is true: its commands and options, outputs, snippets, and the tests that prove the promises.

The language of a code block decides how it is tested. `console` holds commands after `$ ` with real output: a run must
print each of its lines again (`…` stands for lines left out; numbers may differ, except the numbers of findings). `sh`
and `python` must run, `json` must parse, and `sql` must run on the captures of the sandbox. `text` is not tested. The
recipes of docs/ci.md, in `sh` and `yaml`, are run by test_recipes_integration; `js` and the tutorial by the tests in
tests/mcpproxy/testing.
"""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest

from analysis.rules.discovery import rules as rules_built
from mcpproxy import __version__
from mcpproxy.cli import COMMANDS
from mcpproxy.cli.command_line import Grammar, Option, grammars
from mcpproxy.cli.run import RunOptions
from tests import rules
from tests.mcpproxy.cli.typed import printed, program_of_forks

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "captures/FORMAT.md"])
RUN_S = 600
"""Only catches hangs."""


class Block(NamedTuple):
    """A fenced block of code."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    return [block for page in PAGES for block in _blocks(page) if block.language in languages]


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text("utf-8")
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(str(page.relative_to(ROOT)), text.count("\n", 0, found.start()) + 1, found[1], found[2])


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its header row."""
    section = re.split(rf"^#+ {heading}$", text, flags=re.MULTILINE)[1]
    section = re.split(r"^#+ ", section, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


# ---- commands and options


def page_of(name: str) -> str:
    return (ROOT / f"docs/commands/{name}.md").read_text("utf-8")


def test_every_command_has_a_page_and_every_page_a_command() -> None:
    assert {path.stem for path in (ROOT / "docs/commands").iterdir()} == set(COMMANDS)


def test_page_lists_the_options_of_its_command_and_no_others() -> None:
    for command in grammars():
        check_options(command)


def check_options(command: Grammar) -> None:
    documented: dict[str, str] = {}
    for names, _ in rows(page_of(command.name), "Options"):
        for spelling in re.findall(r"`([^`]+)`", names):
            name, _, value = spelling.partition(" ")
            documented[name] = value.replace("\\", "")
    # Log formats have an index of their own, which is generated.
    wanted = {
        name: "FORMAT" if _names_form(option) else "|".join(option.words) or option.metavar
        for option in command.options
        for name in option.names
    }
    # Options such as `run --fsync` have a placeholder in the table and list their words in the text.
    placeholders = {name: value for name, value in documented.items() if command.name == "run" and value}
    assert {**documented, **dict.fromkeys(placeholders, "")} == {**wanted, **dict.fromkeys(placeholders, "")}, (
        command.name
    )
    for option in command.options:
        page = (ROOT / "docs/imports/README.md").read_text() if _names_form(option) else page_of(command.name)
        for word in option.words:
            assert word in page, (option.names, word)


def _names_form(option: Option) -> bool:
    """Whether its words are the log formats that can be imported."""
    return option.names == ("--from",)


def test_page_has_usage_examples_and_exit_codes() -> None:
    for name in COMMANDS:
        text = page_of(name)
        assert text.startswith(f"# mcpproxy {name}\n")
        assert re.findall(r"^## (.*)$", text, re.MULTILINE)[:3] == ["Usage", "Options", "Examples"], name
        codes = [int(row[0]) for row in rows(text, "Exit codes")]
        assert codes == sorted(codes), name
        assert 2 in codes, name


def invocations() -> list[tuple[str, list[str]]]:
    """Each `mcpproxy …` in a code block: its place, and its words."""
    found = []
    for block in blocks("console", "sh", "text", "yaml"):
        for line in block.text.splitlines():
            if block.language == "console" and not line.startswith("$ "):
                continue
            for words in re.findall(r"(?:^|\$ |\| |\(|  |run: )mcpproxy ((?:[a-z]+|--)[^|)#>']*)", line):
                found.append((f"{block}: {line.strip()}", words.split()))
    return found


def test_commands_in_examples_exist_with_their_options() -> None:
    known = {command.name: {name for option in command.options for name in option.names} for command in grammars()}
    for where, words in invocations():
        if words[0] not in ("COMMAND", "--help", "--version"):
            ours = words[: words.index("--")] if "--" in words else words
            used = {word.partition("=")[0].strip("[]") for word in ours if word.strip("[").startswith("-")} - {"--"}
            assert used <= known[words[0]], where


# ---- snippets


_FILES = '{"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/you/notes"]}'
CLIENT_FILES = {
    ".cursor/mcp.json": f'{{"mcpServers": {{"files": {_FILES}}}}}',
    ".gemini/settings.json": f'{{"mcpServers": {{"files": {_FILES}}}}}',
    ".codex/config.toml": '[mcp_servers.files]\ncommand = "npx"\nargs = ["@modelcontextprotocol/server-filesystem"]\n',
}
"""The configuration of clients in the sandbox. Each example that writes uses a different client."""


LATE = {"run", "serve", "tui", "demo", "up"}
"""Commands that are started by a shell, as is every line that holds more than plain words."""


class Sandbox(NamedTuple):
    """A home directory with the captures that the examples use."""

    home: Path
    here: Path

    def shell(self, line: str) -> str:
        """Run a shell command line; returns its stdout and stderr."""
        path = f"{self.home}/bin:{os.environ['PATH']}"
        environment = {"HOME": str(self.home), "PATH": path, "COLUMNS": "80", "LC_ALL": "C.UTF-8", "TZ": "UTC0"}
        plain_words = re.fullmatch(r"mcpproxy ((?:[\w ,./:=+-]|'[^'$]*')+)", line)
        if plain_words and not LATE & {*(words := shlex.split(plain_words[1]))}:
            code, output = printed(*words, cwd=self.here, environment=environment)
            assert code in (0, 1, 2, 3), output.decode()
            return output.decode().replace(str(self.home), "/home/you")
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.here,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=RUN_S,
        )
        assert done.returncode in (0, 1, 2, 3), done.stdout.decode()
        return done.stdout.decode().replace(str(self.home), "/home/you")


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory, secret_rules: None) -> Sandbox:
    """Holds the recorded demo and two copies: one cut off within a line, as by a kill, and one with a flipped bit."""
    home = tmp_path_factory.mktemp("home")
    made = Sandbox(home, home / "here")
    made.here.mkdir()
    rules.copy_to(home / ".cache/mcpproxy")
    (home / "bin").mkdir()
    program = home / "bin/mcpproxy"
    program.write_text(program_of_forks())
    program.chmod(0o755)
    for name, text in CLIENT_FILES.items():
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(text)
    made.shell("mcpproxy demo")
    made.shell("printf '{}\\n' | mcpproxy run --name echo -- cat")
    (demo,) = home.rglob("captures/demo/*.mcpcap")
    lines = demo.read_bytes().splitlines(keepends=True)
    (made.here / "NAME.mcpcap").write_bytes(demo.read_bytes())
    (made.here / "killed.mcpcap").write_bytes(b"".join(lines[:-1])[:-20])
    lines[4] = lines[4].replace(b"c2s", b"s2c", 1)
    (made.here / "damaged.mcpcap").write_bytes(b"".join(lines))
    return made


def plain(line: str) -> str:
    """A line without what differs from run to run: numbers (except those of findings), random names, and blanks."""
    line = re.sub(r"-[0-9a-f]{4}\.mcpcap|(?<=B  )[0-9a-f]{4}$", "-X.mcpcap", line)
    line = re.sub(r"\d[\d,.TZ:-]*+(?! (?:errors?|warnings?|notes?|accepted)\b)", "N", line)
    # On a busy machine, the documented milliseconds can become seconds.
    line = re.sub(r"N( ?)(?:µs|ms|s)\b", r"N\1ms", line)
    return " ".join(line.split())


def examples(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Each command of a `console` block, with the part of its output that is shown."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, *output = part.splitlines()
        yield line, output


# A block is one test, because its commands may use what earlier commands have made.
@pytest.mark.parametrize("block", [block for block in blocks("console") if [*examples(block)]], ids=str)
def test_outputs_in_the_documentation_are_what_the_commands_print(sandbox: Sandbox, block: Block) -> None:
    for line, output in examples(block):
        if line.startswith("make "):
            assert line.split()[1] in targets()
            line = {"make demo": "mcpproxy demo", "make test": "true"}[line]
        if re.search(r"^(pip|pipx|uvx|git) ", line):
            continue
        if "| jq " in line and shutil.which("jq") is None:
            pytest.skip("jq is not installed")
        # In the other examples, `demo` must not mean this new capture.
        aside = "MCPPROXY_CAPTURES=$HOME/aside " if line == "mcpproxy demo" else ""
        shown = {plain(row) for row in sandbox.shell(aside + line).splitlines()}
        missing = [row for row in output if row not in ("…", "") and plain(row) not in shown]
        assert missing == [], line


def test_json_in_the_documentation_parses_and_its_commands_run() -> None:
    for block in blocks("json"):
        config = json.loads(block.text)
        for server in config.get("mcpServers", {}).values():
            if server.get("command") == "mcpproxy":
                assert server["args"][0] == "run", block
                assert RunOptions(server["args"][1:]).command, block


@pytest.mark.parametrize("block", [block for block in blocks("sh") if block.page != "docs/ci.md"], ids=str)
def test_shell_in_the_documentation_runs(sandbox: Sandbox, block: Block) -> None:
    if "jq " in block.text and shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    assert "error" not in sandbox.shell(f"set -e\n{block.text}").lower()


ON_TABLES = ("docs/sql.md", "docs/scale.md")
"""Pages whose statements query tables: tests/analysis/store runs them."""


@pytest.mark.parametrize("block", [block for block in blocks("sql") if block.page not in ON_TABLES], ids=str)
def test_sql_in_the_documentation_runs(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, block: Block) -> None:
    monkeypatch.chdir(sandbox.here)
    with duckdb.connect() as connection:
        connection.execute(f"set home_directory = '{sandbox.home}'")
        assert connection.execute(block.text).fetchall()


def is_pasted(block: Block) -> bool:
    """Whether it is a file of the tutorial, which tests/mcpproxy/testing/test_tutorial_integration.py runs."""
    return block.page == "docs/python.md" and re.match(r"import sys|from mcp[ .]", block.text) is not None


@pytest.mark.parametrize("block", [block for block in blocks("python") if not is_pasted(block)], ids=str)
def test_python_in_the_documentation_runs(sandbox: Sandbox, block: Block) -> None:
    subprocess.run([sys.executable, "-P", "-c", block.text], cwd=sandbox.here, check=True, timeout=RUN_S)


def test_every_block_names_its_language() -> None:
    known = {"console", "js", "json", "python", "sh", "sql", "text", "yaml"}
    assert [str(block) for page in PAGES for block in _blocks(page) if block.language not in known] == []


# ---- README, changelog, links


@cache
def targets() -> set[str]:
    """The targets of the Makefile."""
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_readme_names_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    for command in ("make demo", "make test"):
        assert re.search(rf"^\$? ?{command}$", readme, re.MULTILINE), command


def test_make_targets_that_are_named_exist() -> None:
    for page in PAGES:
        assert set(re.findall(r"`make ([a-z-]+)", page.read_text("utf-8"))) <= targets(), page


def test_readme_names_every_command_and_what_goes_with_check() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    jobs = rows(readme, "Commands")
    named = [re.findall(r"\[`([a-z]+)`\]\(docs/commands/([a-z]+)\.md\)", commands) for _, commands in jobs]
    assert all(name == page for row in named for name, page in row)
    assert sorted(name for row in named for name, _ in row) == sorted(COMMANDS)
    assert all(job and 1 <= len(row) <= 7 for (job, _), row in zip(jobs, named, strict=True))
    assert {"docs/filter.md", "docs/ci.md", "docs/rules/README.md"} <= set(re.findall(r"\]\(([^)]+)\)", readme))


def test_readme_counts_the_rules() -> None:
    assert f"{len(rules_built())} [rules](docs/rules/README.md)" in (ROOT / "README.md").read_text("utf-8")


def test_readme_counts_and_names_what_it_depends_on() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [re.split(r"[>=<]", dependency)[0] for dependency in config["project"]["dependencies"]]
    found = re.search(r"depends on (\d+) packages: ([^(]*)\(", (ROOT / "README.md").read_text("utf-8"))
    assert found is not None
    assert int(found[1]) == len(wanted)
    assert sorted(re.split(r", | and ", found[2].partition(", the official types")[0])) == sorted(wanted)


def promises() -> list[tuple[str, str]]:
    """The tests that the table of promises names: (promise, node id)."""
    found = []
    for promise, proof in rows((ROOT / "docs/promises.md").read_text("utf-8"), "What it promises"):
        nodes = re.findall(r"`(tests/[^`]+)`", proof)
        found += [(promise, node) for node in nodes or [""]]
    return found


def test_promises_are_made() -> None:
    assert len(promises()) >= 10


def test_every_promise_has_a_test_that_exists() -> None:
    for promise, node in promises():
        assert node, f"nothing proves: {promise}"
        name, _, test = node.partition("::")
        assert test in set(cases_of(ast.parse((ROOT / name).read_text("utf-8")))), promise


def cases_of(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[str]:
    """The tests of a module as pytest names them."""
    for found in tree.body:
        if isinstance(found, ast.ClassDef):
            yield from cases_of(found, f"{found.name}::")
        elif isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + found.name


def test_changelog_has_a_place_for_what_comes_and_one_for_this_version() -> None:
    headings = re.findall(r"^## \[?([^\]\s]+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert __version__ in headings


FROM_AN_INDEX = re.compile(
    r"\bmcpproxy\[|(?:\bpipx? (?:install|run)|\buv (?:tool|pip) (?:install|run)|\buvx)\b"
    r"(?![^`\n|]*--from (?:DIR\b|\.|\S*/))[^`\n|]*(?<![\w./-])mcpproxy\b(?!/)"
)
"""Advice to install mcpproxy, or one of its extras, from a package index, none of which has it."""


def test_no_page_installs_from_an_index_without_mcpproxy() -> None:
    assert all(
        FROM_AN_INDEX.search(text)
        for text in (
            "pip install 'mcpproxy[otel]'",
            "pip install mcpproxy",
            "pipx run mcpproxy ls",
            "uvx mcpproxy",
            "uvx --from mcpproxy==1.0 mcpproxy",
        )
    )
    assert not any(
        FROM_AN_INDEX.search(text)
        for text in (
            "pip install '.[otel]'",
            "uvx --from . mcpproxy --help",
            "pip install ./mcpproxy mcp",
            "pipx install .",
        )
    )
    ours = (path for package in ("captures", "analysis", "mcpproxy") for path in (ROOT / package).rglob("*.py"))
    later = re.compile(r"^\|.*from the first release on.*$", re.MULTILINE)
    texts = {path: later.sub("", path.read_text("utf-8")) for path in (*PAGES, *ours)}
    wrong = {path: found[0] for path, text in texts.items() if (found := FROM_AN_INDEX.search(text))}
    assert wrong == {}


def test_links_lead_somewhere() -> None:
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))]
    for page, target in links:
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        leads_to = (page.parent / path) if path else page
        assert leads_to.exists(), (page, target)
        if anchor:
            headings = re.findall(r"^#+ (.*)$", leads_to.read_text("utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_architecture_names_every_package_and_module_beside_one() -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    named = {name for row in rows(text, "Packages") for name in re.findall(r"`([a-z_]+(?:/[a-z_.]+)*)`", row[0])}
    folders = {
        path.parent for package in ("captures", "analysis", "mcpproxy") for path in (ROOT / package).rglob("*.py")
    }
    floors = {ROOT / "analysis", ROOT / "mcpproxy"}
    # The groups of rules share one row, and each has its own page under docs/rules.
    rooms = {folder for folder in folders - floors if folder.parent.name != "rules" or folder.name == "support"}
    beside = {path for floor in floors for path in floor.glob("*.py") if path.stem.strip("_") not in ("init", "main")}
    assert named == {str(path.relative_to(ROOT)) for path in rooms | beside} | {"tests/bench"}


def test_architecture_is_two_screens() -> None:
    lines = (ROOT / "docs/architecture.md").read_text("utf-8").splitlines()
    assert len(lines) <= 130
    assert [line for line in lines if len(line) > 160] == []


def test_architecture_and_the_index_name_every_page_of_decisions() -> None:
    pages = {path.name for path in (ROOT / "docs/decisions").glob("*.md")}
    for index, folder in (("docs/architecture.md", "decisions/"), ("docs/decisions/README.md", "")):
        linked = re.findall(rf"\]\({folder}([a-z-]+\.md)\)", (ROOT / index).read_text("utf-8"))
        assert sorted(linked) == sorted(pages - {"README.md"}), index


def test_decisions_give_a_reason_for_every_dependency() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [re.match(r"[\w.-]+", dependency) for dependency in config["project"]["dependencies"]]
    listed = rows((ROOT / "docs/decisions/dependencies.md").read_text("utf-8"), "Dependencies")
    assert sorted(row[0] for row in listed) == sorted(found[0] for found in wanted if found)
    assert all(all(row) for row in listed)
