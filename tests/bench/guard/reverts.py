"""Reverts a past commit on today's tree, as far as it still applies, and finds the tests that came with it."""

import ast
import re
import subprocess
import sysconfig
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.guard.scratch import git
from tests.bench.guard.token_merge import merged_text

_MODULE: Final = re.compile(r"(captures|analysis|mcpproxy)/.*\.py")
_HUNK: Final = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")
_STAGED: Final = re.compile(r"\d+ (\w+) ([123])\t(.*)")

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Revert(NamedTuple):
    """How today's tree would look without a commit."""

    commit: str
    subject: str
    texts: Mapping[str, str]
    """The new text of each module of the product that would differ, by its path in today's tree."""
    names: frozenset[str]
    """The tests that the commit added or changed."""
    files: Sequence[str]
    """The paths of the test modules that the commit changed, as of that commit."""


def revert(tree: Path, commit: str) -> Revert:
    """Revert a commit's changes to the product, in the repository at `tree`, whose files stay as they are.

    Modules that have moved since are found, and code in which names have changed since (see `merged_text`). What has
    changed more is kept. So is any part whose removal would leave a module that does not compile or uses undefined
    names.
    """
    base = _alone(tree, commit)
    ours, theirs = _alone(tree, "HEAD", base), _alone(tree, f"{commit}^", base)
    merged, *rest = git(tree, "merge-tree", "--write-tree", "--no-messages", ours, theirs, check=False).splitlines()
    staged: dict[str, dict[int, str]] = defaultdict(dict)
    for line in rest:
        if (match := _STAGED.match(line)) and _MODULE.fullmatch(match[3]):
            staged[match[3]][int(match[2])] = match[1]
    texts = {
        path: git(tree, "show", f"{merged}:{path}")
        for path in git(tree, "diff", "--name-only", "--diff-filter=M", "HEAD", merged).splitlines()
        if _MODULE.fullmatch(path) and path not in staged
    }
    texts |= {path: _reconciled(tree, blobs) for path, blobs in staged.items() if set(blobs) == {1, 2, 3}}
    for path, blobs in staged.items():
        if set(blobs) == {1, 3} and (today := _path_today(tree, commit, path)):
            blobs[2] = git(tree, "rev-parse", f"HEAD:{today}").strip()
            texts[today] = _reconciled(tree, blobs)
    texts = {path: _sound(git(tree, "show", f"HEAD:{path}"), text) for path, text in texts.items()}
    texts = {path: text for path, text in texts.items() if text}
    subject = git(tree, "log", "-1", "--format=%s", commit).strip()
    names, files = _tests_of(tree, commit)
    return Revert(commit, subject, texts, frozenset(names), files)


def _alone(tree: Path, revision: str, *parents: str) -> str:
    """Create a commit with the tree of `revision` and other parents, so that git can merge it; returns its id."""
    given = [word for parent in parents for word in ("-p", parent)]
    return git(tree, "commit-tree", "-m", "guard", *given, f"{revision}^{{tree}}").strip()


def _reconciled(tree: Path, blobs: Mapping[int, str]) -> str:
    base, ours, theirs = (git(tree, "cat-file", "blob", blobs[stage]) for stage in (1, 2, 3))
    return merged_text(base, theirs, ours)


def _path_today(tree: Path, commit: str, path: str) -> str | None:
    """Returns where a module is that was renamed, perhaps several times, so that git finds it only step by step."""
    options = ("--reverse", "--topo-order", "--find-renames=40%", "--diff-filter=R", "--format=", "--name-status")
    for line in git(tree, "log", *options, f"{commit}..HEAD", "--", "captures", "analysis", "mcpproxy").splitlines():
        _status, before, after = line.split("\t")
        if before == path:
            path = after
    return path if git(tree, "ls-tree", "--name-only", "HEAD", path).strip() else None


def _sound(before: str, after: str) -> str:
    """Returns the new text of a module, with as many changes as still compile; empty if nothing changes."""
    if not _is_defined(after):
        lines, wanted = before.splitlines(keepends=True), after.splitlines(keepends=True)
        after = before
        for tag, at, end, first, last in reversed(SequenceMatcher(None, lines, wanted, autojunk=False).get_opcodes()):
            changed = [*lines[:at], *wanted[first:last], *lines[end:]]
            if tag != "equal" and _is_defined("".join(changed)):
                lines, after = changed, "".join(changed)
    return after if _code(before) != _code(after) else ""


def _is_defined(text: str) -> bool:
    """Whether a module compiles and defines all names that it uses; if not, any test of it fails."""
    try:
        compile(text, "module", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    ruff = Path(sysconfig.get_path("scripts")) / "ruff"
    command = [str(ruff), "check", "--isolated", "--quiet", "--select", "F821,F823", "--target-version", "py311", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False).returncode == 0


def _code(text: str) -> str:
    """A module without its docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _tests_of(tree: Path, commit: str) -> tuple[set[str], list[str]]:
    names: set[str] = set()
    lines: dict[str, set[int]] = defaultdict(set)
    path = ""
    for line in git(tree, "diff", "-U0", f"{commit}^", commit, "--", "tests").splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ b/")
        elif (match := _HUNK.match(line)) and path.endswith(".py"):
            first, count = int(match[1]), int(match[2] or 1)
            lines[path] |= set(range(first, first + max(count, 1)))
    for path, touched in lines.items():
        for function in functions(git(tree, "show", f"{commit}:{path}")):
            if touched & set(range(function.lineno, (function.end_lineno or 0) + 1)):
                names.add(function.name)
    return {name for name in names if name.startswith("test_")}, list(lines)


def functions(text: str) -> Iterator[Function]:
    """All functions of a module, including methods and nested functions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function):
            yield node


class Suite:
    """The tests of a tree, found by reading it."""

    def __init__(self, tree: Path) -> None:
        self.texts: dict[str, str] = {}
        """The test modules, by path."""
        self.by_name: dict[str, list[str]] = defaultdict(list)
        """The node ids of each test, by the name of its function."""
        self.ids: set[str] = set()
        for file in sorted((tree / "tests").rglob("*.py")):
            path, text = str(file.relative_to(tree)), file.read_text("utf-8")
            if file.name.startswith("test_"):
                self.texts[path] = text
                for node in ast.parse(text).body:
                    self._add(path, node)

    def _add(self, place: str, node: ast.stmt) -> None:
        if isinstance(node, Function) and node.name.startswith("test_"):
            self.ids.add(f"{place}::{node.name}")
            self.by_name[node.name].append(f"{place}::{node.name}")
        elif isinstance(node, ast.ClassDef):
            for each in node.body:
                self._add(f"{place}::{node.name}", each)

    def about(self, modules: Sequence[str]) -> list[str]:
        """The test modules that name one of these modules of the product."""
        names = [path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in modules]
        words = [re.compile(rf"\b{re.escape(name)}\b") for name in names]
        parts = [name.rpartition(".") for name in names]
        words += [re.compile(rf"from {re.escape(package)} import .*\b{last}\b") for package, _, last in parts]
        return [path for path, text in self.texts.items() if any(word.search(text) for word in words)]
