"""How the tree is laid out: what is shipped, what every file has, and what none of mcpproxy's files may do."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("captures", "analysis", "mcpproxy")

SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


# ---- the build


def test_three_packages_are_shipped_by_the_build_configuration() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert config["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == list(PACKAGES)
    assert config["project"]["scripts"] == {"mcpproxy": "mcpproxy.__main__:main"}


# ---- every file


DOCSTRING = re.compile(rb'(?:#.*\n|\n)*r?"""(.{21,}?)"""', re.DOTALL)


def test_every_module_says_what_it_is_for() -> None:
    assert [path for path in SOURCES if not DOCSTRING.match(path.read_bytes())] == []


def test_modules_are_named_for_what_they_hold() -> None:
    unsaid = {"common", "core", "event", "events", "flow", "flows", "helper", "helpers", "log", "manager", "misc"}
    unsaid |= {"packet", "packets", "tools", "util", "utils"}
    assert [str(path) for path in SOURCES if {path.stem, path.parent.name} & unsaid] == []


# ---- what none of them may do

FORBIDDEN_MODULES = {"dill", "marshal", "pickle", "shelve"}
SAFE_YAML = {"parse", "compose", "safe_load", "SafeLoader", "YAMLError", "MarkedYAMLError"}
SAFE_YAML |= {"Node", "CollectionNode", "MappingNode", "ScalarNode", "SequenceNode"}
SAFE_YAML |= {f"{name}Event" for name in ("DocumentStart", "DocumentEnd", "StreamEnd", "Alias", "Scalar")}
SAFE_YAML |= {f"{name}Event" for name in ("SequenceStart", "SequenceEnd", "MappingEnd")}
"""The parts of PyYAML that may be used: none that create the objects that a file names."""
FORBIDDEN_CALLS = {"__import__", "compile", "eval", "exec", "print"}
"""The first four run their argument; a bare `print` does not show whether it prints data or a message to the user."""

WORDS = re.compile(
    rb"dill|marshal|pickle|shelve|yaml|shell|os\.system|tarfile|(?<![.\w])(?:__import__|compile|eval|exec|print)\("
)
"""A file without any of these words is not parsed."""


def named(node: ast.AST) -> str:
    """The dotted name of an expression like `a.b.c`; a part that is not a name is left empty."""
    if isinstance(node, ast.Attribute):
        return f"{named(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def faults(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                f"imports {name.name}" for name in node.names if name.name.partition(".")[0] in FORBIDDEN_MODULES
            )
        elif isinstance(node, ast.ImportFrom) and node.module == "yaml":
            yield "imports from yaml: write yaml.NAME, so that this test sees it"
        elif isinstance(node, ast.Attribute) and named(node.value) == "yaml" and node.attr not in SAFE_YAML:
            yield f"uses yaml.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in FORBIDDEN_MODULES:
            yield f"imports {node.module}"
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
                yield f"calls {node.func.id}"
            if named(node.func) in ("os.system", "tarfile.open"):
                yield f"calls {named(node.func)}"
            for keyword in node.keywords:
                if keyword.arg == "shell" and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value):
                    yield "starts a shell"


def test_no_module_runs_text_or_unpacks_objects() -> None:
    found = [
        (path, fault)
        for path in SOURCES
        if WORDS.search(path.read_bytes())
        for fault in faults(ast.parse(path.read_bytes()))
    ]
    assert found == []


def test_the_check_itself_finds_what_it_looks_for() -> None:
    for text in (
        "import pickle",
        "from yaml import load",
        "yaml.load(x)",
        "yaml.compose(x, Loader=yaml.FullLoader)",
        "eval('1')",
        "print()",
        "run(x, shell=True)",
        "run(x, shell=y)",
        "os.system('x')",
    ):
        assert list(faults(ast.parse(text))), text
        assert WORDS.search(text.encode()), text


# ---- how they import each other

OURS = rf"(?:{'|'.join(PACKAGES)})\b[\w.]*"
IMPORTS = re.compile(rf"^[ \t]*(from {OURS} import (?:\([^)]*\)|[^(\n]*)|import {OURS}(?: as \w+)?$)", re.MULTILINE)
"""The statements that import from mcpproxy's packages, including those in functions and those only for types."""


def name_of(path: Path) -> str:
    """The name of a module."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_in(text: str, modules: set[str]) -> set[str]:
    """The modules that a module imports."""
    found = set()
    for node in ast.parse("\n".join(IMPORTS.findall(text))).body:
        if isinstance(node, ast.ImportFrom):
            # An imported name is either a module of a package or something in a module.
            found |= {whole if (whole := f"{node.module}.{one.name}") in modules else node.module for one in node.names}
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    return {name for name in found if name in modules}


def circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that import each other, directly or indirectly, found by Tarjan's algorithm."""
    found: list[set[str]] = []
    low: dict[str, int] = {}
    path: list[str] = []

    def visit(module: str) -> None:
        at, place = low.setdefault(module, len(low)), len(path)
        path.append(module)
        for other in sorted(imports[module]):
            if other not in low:
                visit(other)
            low[module] = min(low[module], low[other])
        if low[module] == at:
            found.append({*path[place:]})
            low.update(dict.fromkeys(path[place:], len(imports)))
            del path[place:]

    for module in imports:
        if module not in low:
            visit(module)
    return [circle for circle in found if len(circle) > 1]


def test_at_most_two_modules_import_each_other() -> None:
    texts = {name_of(path): path.read_text("utf-8") for path in SOURCES}
    imports = {name: imports_in(text, {*texts}) - {name} for name, text in texts.items()}
    assert sum(map(len, imports.values())) > 3 * len(imports), "the check does not find the imports"
    large = [sorted(circle) for circle in circles(imports) if len(circle) > 2]
    assert large == []


def test_the_check_finds_circles() -> None:
    modules = {"analysis", "analysis.a", "analysis.b", "captures.c"}
    for text in (
        "import analysis.a",
        "from analysis.a import x",
        "from analysis import a",
        "from analysis.a import (\n    x,\n    y,\n)",
        "if TYPE_CHECKING:\n    from analysis.a import x",
        "def f():\n    from analysis.a import x",
    ):
        assert imports_in(text, modules) == {"analysis.a"}, text
    assert imports_in("from analysis import x\nfrom json import a\n# from analysis.a import x", modules) == {"analysis"}
    ways = {"d": "a", "a": "bz", "b": "c", "c": "a", "x": "yc", "y": "x", "z": ""}
    assert circles({module: {*others} for module, others in ways.items()}) == [{"a", "b", "c"}, {"x", "y"}]


# ---- facts that are written in one place

CODES = ROOT / "analysis/protocol/error_codes.py"
CODE = re.compile(r"(?<![\w.])-32[0-9]{3}(?!\w)")
"""An error code of JSON-RPC or MCP in digits."""
COMMENT = {".js": re.compile("//.*"), ".sql": re.compile("--.*")}


def codes_in_python(tree: ast.AST) -> Iterator[str]:
    """The error codes in digits, as numbers and in texts; those in docstrings and comments are allowed."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            yield from CODE.findall(text) if isinstance(text, str) else ()
        elif isinstance(node, ast.UnaryOp):
            yield from CODE.findall(ast.unparse(node))


def codes_in(path: Path, text: str) -> list[str]:
    """The error codes in digits in one of mcpproxy's files."""
    if path.suffix == ".py":
        # A file without such digits is not parsed.
        return list(codes_in_python(ast.parse(text))) if re.search("32_?[0-9]{3}", text) else []
    return CODE.findall(COMMENT[path.suffix].sub("", text))


def test_error_codes_are_in_digits_in_their_table_only() -> None:
    others = [path for package in PACKAGES for kind in COMMENT for path in (ROOT / package).rglob(f"*{kind}")]
    found = {path: codes for path in (*SOURCES, *others) if (codes := codes_in(path, path.read_text("utf-8")))}
    assert found.pop(CODES), "the check does not find the codes where they are"
    assert found == {}, "take the name from analysis.protocol.error_codes"


def test_the_check_finds_error_codes() -> None:
    for name, text in (
        ("a.py", "NOT_FOUND = -32601"),
        ("a.py", "x in (1, -32_601)"),
        ("a.py", "x = 'refused with -32601'"),
        ("a.py", "x = f'{y}, not -32601'"),
        ("a.py", "x = b'-32601'"),
        ("a.py", "x = int('-32601')"),
        ("a.sql", "when code = -32601 then 'Method not found'"),
        ("a.sql", "'deadline|-32001'"),
        ("a.js", "if (code === -32601) {}"),
    ):
        assert codes_in(Path(name), text), text
    for name, text in (
        ("a.py", '"""A method is refused with -32601."""\nx = 1  # not -32601'),
        ("a.py", 'class A:\n    code: int\n    """Such as -32601."""'),
        ("a.py", "port = 32601\nx = -326010\ny = 'x-32601'\nz = a - 1"),
        ("a.sql", "-- not -32601\nselect '2026-32001-x'"),
        ("a.js", "// not -32601"),
    ):
        assert not codes_in(Path(name), text), text


# ---- what no test may leave to chance

TESTS = ROOT / "tests"
NO_TESTS = ("bench", "corpus", "film", "peers", "zoo/programs")
"""Measurements, data, the film of the documentation, and servers that tests start."""
WAITS = {
    "tests/harness.py",
    "tests/mcpproxy/shipping/s3.py",
    "tests/mcpproxy/tui/stage.py",
    "tests/zoo/gateways.py",
    "tests/zoo/visit.py",
}
"""Files with helpers that wait for a condition or for foreign programs, or are slow so that others wait."""
HOLDS = {"tests/mcpproxy/cli/test_up_integration.py", "tests/mcpproxy/relay/test_stdio_integration.py"}
"""Tests that must outlast one of mcpproxy's time-outs, as nothing observable marks its end."""
OF_NO_USE = {"bind", "close", "create_server", "getsockname", "int", "setsockopt", "socket", "str"}
"""The calls of a function that only finds a free port, which any process may take afterwards."""
SHORT = re.compile("[0-9a-fA-F]{1,6}")
"""A text so short that random tags, checksums, ports and folder names contain it once in a few hundred runs."""
TODAY = {"now", "today", "utcnow", "localtime", "ctime"}
SUSPECT = re.compile(
    rb"sleep\((?!0\))|getsockname|(?<![._])settings\(|random\.[a-z]|Random\(\)|Event\(\)\.wait|select\(\[\], ?\[\]|"
    rb"(?:datetime|date|dt|time)\.(?:now|today|utcnow|localtime|ctime)\(|\.(?:wait|join)\([1-9]|timeout=[1-9]|"
    rb'"[0-9a-fA-F]{1,6}" not in '
)
"""A file without any of these words is not parsed."""


def chances(tree: ast.Module) -> Iterator[str]:
    """What in a test may give another result in the next run, each with its line."""
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    for node in ast.walk(tree):
        for what in _chances(node, imported):
            yield f"line {getattr(node, 'lineno', 0)}: {what}"


def _chances(node: ast.AST, imported: set[str]) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.With) and not any(isinstance(one, ast.Yield) for one in ast.walk(node)):
        called = {named(one.func).rpartition(".")[2] for one in ast.walk(node) if isinstance(one, ast.Call)}
        if "getsockname" in called and called <= OF_NO_USE:
            yield "closes the socket of its free port, so that another process can take the port"
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotIn) and _is_short(node.left):
        yield "looks for digits that a number made at random may have: take a text with other letters"
    if not isinstance(node, ast.Call):
        return
    name = named(node.func)
    owner, _, last = name.rpartition(".")
    if last == "sleep" and not _is_zero(node):
        yield "sleeps: wait for a condition, with wait_until"
    if (
        owner == ""
        and name.startswith(".wait")
        and isinstance(node.func, ast.Attribute)
        and _makes(node.func.value, "Event")
    ):
        yield "sleeps: wait for a condition, with wait_until"
    if name == "select.select" and all(isinstance(one, ast.List) and not one.elts for one in node.args[:3]):
        yield "sleeps: wait for a condition, with wait_until"
    if any(isinstance(one, ast.Constant) and type(one.value) is int and one.value for one in _patience(node, last)):
        yield "has a deadline of its own: take DEADLINE_S of tests/harness.py"
    if (
        last in TODAY
        and owner.rpartition(".")[2] in ("datetime", "date", "dt", "time")
        and (last != "localtime" or not node.args)
    ):
        yield f"asks for today ({name})"
    if name == "settings":
        yield "has settings of its own: take @examples of tests/examples.py"
    if (owner == "random" and "random" in imported and last[:1].islower()) or (
        last in ("Random", "SystemRandom") and not node.args
    ):
        yield "draws without a seed"


def _patience(node: ast.Call, last: str) -> Iterator[ast.AST]:
    """The arguments that limit how long a call waits for something that should take a moment."""
    if last in ("wait", "join") or (isinstance(node.func, ast.Attribute) and node.func.attr in ("wait", "join")):
        yield from node.args[:1]
    yield from (one.value for one in node.keywords if one.arg == "timeout")


def _is_zero(node: ast.Call) -> bool:
    return isinstance(node.args[0], ast.Constant) and node.args[0].value == 0 if node.args else False


def _is_short(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Constant) else None
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return isinstance(text, str) and SHORT.fullmatch(text) is not None


def _makes(node: ast.AST, kind: str) -> bool:
    return isinstance(node, ast.Call) and named(node.func).rpartition(".")[2] == kind


@pytest.mark.costly("reads every test")
def test_no_test_leaves_anything_to_chance() -> None:
    left: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name.startswith(tuple(f"tests/{place}/" for place in NO_TESTS)) or not SUSPECT.search(path.read_bytes()):
            continue
        allowed = "sleeps" if name in WAITS else "has settings" if name == "tests/examples.py" else "-"
        if found := [what for what in chances(ast.parse(path.read_bytes())) if f": {allowed}" not in what]:
            left[name] = found
    assert {name: found for name, found in left.items() if name not in HOLDS} == {}


def test_the_check_finds_what_depends_on_chance() -> None:
    for text in (
        "time.sleep(1)",
        "sleep(0.1)",
        "asyncio.sleep(x)",
        "threading.Event().wait(0.1)",
        "select.select([], [], [], 0.1)",
        "with socket.socket() as free:\n    free.bind(('127.0.0.1', 0))\n    port = int(free.getsockname()[1])",
        "def f():\n    one = create_server(('', 0))\n    at = one.getsockname()[1]\n    one.close()\n    return at",
        "datetime.now(UTC)",
        "date.today()",
        "dt.datetime.now()",
        "time.localtime()",
        "@settings(max_examples=3)\ndef test(): ...",
        "import random\nrandom.choice(x)",
        "Random()",
        "random.Random().random()",
        "process.wait(60)",
        "Thread(target=x).join(5)",
        "run(x, timeout=60)",
        'assert "4711" not in told',
        'assert b"abc" not in path.read_bytes()',
    ):
        assert list(chances(ast.parse(text))), text
        assert SUSPECT.search(text.encode()), text
    for text in (
        "asyncio.sleep(0)",
        "with socket.create_server(('', 0)) as one:\n    port = one.getsockname()[1]\n    one.accept()",
        "time.localtime(0)",
        "with socket.socket() as ours:\n    ours.bind(('127.0.0.1', 0))\n    yield ours.getsockname()[1]",
        "random.Random(1).choice(x)",
        "def draw(random: Random): random.choice(x)",
        "select.select([one], [], [], 60)",
        "process.wait(0)",
        "', '.join(x)",
        "run(x, timeout=DEADLINE_S)",
        'assert "zoq4711" not in told',
    ):
        assert not list(chances(ast.parse(text))), text
