"""Breadcrumb: where the user is, from the list of sessions down: `sessions › everything · session 1 › frame 18`."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from mcpproxy.tui.widgets.clickable_line import Piece
from mcpproxy.wording.cells import cells, fit
from mcpproxy.wording.spans import Span

SEPARATOR: Final = " › "
ELLIPSIS: Final = "…"
MIN_NAME_CELLS: Final = 12
"""The minimum width of a cut name, in cells; if there is less room, a crumb is left out instead."""


class Crumb(NamedTuple):
    """One step of the breadcrumb."""

    text: str
    """The sanitised text."""
    target: object = None
    """What a click on it opens; None for nothing."""
    is_name: bool = False
    """Whether it is a name from a capture, which may be cut."""
    after: str = ""
    """The text after the name, which is never cut."""


def fitted_pieces(crumbs: Sequence[Crumb], width: int) -> list[Piece]:
    """Returns the crumbs in at most `width` cells.

    If there is not enough room, the first crumb is left out, then the name is cut, then the crumbs after the name are
    left out, and then the name itself; the last crumb stays.
    """
    for number, candidate in enumerate(_candidates(crumbs)):
        other_cells = sum(cells(crumb.after if crumb.is_name else crumb.text) for crumb in candidate)
        other_cells += cells(SEPARATOR) * (len(candidate) - 1)
        name_cells = [cells(crumb.text) for crumb in candidate if crumb.is_name]
        if (
            other_cells + sum(name_cells if number == 0 else (min(size, MIN_NAME_CELLS) for size in name_cells))
            <= width
        ):
            return _pieces(
                [
                    crumb._replace(text=fit(crumb.text, width - other_cells)) if crumb.is_name else crumb
                    for crumb in candidate
                ]
            )
    return _pieces([crumb._replace(text=fit(crumb.text, width)) for crumb in crumbs[-1:]])


def _candidates(crumbs: Sequence[Crumb]) -> list[list[Crumb]]:
    """Returns the ways to show the crumbs, from all of them to only the last."""
    ellipsis: Crumb = Crumb(ELLIPSIS)
    name_at = next((number for number, crumb in enumerate(crumbs) if crumb.is_name), 0)
    candidates = [list(crumbs)]
    if len(crumbs) > 2:
        candidates.append([ellipsis, *crumbs[max(1, name_at) :]])
    if 0 < name_at < len(crumbs) - 2:
        candidates.append([ellipsis, crumbs[name_at], ellipsis, crumbs[-1]])
    if len(crumbs) > 1:
        candidates.append([ellipsis, crumbs[-1]])
    return candidates


def _pieces(crumbs: Sequence[Crumb]) -> list[Piece]:
    pieces: list[Piece] = []
    for number, crumb in enumerate(crumbs):
        if number:
            pieces.append(Piece(Span(SEPARATOR, "dim")))
        is_last = number == len(crumbs) - 1
        pieces.append(Piece(Span(crumb.text + crumb.after, "accent" if is_last else "dim"), crumb.target))
    return pieces
