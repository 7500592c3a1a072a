"""Peer lines: the introductions of both sides, as lines."""

from collections.abc import Sequence
from typing import Final

import orjson

from analysis.conversation.message import Side
from analysis.protocol.methods import METHODS
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.peers import PeerInfo
from mcpproxy.wording.cells import cells, fit
from mcpproxy.wording.spans import Span
from mcpproxy.wording.wrapping import wrapped

LABEL_CELLS: Final = 14
"""The width of the label before a value, in cells."""
MAX_VALUE_CHARS: Final = 300
"""The maximum length of a value, in characters."""
MAX_LISTED_CAPABILITIES: Final = 200
"""How many capabilities of a side, and settings of a capability, are listed."""
MAX_INSTRUCTIONS_CHARS: Final = 20_000
"""The maximum length of instructions, in characters."""
_INFO_MEMBERS: Final = ("title", "description", "websiteUrl")

Lines = list[list[Span]]


def peer_lines(introductions: Sequence[PeerInfo], width: int) -> Lines:
    """Returns the lines of all introductions, in their order."""
    lines: Lines = []
    for introduction in introductions:
        lines += [*([[]] if lines else []), *_introduction(introduction, max(20, width))]
    return lines


def _introduction(peer_info: PeerInfo, width: int) -> Lines:
    origin = f"  {sanitise(peer_info.method, 60)}, frame {peer_info.frame:,}"
    lines: Lines = [[Span(peer_info.side.upper(), "accent"), Span(origin, "dim")]]
    if peer_info.note:
        return [*lines, [Span(f"  {sanitise(peer_info.note, MAX_VALUE_CHARS)}", "bad")]]
    info = peer_info.info if isinstance(peer_info.info, dict) else {}
    lines += _labelled_lines(
        "name", " ".join(_text(info[key]) for key in ("name", "version") if key in info) or "–", width
    )
    for key in _INFO_MEMBERS:
        if key in info:
            lines += _labelled_lines("website" if key == "websiteUrl" else key, _text(info[key]), width)
    revisions = peer_info.revision if isinstance(peer_info.revision, list) else [peer_info.revision]
    text = (
        ", ".join(_text(revision) for revision in revisions[:MAX_LISTED_CAPABILITIES])
        if peer_info.revision is not None
        else "–"
    )
    lines += _labelled_lines("asks for" if peer_info.side == "client" else "speaks", text, width)
    lines += _capabilities(peer_info, width)
    if peer_info.instructions is not None:
        lines.append([Span("  instructions", "dim")])
        lines += [[Span(f"    {line}")] for line in _instructions(peer_info.instructions, width - 4)]
    return lines


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
