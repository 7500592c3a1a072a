"""Small changes of a module, each at one place in its text, found in its syntax tree."""

import ast
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

_COMPARISONS: Final = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "is": "is not",
    "is not": "is",
    "in": "not in",
    "not in": "in",
}
_OPERATOR: Final = re.compile(rb"<=|>=|==|!=|<|>|\bis\s+not\b|\bis\b|\bnot\s+in\b|\bin\b")
_JUNCTION: Final = re.compile(rb"\b(and|or)\b")
_NO_TEXT: Final = {"cast", "TypeVar", "NewType", "NamedTuple", "namedtuple"}
"""Functions whose string arguments are names for people and type checkers."""
_SIMPLE: Final = (ast.Expr, ast.Assign, ast.AugAssign, ast.Delete, ast.Raise)


class Mutant(NamedTuple):
    """One change of a module."""

    module: str
    line: int
    kind: str
    start: int
    """The bytes from here to `end` are replaced."""
    end: int
    before: str
    after: str
    lines: tuple[int, int]
    """First and last line of the statement, or of its head."""
    within: tuple[int, int] | None
    """First and last line of the body of the function around it; None if it runs when the module is imported."""

    @property
    def key(self) -> str:
        """A text that identifies the change."""
        return f"{self.module}:{self.line}:{self.start}:{self.kind}:{self.after}"

    def applied(self, text: str) -> str:
        """The module with the change."""
        data = text.encode()
        return (data[: self.start] + self.after.encode() + data[self.end :]).decode()


class _Finder:
    """Collects the changes of one module."""

    def __init__(self, module: str, text: str, choose: random.Random) -> None:
        self.module, self.data, self.choose = module, text.encode(), choose
        self.found: list[Mutant] = []
        self._starts = [0]
        for line in self.data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines, self._within = (1, 1), (0, 0)

    def visit(self, node: ast.AST) -> None:
        """Collect the changes of a node and of the nodes below it."""
        if isinstance(node, ast.JoinedStr) or _is_docstring(node) or _is_for_others(node):
            return
        lines, within = self._lines, self._within
        if isinstance(node, ast.stmt):
            self._lines = _head(node)
        self._change(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "type_params") or (isinstance(node, ast.Raise) and name == "exc"):
                continue
            if name == "body" and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._within = (node.body[0].lineno, node.end_lineno or node.lineno)
            if isinstance(node, ast.Call) and name == "args" and _named(node.func) in _NO_TEXT:
                continue
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST):
                    self.visit(each)
            self._within = within
        self._lines = lines

    def _change(self, node: ast.AST) -> None:
        if isinstance(node, _SIMPLE) and self._within != (0, 0):
            self._add(node, "pass", *self._span(node), "pass")
        match node:
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp():
                self._operator(node)
            case ast.If() | ast.While() | ast.IfExp() if _named(node.test) != "TYPE_CHECKING":
                start, end = self._span(node.test)
                self._add(node.test, "not", start, end, f"not ({self.data[start:end].decode()})")
            case ast.Constant():
                self._constant(node)
            case ast.Break():
                self._add(node, "jump", *self._span(node), "continue")
            case ast.Continue():
                self._add(node, "jump", *self._span(node), "break")
            case ast.Return(value=ast.expr() as value) if not _is_falsy(value):
                self._add(node, "return", *self._span(value), "None")

    def _operator(self, node: ast.Compare | ast.BoolOp | ast.UnaryOp) -> None:
        match node:
            case ast.Compare():
                for left, right in zip((node.left, *node.comparators), node.comparators, strict=False):
                    self._between(node, "comparison", left, right, _OPERATOR)
            case ast.BoolOp():
                for left, right in zip(node.values, node.values[1:], strict=False):
                    self._between(node, "and/or", left, right, _JUNCTION)
            case ast.UnaryOp(op=ast.Not()):
                start, end = self._span(node)[0], self._span(node.operand)[0]
                if self.data[start:end].strip() == b"not":
                    self._add(node, "not", start, end, "")

    def _constant(self, node: ast.Constant) -> None:
        start, end = self._span(node)
        match node.value:
            case bool():
                self._add(node, "truth", start, end, str(not node.value))
            case int() | float():
                self._add(node, "number", start, end, repr(node.value + self.choose.choice((-1, 1))))
            case str() if node.value:
                self._add(node, "text", start, end, '""')
            case bytes() if node.value:
                self._add(node, "text", start, end, 'b""')

    def _between(self, node: ast.AST, kind: str, left: ast.expr, right: ast.expr, pattern: re.Pattern[bytes]) -> None:
        first, last = self._span(left)[1], self._span(right)[0]
        if match := pattern.search(self.data, first, last):
            word = " ".join(match[0].decode().split())
            after = _COMPARISONS[word] if kind == "comparison" else "or" if word == "and" else "and"
            self._add(node, kind, *match.span(), after)

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def _add(self, node: ast.AST, kind: str, start: int, end: int, after: str) -> None:
        line = self.data.count(b"\n", 0, start) + 1
        before = self.data[start:end].decode()
        within = self._within if self._within != (0, 0) else None
        self.found.append(Mutant(self.module, line, kind, start, end, before, after, self._lines, within))


def _is_another(mutant: Mutant, text: str) -> bool:
    """Whether a changed module still compiles and differs in its syntax tree."""
    try:
        changed = ast.parse(mutant.applied(text))
    except SyntaxError:
        return False
    return ast.dump(changed) != ast.dump(ast.parse(text))


def _head(node: ast.stmt) -> tuple[int, int]:
    """The lines of a statement; of one that has a body, those before the body."""
    body = getattr(node, "body", None)
    last = node.end_lineno or node.lineno
    if isinstance(body, list) and body:
        last = max(node.lineno, body[0].lineno - 1)
    return node.lineno, last


def _named(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_falsy(node: ast.expr) -> bool:
    """Whether an expression is a constant that most callers take for None."""
    return isinstance(node, ast.Constant) and not node.value


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_for_others(node: ast.AST) -> bool:
    """Whether a statement is only for type checkers or importers of the module."""
    return isinstance(node, ast.Assign) and any(_named(each) in ("__all__", "TYPE_CHECKING") for each in node.targets)


def mutants(texts: Mapping[str, str], count: int, seed: str) -> list[Mutant]:
    """Choose `count` changes of modules, at most one per line and of all kinds if possible; the same in each run."""
    choose = random.Random(seed)
    kinds: dict[str, list[Mutant]] = defaultdict(list)
    for module in sorted(texts):
        finder = _Finder(module, texts[module], choose)
        finder.visit(ast.parse(texts[module]))
        for mutant in finder.found:
            kinds[mutant.kind].append(mutant)
    for each in kinds.values():
        choose.shuffle(each)
    chosen: list[Mutant] = []
    taken: set[tuple[str, int]] = set()
    for mutant in _in_turn(list(kinds.values())):
        if len(chosen) == count:
            break
        if (mutant.module, mutant.line) not in taken and _is_another(mutant, texts[mutant.module]):
            taken.add((mutant.module, mutant.line))
            chosen.append(mutant)
    return sorted(chosen, key=lambda mutant: (mutant.module, mutant.start))


def _in_turn(piles: Sequence[list[Mutant]]) -> Iterator[Mutant]:
    """One item of each pile in turn."""
    for at in range(max(map(len, piles), default=0)):
        yield from (pile[at] for pile in piles if at < len(pile))
