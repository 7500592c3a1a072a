"""How the tree is laid out: what is shipped, what every file has, and what no file of ours may do."""

import ast
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("captures", "analysis", "mcpproxy")
BUILD_S = 100
BINARY = {".png", ".gif", ".mcpcap", ".duckdb"}

SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def tracked() -> list[Path]:
    """The files of the repository; skips where this tree is none."""
    if not (ROOT / ".git").exists():
        pytest.skip("this tree is no git repository")
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True).stdout
    return [path for name in listed.decode().split("\0") if name and (path := ROOT / name).is_file()]


# ---- the wheel


def test_three_packages_are_shipped_by_the_build_configuration() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert config["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == list(PACKAGES)
    assert config["project"]["scripts"] == {"mcpproxy": "mcpproxy.__main__:main"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names in the wheel that this tree makes."""
    place = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(place), str(ROOT)]
    try:
        done = subprocess.run(build, capture_output=True, timeout=BUILD_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"the build backend could not be fetched within {BUILD_S} s")
    made = list(place.glob("*.whl"))
    if not made:
        pytest.skip(f"no wheel could be built here: {done.stderr.decode()[-300:]}")
    with zipfile.ZipFile(made[0]) as archive:
        return archive.namelist()


def test_wheel_has_three_names_at_its_top(wheel: list[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    assert len(tops) == len(PACKAGES) + 1


def test_wheel_has_every_module_the_types_marker_and_the_format(wheel: list[str]) -> None:
    wanted = {str(path.relative_to(ROOT)) for path in [*SOURCES, *(ROOT / "mcpproxy/html_report/page").iterdir()]} | {
        f"{package}/py.typed" for package in PACKAGES
    }
    assert (wanted | {"captures/FORMAT.md"}) - set(wheel) == set()
    assert [name for name in wheel if name.endswith(".pyc") or "/test" in name] == []


# ---- every file


def test_every_text_file_ends_with_a_newline() -> None:
    wrong = []
    for path in tracked():
        data = path.read_bytes()
        if path.suffix not in BINARY and b"\0" not in data and data and not data.endswith(b"\n"):
            wrong.append(str(path.relative_to(ROOT)))
    assert wrong == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [path for path in SOURCES if len(ast.get_docstring(ast.parse(path.read_bytes())) or "") <= 20]
    assert silent == []


def test_modules_are_named_for_what_they_hold() -> None:
    unsaid = {"common", "core", "event", "events", "flow", "flows", "helper", "helpers", "log", "manager", "misc"}
    unsaid |= {"packet", "packets", "tools", "util", "utils"}
    assert [str(path) for path in SOURCES if {path.stem, path.parent.name} & unsaid] == []


# ---- what none of them may do

FORBIDDEN_MODULES = {"dill", "marshal", "pickle", "shelve"}
SAFE_YAML = {"compose", "safe_load", "SafeLoader", "YAMLError", "MarkedYAMLError"}
SAFE_YAML |= {"Node", "CollectionNode", "MappingNode", "ScalarNode", "SequenceNode"}
"""What may be used of PyYAML: nothing that makes objects of what a file names."""
FORBIDDEN_CALLS = {"__import__", "compile", "eval", "exec", "print"}
"""The first four run what they are given; bare `print` hides whether it is data or talk."""


def faults(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                f"imports {name.name}" for name in node.names if name.name.partition(".")[0] in FORBIDDEN_MODULES
            )
        elif isinstance(node, ast.ImportFrom) and node.module == "yaml":
            yield "imports from yaml: write yaml.NAME, so that this test sees it"
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "yaml" and node.attr not in SAFE_YAML:
            yield f"uses yaml.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in FORBIDDEN_MODULES:
            yield f"imports {node.module}"
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
                yield f"calls {node.func.id}"
            if isinstance(node.func, ast.Attribute) and ast.unparse(node.func) in ("os.system", "tarfile.open"):
                yield f"calls {ast.unparse(node.func)}"
            for keyword in node.keywords:
                if keyword.arg == "shell" and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value):
                    yield "starts a shell"


def test_no_module_runs_text_or_unpacks_objects() -> None:
    assert [(path, fault) for path in SOURCES for fault in faults(ast.parse(path.read_bytes()))] == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from yaml import load",
        "yaml.load(x)",
        "yaml.compose(x, Loader=yaml.FullLoader)",
        "eval('1')",
        "print()",
        "run(x, shell=True)",
        "run(x, shell=y)",
        "os.system('x')",
    ],
)
def test_the_check_itself_finds_what_it_looks_for(text: str) -> None:
    assert list(faults(ast.parse(text)))
