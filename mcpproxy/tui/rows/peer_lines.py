"""Peer lines: the introductions of both sides, as lines."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

import orjson

from analysis.conversation.message import Side
from analysis.protocol.methods import METHODS
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.peers import PeerInfo
from mcpproxy.wording.cells import cells, fit
from mcpproxy.wording.spans import Role, Span, fit_spans
from mcpproxy.wording.wrapping import wrapped

LABEL_CELLS: Final = 14
"""The width of the label before a value, in cells."""
MAX_VALUE_CHARS: Final = 300
"""The maximum length of a value, in characters."""
MAX_LISTED_CAPABILITIES: Final = 200
"""How many capabilities of a side, and settings of a capability, are listed."""
MAX_INSTRUCTIONS_CHARS: Final = 20_000
"""The maximum length of instructions, in characters."""
CURRENT_SIGN: Final = "▸"
"""The sign before the introduction whose frame Enter opens."""
_SEPARATOR: Final = " │ "
_MIN_CELLS: Final = 20
_INFO_MEMBERS: Final = ("title", "description", "websiteUrl")

Lines = list[list[Span]]
Sections = dict[str, Lines]
"""The lines of an introduction, by what they are about."""


class PeerPlace(NamedTuple):
    """Where an introduction begins."""

    line: int
    cell: int


class PeerPage(NamedTuple):
    """All introductions as lines."""

    lines: Lines
    places: Sequence[PeerPlace]
    """Where each introduction begins, in their order."""

    def introduction_at(self, line: int, cell: int) -> int | None:
        """Returns the number of the introduction at a place, or None if there is none."""
        numbers = [number for number, place in enumerate(self.places) if place.line <= line and place.cell <= cell]
        return numbers[-1] if numbers and line < len(self.lines) else None


def peer_page(
    introductions: Sequence[PeerInfo], width: int, *, is_wide: bool = False, marked: int | None = None
) -> PeerPage:
    """Returns all introductions as lines. Of what a side repeats in a later one, only the names are listed.

    Args:
        introductions: the introductions, in their order.
        width: the width of a line, in cells.
        is_wide: whether client and server are next to each other, rather than one above the other.
        marked: the number of the introduction that has a sign.
    """
    cell_count = max(_MIN_CELLS, (width - cells(_SEPARATOR)) // 2 if is_wide else width)
    lines: Lines = []
    places: list[PeerPlace] = []
    for numbers in _rows_of(introductions, is_wide=is_wide):
        lines += [[]] if lines else []
        sides: list[Lines] = []
        for column, number in enumerate(numbers):
            if number is None:
                sides.append([])
                continue
            sign = Span(CURRENT_SIGN if number == marked else " ", "accent")
            places.append(PeerPlace(len(lines), column * (cell_count + cells(_SEPARATOR))))
            first, *others = _introduction(introductions, number, cell_count - cells(CURRENT_SIGN))
            sides.append([[sign, *first], *([Span(" "), *line] for line in others)])
        lines += _side_by_side(sides[0], sides[1], cell_count) if len(sides) > 1 else sides[0]
    return PeerPage(lines, places)


def _rows_of(introductions: Sequence[PeerInfo], *, is_wide: bool) -> Iterator[tuple[int | None, ...]]:
    """Yields the numbers of the introductions that are next to each other: of the client and of the server."""
    if not is_wide:
        yield from ((number,) for number in range(len(introductions)))
        return
    client: int | None = None
    for number, peer_info in enumerate(introductions):
        if peer_info.side == "server":
            yield client, number
            client = None
            continue
        if client is not None:
            yield client, None
        client = number
    if client is not None:
        yield client, None


def _side_by_side(left: Lines, right: Lines, width: int) -> Iterator[list[Span]]:
    for left_spans, right_spans in zip_longest(left, right, fillvalue=()):
        fitting_spans, used_cells = fit_spans(left_spans, width)
        yield [*fitting_spans, Span(" " * (width - used_cells)), Span(_SEPARATOR, "dim"), *right_spans]


def _introduction(introductions: Sequence[PeerInfo], number: int, width: int) -> Lines:
    """Returns an introduction in full; of a later one, what differs from the one before of the same side."""
    peer_info = introductions[number]
    origin = f"  {sanitise(peer_info.method, 60)}, frame {peer_info.frame:,}"
    role: Role = "accent" if peer_info.side == "client" else "server"
    lines: Lines = [[Span(peer_info.side.upper(), role), Span(origin, "dim")]]
    if peer_info.note:
        return [*lines, [Span(f"  {sanitise(peer_info.note, MAX_VALUE_CHARS)}", "bad")]]
    sections = _sections(peer_info, width)
    earlier = next((i for i in reversed(introductions[:number]) if i.side == peer_info.side and not i.note), None)
    earlier_sections = _sections(earlier, width) if earlier is not None else {}
    same_names = [name for name in sections if sections[name] == earlier_sections.get(name)]
    for name, section_lines in sections.items():
        lines += section_lines if name not in same_names else []
    for name in earlier_sections:
        lines += _labelled_lines(name, "–", width) if name not in sections else []
    if earlier is not None and same_names:
        text = f"as in frame {earlier.frame:,}: {', '.join(same_names)}"
        lines += [[Span(f"  {line}", "dim")] for line in wrapped(text, width - 2)]
    return lines


def _sections(peer_info: PeerInfo, width: int) -> Sections:
    """Returns the lines of everything that a side says about itself."""
    info = peer_info.info if isinstance(peer_info.info, dict) else {}
    name = " ".join(_text(info[key]) for key in ("name", "version") if key in info) or "–"
    sections: Sections = {"name": _labelled_lines("name", name, width)}
    for key in _INFO_MEMBERS:
        if key in info:
            label = "website" if key == "websiteUrl" else key
            sections[label] = _labelled_lines(label, _text(info[key]), width)
    revisions = peer_info.revision if isinstance(peer_info.revision, list) else [peer_info.revision]
    text = (
        ", ".join(_text(revision) for revision in revisions[:MAX_LISTED_CAPABILITIES])
        if peer_info.revision is not None
        else "–"
    )
    label = "asks for" if peer_info.side == "client" else "speaks"
    sections["revision"] = _labelled_lines(label, text, width)
    sections["capabilities"] = _capabilities(peer_info, width)
    if peer_info.instructions is not None:
        sections["instructions"] = [
            [Span("  instructions", "dim")],
            *([Span(f"    {line}")] for line in _instructions(peer_info.instructions, width - 4)),
        ]
    return sections


def _capabilities(peer_info: PeerInfo, width: int) -> Lines:
    if not isinstance(peer_info.capabilities, dict):
        return _labelled_lines(
            "capabilities", "–" if peer_info.capabilities is None else _text(peer_info.capabilities), width
        )
    if not peer_info.capabilities:
        return _labelled_lines("capabilities", "none", width)
    lines: Lines = [[Span("  capabilities", "dim")]]
    for name, settings in list(peer_info.capabilities.items())[:MAX_LISTED_CAPABILITIES]:
        label = fit(sanitise(name, MAX_VALUE_CHARS), max(LABEL_CELLS, width // 2))
        text_width = max(8, width - 6 - max(LABEL_CELLS, cells(label)))
        for number, line in enumerate(wrapped(_settings(settings), text_width)):
            label_span = Span(
                f"    {'' if number else label}{' ' * (LABEL_CELLS - cells(label) if not number else LABEL_CELLS)}  "
            )
            lines.append([label_span, Span(line, "dim")])
    if len(peer_info.capabilities) > MAX_LISTED_CAPABILITIES:
        lines.append([Span(f"    … {len(peer_info.capabilities) - MAX_LISTED_CAPABILITIES:,} more", "dim")])
    missing = [name for name in _required_capabilities(peer_info.side) if name not in peer_info.capabilities]
    if missing:
        lines += [[Span(f"    {line}", "dim")] for line in wrapped(f"not declared: {', '.join(missing)}", width - 4)]
    return lines


def _settings(settings: object) -> str:
    """Returns the settings of a capability: the members that are true, and the others with their values."""
    if not isinstance(settings, dict):
        return "" if settings is True else _text(settings)
    parts = [
        name if value is True else f"{name}: {_text(value)}"
        for name, value in list(settings.items())[:MAX_LISTED_CAPABILITIES]
    ]
    suffix = f", … {len(settings) - MAX_LISTED_CAPABILITIES:,} more" if len(settings) > MAX_LISTED_CAPABILITIES else ""
    return sanitise(", ".join(parts), 4 * MAX_VALUE_CHARS) + suffix


def _required_capabilities(side: Side) -> list[str]:
    """Returns the capabilities of a side that methods of the protocol require."""
    other_side = "server" if side == "client" else "client"
    needed = {
        method.required_capability.split(".")[0]
        for method in METHODS.values()
        if method.required_capability and method.is_request and method.sender == other_side
    }
    return sorted(needed)


def _instructions(text: object, width: int) -> list[str]:
    if not isinstance(text, str):
        return [_text(text)]
    lines = [
        piece for line in text[:MAX_INSTRUCTIONS_CHARS].split("\n") for piece in wrapped(sanitise(line, None), width)
    ]
    cut_count = len(text) - MAX_INSTRUCTIONS_CHARS
    return [*lines, f"… {cut_count:,} more characters: see the frame"] if cut_count > 0 else lines


def _labelled_lines(name: str, text: str, width: int) -> Lines:
    lines = list(wrapped(text, max(8, width - LABEL_CELLS - 2)))
    return [
        [Span(f"  {'' if number else name:<{LABEL_CELLS}}", "dim"), Span(line)] for number, line in enumerate(lines)
    ]


def _text(value: object) -> str:
    if isinstance(value, str):
        return sanitise(value, MAX_VALUE_CHARS)
    try:
        return sanitise(orjson.dumps(value, default=str).decode(), MAX_VALUE_CHARS)
    except (TypeError, RecursionError):  # it is nested too deeply, or contains a lone surrogate
        return "…"
