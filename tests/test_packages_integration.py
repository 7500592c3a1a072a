"""The wheel and the source package can be built, are complete, and run with only the packages that they require."""

import ast
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement

from mcpproxy import __version__
from mcpproxy.cli import COMMANDS
from tests import rules, smoke
from tests.mcpproxy.tui.terminals import Terminal

ROOT = Path(__file__).parents[1]
PACKAGES = ("captures", "analysis", "mcpproxy")
NAME = f"mcpproxy-{__version__}"
RUN_S = 100
OF_EXTRAS = {"google", "obstore", "opentelemetry", "pyarrow", "pyspark", "requests", "urllib3", "uvloop"}
"""Packages that only extras require, directly or indirectly."""
OF_TESTS = {"mcp", "pytest"}
"""What `mcpproxy.testing` imports if the tests of a user have it."""


def build(source: Path, into: Path, *targets: str, repository: str = "") -> None:
    wanted = [word for target in targets for word in ("--target", target)]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", *wanted, "--directory", str(into)],
        cwd=source,
        check=True,
        env=os.environ | {"MCPPROXY_REPOSITORY": repository},
        capture_output=True,
        timeout=RUN_S,
    )


def ours(names: list[str]) -> set[str]:
    """The files of the three packages."""
    return {name for name in names if name.partition("/")[0] in PACKAGES and not name.endswith("/")}


def files_of(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return ours(archive.namelist())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the unpacked source package."""
    folder = tmp_path_factory.mktemp("built")
    build(ROOT, folder, "wheel", "sdist")
    with tarfile.open(folder / f"{NAME}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.costly("builds the wheel and the source package")
def test_the_wheel_holds_every_file_of_the_packages_and_no_other(built: Path) -> None:
    names = [
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    assert {Path(name).suffix for name in names} >= {".py", ".sql", ".md", ".typed"}
    wheel = built / f"{NAME}-py3-none-any.whl"
    assert files_of(wheel) == set(names)
    with zipfile.ZipFile(wheel) as archive:
        assert {name.partition("/")[0] for name in archive.namelist()} == {*PACKAGES, f"{NAME}.dist-info"}


def test_the_source_package_gives_the_same_wheel_and_has_the_tests_and_docs(built: Path, tmp_path: Path) -> None:
    build(built / NAME, tmp_path, "wheel")
    wheel = f"{NAME}-py3-none-any.whl"
    assert files_of(tmp_path / wheel) == files_of(built / wheel)
    for name in (
        "Makefile",
        "README.md",
        "LICENSE",
        "pyproject.toml",
        "docs/ci.md",
        "tests/test_packages_integration.py",
    ):
        assert (built / NAME / name).is_file()


def test_a_release_links_to_its_repository_and_so_does_its_readme(tmp_path: Path) -> None:
    build(ROOT, tmp_path, "wheel", repository="https://code.example/mcpproxy/")
    (found,) = Distribution.discover(path=[str(tmp_path / f"{NAME}-py3-none-any.whl")], name="mcpproxy")
    assert "Source, https://code.example/mcpproxy" in found.metadata.get_all("Project-URL", ())
    text = str(found.metadata.json["description"])
    assert "(https://code.example/mcpproxy/raw/HEAD/docs/pictures/sessions.svg)" in text
    assert "(https://code.example/mcpproxy/blob/HEAD/docs/commands/run.md)" in text
    assert re.findall(r"\]\((?!https?:|#)[^)]*\)", text) == []


class Fresh(NamedTuple):
    """An environment in which only the wheel and the packages that it requires are installed."""

    program: Path
    variables: dict[str, str]
    here: Path

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [str(self.program), *arguments]
        return subprocess.run(
            command,
            cwd=self.here,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_S,
        )


def needed(found: Distribution, seen: dict[str, Distribution]) -> dict[str, Distribution]:
    """The packages that a package requires on this system without its extras, directly or indirectly."""
    for text in found.requires or ():
        wanted = Requirement(text)
        if wanted.name not in seen and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            seen[wanted.name] = distribution(wanted.name)
            needed(seen[wanted.name], seen)
    return seen


def tops(found: Distribution) -> Iterator[Path]:
    """The files and folders that a package has directly in site-packages."""
    for name in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
        yield Path(str(found.locate_file(name)))


@pytest.fixture(scope="module")
def fresh(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    python = folder / "venv/bin/python"
    (site,) = (folder / "venv/lib").glob("python*/site-packages")
    with zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl") as archive:
        archive.extractall(site)
    (installed,) = Distribution.discover(name="mcpproxy", path=[str(site)])
    # What pip creates in addition to the files of a wheel.
    (entry,) = installed.entry_points.select(group="console_scripts")
    script = python.with_name(entry.name)
    script.write_text(f"#!{python}\nimport sys\nfrom {entry.module} import {entry.attr}\nsys.exit({entry.attr}())\n")
    script.chmod(0o755)
    for found in needed(installed, {}).values():
        for top in tops(found):
            if not (site / top.name).exists():
                (site / top.name).symlink_to(top)
    (folder / "here").mkdir()
    variables = {"HOME": str(folder / "home"), "PATH": os.environ["PATH"], "TERM": "xterm-256color"}
    return Fresh(python.with_name("mcpproxy"), {**variables, "LC_ALL": "C.UTF-8"}, folder / "here")


def imported(folder: Path) -> dict[str, set[str]]:
    """The foreign packages that the files of a folder import at any place, each with these files."""
    found: dict[str, set[str]] = {}
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            match node:
                case ast.Import(names=names):
                    modules = [name.name for name in names]
                case ast.ImportFrom(module=str(module), level=0):
                    modules = [module]
                case _:
                    continue
            for top in {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - {*PACKAGES}:
                found.setdefault(top, set()).add(str(file.relative_to(folder)))
    return found


@pytest.mark.costly("parses every module of the packages")
def test_all_that_a_module_imports_comes_with_the_wheel_or_an_extra(built: Path, fresh: Fresh) -> None:
    with zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl") as archive:
        archive.extractall(fresh.here / "unpacked")
    found = imported(fresh.here / "unpacked")
    code = "import sys; from importlib.util import find_spec; print(*(n for n in sys.argv[1:] if not find_spec(n)))"
    done = subprocess.run(
        [fresh.program.with_name("python"), "-c", code, *found], env=fresh.variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert {name: found[name] for name in done.stdout.split() if name not in OF_EXTRAS | OF_TESTS} == {}


FEW = ("demo", "serve", "run", "ls", "check", "query", "share", "scan", "ship", "completion")
"""Commands that load the recorders, the rules and the database, and those that no other test starts as a user does. The
test above finds the packages that any other command would miss."""


@pytest.mark.costly("starts commands of a program that nothing has compiled yet")
@pytest.mark.parametrize("names", [FEW, pytest.param((*COMMANDS, "help"), marks=pytest.mark.soak)], ids=["few", "all"])
def test_commands_run_from_the_wheel_with_what_it_asks_for(
    fresh: Fresh, names: tuple[str, ...], secret_rules: None
) -> None:
    version = fresh.run("--version")
    assert (version.returncode, version.stdout, version.stderr) == (0, f"mcpproxy {__version__}\n", "")
    assert {job.words[0] for job in smoke.JOBS} == {*COMMANDS, "help"}
    jobs = [job for job in smoke.JOBS if job.words[0] in names]
    for job, ended, _ in smoke.smoke(fresh.program, jobs, lambda home: rules.copy_to(home / ".cache/mcpproxy")):
        assert smoke.is_right(job, ended), (job, ended)


@pytest.mark.costly("the whole terminal UI, started as a user starts it")
def test_its_demo_is_drawn_on_a_terminal_and_q_ends_it(fresh: Fresh) -> None:
    terminal = Terminal(["--demo"], fresh.variables, (100, 30), (str(fresh.program),))
    try:
        terminal.until(lambda: "? help" in terminal.text() and "● demo" in terminal.text())
        terminal.press("q")
        terminal.until(lambda: terminal.process.poll() is not None)
        assert terminal.process.returncode == 0
    finally:
        terminal.close()
