"""`--rewrite-location`: makes upstream addresses in responses relative, so that clients stay with the relay.

The only case in which a response is not forwarded unchanged; off by default, and recorded when on. Only what names the
upstream's own origin is touched: `Location` and `Content-Location` in a head, and the address in the `endpoint` event
of the legacy transport. There a comment, which readers of event streams skip, replaces the removed bytes, so that no
length around them changes.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from mcpproxy.wire.response import MAX_HEAD, Event, ResponseHead, ResponseTap

_HEAD_END: Final = re.compile(rb"\n\r?\n")
_FIELD: Final = re.compile(rb"(?im)^((?:content-)?location:[ \t]*)([^\r\n]*)")
_EVENT: Final = re.compile(rb"(?m)^event: ?endpoint\r?$")
_DATA: Final = re.compile(rb"(?m)^(data: ?)([^\r\n]*)")


class Origin:
    """The upstream's origin, in each of its spellings."""

    def __init__(self, scheme: str, host: str, port: int) -> None:
        default = {"http": 80, "https": 443}[scheme]
        name = f"[{host}]" if ":" in host else host
        names = [f"{scheme}://{name}:{port}".encode()]
        if port == default:
            names.append(f"{scheme}://{name}".encode())
        self._starts = re.compile(b"(?i:" + b"|".join(map(re.escape, names)) + rb")(?=[/?#]|$)")

    def length_in(self, address: bytes) -> int:
        """How many bytes at the start of an address name this origin; 0 if it names another origin, or none."""
        match = self._starts.match(address)
        return match.end() if match else 0


class Rewriter:
    """Rewrites one connection's responses, and shows the originals to the tap."""

    def __init__(self, origin: Origin, tap: ResponseTap) -> None:
        self._origin = origin
        self._tap = tap
        self._held = b""
        self._awaits_endpoint = False

    def feed(self, data: bytes, see: Callable[[Sequence[Event]], None]) -> bytes:
        """Returns what to forward for these bytes; a head waits until it is whole. `see` receives the tap's events."""
        out = []
        while data:
            if not self._tap.in_head:
                out.append(self._rewritten_events(data) if self._awaits_endpoint else data)
                self._show(data, see)
                break
            self._held += data
            end = _HEAD_END.search(self._held)
            if end is None and len(self._held) <= MAX_HEAD:
                break
            head, data = (self._held[: end.end()], self._held[end.end() :]) if end else (self._held, b"")
            self._held = b""
            self._show(head, see)
            out.append(_FIELD.sub(self._relative_field, head))
        return b"".join(out)

    def end(self) -> bytes:
        """Returns what was held back when the upstream ended."""
        held, self._held = self._held, b""
        return held

    def _show(self, data: bytes, see: Callable[[Sequence[Event]], None]) -> None:
        events = self._tap.feed(data)
        for event in events:
            if isinstance(event, ResponseHead):
                is_stream = event.headers.media_type == b"text/event-stream"
                self._awaits_endpoint = is_stream and not event.headers.values_of(b"content-encoding")
        see(events)

    def _relative_field(self, field: re.Match[bytes]) -> bytes:
        name, address = field.groups()
        length = self._origin.length_in(address)
        return name + _rooted(address[length:]) if length else field[0]

    def _rewritten_events(self, data: bytes) -> bytes:
        """The same bytes, with the address rewritten in any `endpoint` event that lies wholly within them."""
        event = _EVENT.search(data)
        line = _DATA.search(data, event.end()) if event else None
        if line is None:
            return data
        self._awaits_endpoint = False
        length = self._origin.length_in(line[2])
        path = line[2][length:]
        if not length or not path.startswith(b"/"):
            return data
        # A comment takes the place of the removed bytes, so that the size of the chunk around it stays correct.
        comment = b":" + b" " * (length - 2) + b"\n"
        return data[: line.start()] + comment + line[1] + path + data[line.end() :]


def _rooted(rest: bytes) -> bytes:
    return rest if rest.startswith(b"/") else b"/" + rest
