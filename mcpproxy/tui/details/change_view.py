"""Change view: a change in full, with the values of both sides next to each other."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

from analysis.comparison.change import Change, Comparison
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.comparison_messages import ChangeDetail
from mcpproxy.tui.rows.comparison_rows import SIGNS
from mcpproxy.tui.text.lines import wrap
from mcpproxy.wording.aligned_json import AlignedLine, first_difference
from mcpproxy.wording.cells import cells, fit
from mcpproxy.wording.change_kinds import ROLES
from mcpproxy.wording.changes import MAX_NAME_CHARS, message_text, place_text, subject_text
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.spans import Role, Span, fit_spans
from mcpproxy.wording.wrapping import wrapped

INDENT: Final = 2
MIN_SIDE_CELLS: Final = 8
"""The minimum width of the values of a side, in cells."""
_SEPARATOR_CELLS: Final = 3

Lines = list[list[Span]]


def change_lines(
    change: Change, comparison: Comparison, detail: ChangeDetail | None, width: int, trouble: str = ""
) -> Lines:
    """Returns a change in full.

    Args:
        change: the change.
        comparison: the comparison that it belongs to.
        detail: its values; None while they are not known.
        width: the width of a line, in cells.
        trouble: why its values cannot be shown; empty if they can.
    """
    severity = change.severity
    lines: Lines = [
        [
            Span(f"{SIGNS[severity]} {severity}  ", ROLES[severity]),
            Span(change.kind.id, "accent"),
            Span(f"  {change.kind.title}", "dim"),
        ]
    ]
    sentence = f"{subject_text(change)}: {message_text(change)}"
    lines += [[Span(line)] for line in wrapped(sentence, width)]
    if change.lowered is not None:
        reason = f": {sanitise(change.unproved, MAX_NAME_CHARS)}" if change.unproved else ""
        text = f"{change.lowered}, not {change.kind.severity}, because nothing proves it{reason}"
        lines += [[Span(line, "dim")] for line in wrapped(text, width)]
    lines += _witness_lines(change, detail, width)
    lines.append([])
    lines += _value_lines(change, comparison, detail, width)
    if detail is None:
        missing_text = f"{sanitise(trouble, None)}; c: compare again" if trouble else "…"
        lines += [[Span(line, "bad" if trouble else "dim")] for line in wrapped(missing_text, width)]
    elif not detail.is_whole:
        lines.append([Span("… more: see the frames", "bad")])
    lines += [[], *([Span(line, "dim")] for line in wrapped(change.kind.why, width))]
    return [fit_spans(line, width)[0] for line in lines]


def _witness_lines(change: Change, detail: ChangeDetail | None, width: int) -> Lines:
    """Returns the value that proves a change; nothing if there is none."""
    if change.witness is None:
        return []
    words = "valid before, not now" if change.witness.fits_old else "valid now, not before"
    text = detail.witness if detail is not None else ""
    return [
        [Span("witness", "accent"), Span(f"  {words}; created by mcpproxy", "dim")],
        *([Span(f"  {piece}")] for piece in wrap(text, max(MIN_SIDE_CELLS, width - INDENT))),
    ]


def _value_lines(change: Change, comparison: Comparison, detail: ChangeDetail | None, width: int) -> Lines:
    """Returns the places of both sides, and below them the values."""
    side_cells = max(MIN_SIDE_CELLS, (width - _SEPARATOR_CELLS) // 2)
    old_head, new_head = (
        f"{word}  {place_text(place, side)}".rstrip()
        for word, place, side in (("was", change.old, comparison.old), ("now", change.new, comparison.new))
    )
    lines: Lines = [
        [
            *_padded([Span(fit(old_head, side_cells), "accent")], side_cells),
            Span(" │ ", "dim"),
            Span(new_head, "accent"),
        ]
    ]
    for line in detail.lines if detail is not None else ():
        lines += side_by_side(line, side_cells)
    return lines


def side_by_side(line: AlignedLine, side_cells: int) -> Iterator[list[Span]]:
    """Yield a line of both sides, wrapped; between them is `≠` where they differ, `-` or `+` where one has nothing.

    Args:
        line: the line.
        side_cells: the width of each side, in cells.
    """
    if line.omitted:
        yield [Span(f"… {count_text(line.omitted, 'equal line')}", "dim")]
        return
    indent = min(INDENT * line.depth, side_cells // 2)
    sign = "│" if line.is_equal else "-" if line.new is None else "+" if line.old is None else "≠"
    separator = Span(f" {sign} ", "dim" if line.is_equal else "accent" if sign == "+" else "bad")
    old_other, new_other = (line.old, line.new) if line.is_equal else (line.new, line.old)
    old_pieces = marked_pieces(line.old, old_other, "bad", side_cells - indent)
    new_pieces = marked_pieces(line.new, new_other, "accent", side_cells - indent)
    for old_spans, new_spans in zip_longest(old_pieces, new_pieces, fillvalue=()):
        yield [
            *_padded([Span(" " * indent), *old_spans], side_cells),
            separator,
            *([Span(" " * indent), *new_spans] if new_spans else []),
        ]


def one_above_other(line: AlignedLine, width: int) -> Iterator[list[Span]]:
    """Yield a line of both sides, wrapped: once if they are equal, else `-` with the old and `+` with the new text.

    Args:
        line: the line.
        width: the width, in cells.
    """
    if line.omitted:
        yield [Span(f"  … {count_text(line.omitted, 'equal line')}", "dim")]
        return
    indent = min(INDENT * line.depth, width // 2)
    both: tuple[str, str | None, str | None, Role] = (" ", line.old, line.old, "plain")
    old: tuple[str, str | None, str | None, Role] = ("-", line.old, line.new, "bad")
    new: tuple[str, str | None, str | None, Role] = ("+", line.new, line.old, "accent")
    for sign, text, other, role in (both,) if line.is_equal else (old, new):
        for number, spans in enumerate(marked_pieces(text, other, role, max(1, width - indent - INDENT))):
            yield [Span(f"{sign if not number else ' '} ", role), Span(" " * indent), *spans]


def marked_pieces(text: str | None, other: str | None, role: Role, width: int) -> Iterator[Sequence[Span]]:
    """Yield a text in pieces that fit, with the part that differs from the other side's text in a role."""
    if text is None:
        return
    start, end = _different_part(text, other)
    position = 0
    for piece in wrap(text, width):
        shown_text = piece.rstrip(" ") if len(piece) > width else piece
        first, last = (max(0, min(bound - position, len(shown_text))) for bound in (start, end))
        parts = (Span(shown_text[:first]), Span(shown_text[first:last], role), Span(shown_text[last:]))
        yield [part for part in parts if part.text]
        position += len(piece)


def _different_part(text: str, other: str | None) -> tuple[int, int]:
    """Returns where the part of a text that differs from another begins and ends."""
    if other is None:
        return 0, 0  # the sign says it all
    if text.endswith(",") != other.endswith(","):  # what separates values is no part of them
        text, other = text.removesuffix(","), other.removesuffix(",")
    start = first_difference(text, other)
    shared_end = first_difference(text[start:][::-1], other[start:][::-1])
    return start, len(text) - shared_end


def _padded(spans: Sequence[Span], width: int) -> list[Span]:
    used_cells = sum(cells(span.text) for span in spans)
    return [*spans, Span(" " * max(0, width - used_cells))]
