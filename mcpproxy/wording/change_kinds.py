"""The pages of the kinds of changes, for `mcpproxy compare --explain` and the documentation, from their table."""

from collections.abc import Iterator
from typing import Any, Final

from analysis.comparison.kind import Kind, Severity
from analysis.comparison.kinds.table import KINDS
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import fit
from mcpproxy.wording.nearest import MAX_NAME_CHARS, nearest
from mcpproxy.wording.spans import Role, Span, Style
from mcpproxy.wording.wrapping import wrapped

SEVERITY_MEANINGS: Final = {
    Severity.BREAKING: "something that worked before does not work now: a value proves it, or what was used is gone",
    Severity.WORSE: "a recorded behaviour got worse: a call fails, a rule is broken, a call takes longer",
    Severity.MAY_BREAK: "something that worked before may not work now, but nothing proves it",
    Severity.UNKNOWN: "it could not be decided whether the change is compatible",
    Severity.NOTE: "compatible, or only of interest",
}
"""The meaning of each severity, the worst first."""
ROLES: Final[dict[Severity, Role]] = {
    Severity.BREAKING: "bad",
    Severity.WORSE: "warm",
    Severity.MAY_BREAK: "warm",
    Severity.UNKNOWN: "warm",
    Severity.NOTE: "plain",
}
"""The colour of each severity."""
_LABEL_CELLS: Final = 12
_MIN_TITLE_CELLS: Final = 24


def kinds_by_group() -> dict[str, list[Kind]]:
    """Returns the kinds by the part of their ids before the slash, in the order of the table."""
    groups: dict[str, list[Kind]] = {}
    for kind in KINDS.values():
        groups.setdefault(kind.id.partition("/")[0], []).append(kind)
    return groups


def fail_on_words(kind: Kind) -> list[str]:
    """Returns the words of `--fail-on` that a change of a kind fails, if no missing witness lowers its severity."""
    words = [] if kind.severity is not Severity.BREAKING else ["breaking"]
    if kind.severity in (Severity.BREAKING, Severity.MAY_BREAK, Severity.UNKNOWN):
        words.append("may-break")
    return words + ([kind.fail_on] if kind.fail_on is not None and kind.fail_on not in words else [])


def page_of(kind: Kind) -> str:
    """Returns the page of a kind as Markdown."""
    title = f"{kind.title[:1].upper()}{kind.title[1:]}."
    return f"{title}\n\n**Why it matters.** {kind.why}\n\n**Example.**\n\n```text\n{kind.example}\n```"


def page_lines(kind: Kind, style: Style, width: int) -> Iterator[str]:
    """Yields the page of a kind for a terminal.

    Args:
        kind: the kind.
        style: the colours.
        width: the width of a line, in cells.
    """
    return map(style.paint, page_spans(kind, width))


def page_spans(kind: Kind, width: int) -> Iterator[list[Span]]:
    """Yields the page of a kind, in lines.

    Args:
        kind: the kind.
        width: the width of a line, in cells.
    """
    yield [Span(kind.id, "accent")]
    yield []
    yield from ([Span(line)] for line in wrapped(f"{kind.title[:1].upper()}{kind.title[1:]}.", width))
    yield []
    yield [Span("Why it matters", "accent")]
    yield from ([Span(f"  {line}")] for line in wrapped(kind.why, width - 2))
    yield []
    yield [Span("Example", "accent")]
    yield from ([Span(f"  {line}")] for part in kind.example.splitlines() for line in wrapped(part, width - 2))
    yield []
    words = ", ".join(fail_on_words(kind))
    facts = (
        ("severity", f"{kind.severity}: {SEVERITY_MEANINGS[kind.severity]}"),
        ("--fail-on", words or "never fails"),
    )
    for name, text in facts:
        for number, line in enumerate(wrapped(text, width - _LABEL_CELLS)):
            yield [Span(f"{'' if number else name:<{_LABEL_CELLS}}", "dim"), Span(line)]


def table_lines(style: Style, width: int) -> Iterator[str]:
    """Yields the table of all kinds for a terminal, by group.

    Args:
        style: the colours.
        width: the width of a line, in cells.
    """
    for number, (group, kinds) in enumerate(kinds_by_group().items()):
        yield from ("",) if number else ()
        yield style.paint([Span(group, "accent")])
        id_cells = max(len(kind.id) for kind in kinds)
        indent = 2 + 9 + 2 + id_cells + 2
        is_beside = width - indent >= _MIN_TITLE_CELLS
        for kind in kinds:
            lines = list(wrapped(kind.title, width - (indent if is_beside else 13)))
            head = [Span(f"  {kind.severity!s:<9}  ", ROLES[kind.severity])]
            yield style.paint(
                [*head, Span(f"{kind.id:<{id_cells}}  {lines.pop(0)}" if is_beside else fit(kind.id, width - 13))]
            )
            yield from (f"{'':<{indent if is_beside else 13}}{line}" for line in lines)


def kind_row(kind: Kind) -> dict[str, Any]:
    """Returns the members of a kind as JSON."""
    return {
        "id": kind.id,
        "severity": str(kind.severity),
        "title": kind.title,
        "why": kind.why,
        "example": kind.example,
        "fail_on": fail_on_words(kind),
    }


def unknown_kind_error(id_: str) -> str:
    """Returns the error for an id that no kind has, with the ids that end with it, or the nearest one."""
    similar_ids = [known for known in KINDS if known.endswith((f"/{id_}", f"-{id_}"))] if id_ else []
    suggestion = " or ".join(similar_ids) or nearest(id_, KINDS, 0.5)
    hint = f"perhaps {suggestion}" if suggestion else "`mcpproxy compare --explain` lists all kinds"
    return f"there is no kind of change {sanitise(id_, MAX_NAME_CHARS)}; {hint}"
