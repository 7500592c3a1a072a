"""Breadcrumb: where the user is, from the list of sessions down: `sessions › everything · session 1 › frame 18`."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from mcpproxy.tui.widgets.clickable_line import Piece
from mcpproxy.wording.cells import cells, fit
from mcpproxy.wording.spans import Span

SEPARATOR: Final = " › "
LEFT_OUT: Final = "…"
LEAST: Final = 12
"""How many cells a name keeps before a crumb is left out instead."""


class Crumb(NamedTuple):
    """A place on the way to where the user is."""

    text: str
    """The sanitised text."""
    target: object = None
    """Where a click on it leads; None if nowhere."""
    is_name: bool = False
    """Whether it is a name from a capture, which may be cut."""
    after: str = ""
    """What follows the name, which is not cut."""


def fitted(crumbs: Sequence[Crumb], room: int) -> list[Piece]:
    """The crumbs in at most `room` cells.

    If there is not enough room, the first crumb is left out, then the name is cut, then the crumbs after the name are
    left out, and then the name; the last one stays.
    """
    for number, candidate in enumerate(_candidates(crumbs)):
        others = sum(cells(crumb.after if crumb.is_name else crumb.text) for crumb in candidate)
        others += cells(SEPARATOR) * (len(candidate) - 1)
        names = [cells(crumb.text) for crumb in candidate if crumb.is_name]
        if others + sum(names if number == 0 else (min(size, LEAST) for size in names)) <= room:
            return _pieces(
                [crumb._replace(text=fit(crumb.text, room - others)) if crumb.is_name else crumb for crumb in candidate]
            )
    return _pieces([crumb._replace(text=fit(crumb.text, room)) for crumb in crumbs[-1:]])


def _candidates(crumbs: Sequence[Crumb]) -> list[list[Crumb]]:
    """The crumbs, then fewer and fewer of them."""
    left_out: Crumb = Crumb(LEFT_OUT)
    name = next((number for number, crumb in enumerate(crumbs) if crumb.is_name), 0)
    candidates = [list(crumbs)]
    if len(crumbs) > 2:
        candidates.append([left_out, *crumbs[max(1, name) :]])
    if 0 < name < len(crumbs) - 2:
        candidates.append([left_out, crumbs[name], left_out, crumbs[-1]])
    if len(crumbs) > 1:
        candidates.append([left_out, crumbs[-1]])
    return candidates


def _pieces(crumbs: Sequence[Crumb]) -> list[Piece]:
    pieces: list[Piece] = []
    for number, crumb in enumerate(crumbs):
        if number:
            pieces.append(Piece(Span(SEPARATOR, "dim")))
        is_last = number == len(crumbs) - 1
        pieces.append(Piece(Span(crumb.text + crumb.after, "accent" if is_last else "dim"), crumb.target))
    return pieces
