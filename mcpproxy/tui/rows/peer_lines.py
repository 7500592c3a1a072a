"""Peer lines: what both sides say about themselves, as lines to read."""

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

LABEL: Final = 14
"""The width of the names before the values, in cells."""
MAX_VALUE_CHARS: Final = 300
"""The maximum length of a value, in characters."""
MAX_LISTED_CAPABILITIES: Final = 200
"""How many capabilities of a side, and settings of a capability, are listed."""
MAX_INSTRUCTIONS_CHARS: Final = 20_000
"""The maximum length of instructions, in characters."""
_INFO: Final = ("title", "description", "websiteUrl")

Lines = list[list[Span]]


def peer_lines(introductions: Sequence[PeerInfo], width: int) -> Lines:
    """All introductions, the client's first."""
    lines: Lines = []
    for introduction in introductions:
        lines += [*([[]] if lines else []), *_introduction(introduction, max(20, width))]
    return lines


def _introduction(said: PeerInfo, width: int) -> Lines:
    place = f"  {sanitise(said.method, 60)}, frame {said.frame:,}"
    lines: Lines = [[Span(said.side.upper(), "accent"), Span(place, "dim")]]
    if said.note:
        return [*lines, [Span(f"  {sanitise(said.note, MAX_VALUE_CHARS)}", "bad")]]
    info = said.info if isinstance(said.info, dict) else {}
    lines += _pair("name", " ".join(_text(info[key]) for key in ("name", "version") if key in info) or "–", width)
    for key in _INFO:
        if key in info:
            lines += _pair("website" if key == "websiteUrl" else key, _text(info[key]), width)
    revisions = said.revision if isinstance(said.revision, list) else [said.revision]
    text = (
        ", ".join(_text(revision) for revision in revisions[:MAX_LISTED_CAPABILITIES])
        if said.revision is not None
        else "–"
    )
    lines += _pair("asks for" if said.side == "client" else "speaks", text, width)
    lines += _capabilities(said, width)
    if said.instructions is not None:
        lines.append([Span("  instructions", "dim")])
        lines += [[Span(f"    {line}")] for line in _instructions(said.instructions, width - 4)]
    return lines


def _capabilities(said: PeerInfo, width: int) -> Lines:
    if not isinstance(said.capabilities, dict):
        return _pair("capabilities", "–" if said.capabilities is None else _text(said.capabilities), width)
    if not said.capabilities:
        return _pair("capabilities", "none", width)
    lines: Lines = [[Span("  capabilities", "dim")]]
    for name, settings in list(said.capabilities.items())[:MAX_LISTED_CAPABILITIES]:
        label = fit(sanitise(name, MAX_VALUE_CHARS), max(LABEL, width // 2))
        room = max(8, width - 6 - max(LABEL, cells(label)))
        for number, line in enumerate(wrapped(_settings(settings), room)):
            head = Span(f"    {'' if number else label}{' ' * (LABEL - cells(label) if not number else LABEL)}  ")
            lines.append([head, Span(line, "dim")])
    if len(said.capabilities) > MAX_LISTED_CAPABILITIES:
        lines.append([Span(f"    … {len(said.capabilities) - MAX_LISTED_CAPABILITIES:,} more", "dim")])
    missing = [name for name in _known(said.side) if name not in said.capabilities]
    if missing:
        lines += [[Span(f"    {line}", "dim")] for line in wrapped(f"not declared: {', '.join(missing)}", width - 4)]
    return lines


def _settings(settings: object) -> str:
    """The settings of a capability: the members that are true, and the others with their values."""
    if not isinstance(settings, dict):
        return "" if settings is True else _text(settings)
    parts = [
        name if value is True else f"{name}: {_text(value)}"
        for name, value in list(settings.items())[:MAX_LISTED_CAPABILITIES]
    ]
    more = f", … {len(settings) - MAX_LISTED_CAPABILITIES:,} more" if len(settings) > MAX_LISTED_CAPABILITIES else ""
    return sanitise(", ".join(parts), 4 * MAX_VALUE_CHARS) + more


def _known(side: Side) -> list[str]:
    """The capabilities of a side that methods of the protocol need."""
    other = "server" if side == "client" else "client"
    needed = {
        method.gate.split(".")[0]
        for method in METHODS.values()
        if method.gate and method.is_request and method.sender == other
    }
    return sorted(needed)


def _instructions(text: object, width: int) -> list[str]:
    if not isinstance(text, str):
        return [_text(text)]
    lines = [
        piece for line in text[:MAX_INSTRUCTIONS_CHARS].split("\n") for piece in wrapped(sanitise(line, None), width)
    ]
    more = len(text) - MAX_INSTRUCTIONS_CHARS
    return [*lines, f"… {more:,} more characters: see the frame"] if more > 0 else lines


def _pair(name: str, text: str, width: int) -> Lines:
    lines = list(wrapped(text, max(8, width - LABEL - 2)))
    return [[Span(f"  {'' if number else name:<{LABEL}}", "dim"), Span(line)] for number, line in enumerate(lines)]


def _text(value: object) -> str:
    if isinstance(value, str):
        return sanitise(value, MAX_VALUE_CHARS)
    try:
        return sanitise(orjson.dumps(value, default=str).decode(), MAX_VALUE_CHARS)
    except (TypeError, RecursionError):  # nested too deeply, or with a lone surrogate
        return "…"
