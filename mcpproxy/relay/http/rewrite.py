"""Makes the upstream's own addresses in responses relative, so that clients keep using the relay.

This is the only case in which a response is not forwarded unchanged. A client follows redirects within one origin, and
an absolute address of the upstream would lead it to another origin than the one in its configuration. Only addresses at
the upstream's own origin are changed: `Location` and `Content-Location` in the head of a 201 or 3xx, and the address in
the `endpoint` event of the legacy transport, the first event in response to a GET. In that event, a comment, which
readers of event streams skip, replaces the removed bytes, so no length around them changes. The observer sees both
addresses.

Data that may have to be changed is held until it is complete: a head with one of these statuses, the head of a 200 to a
GET, and the data line of an `endpoint` event. Of other heads, at most the part up to the status is held.
"""

import re
from typing import Final

from mcpproxy.relay.http.observer import Event, RewrittenAddress
from mcpproxy.wire.response import ResponseBody, ResponseHead, ResponseTap

MAX_EVENT_LINE_BYTES: Final = 16 << 10
"""The maximum number of bytes of a line that are examined in an event stream; no address is longer."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_ADDRESS_FIELD: Final = re.compile(rb"(?im)^((?:content-)?location)(:[ \t]*)([^\r\n]*)")
_LINE_END: Final = re.compile(rb"[\r\n]").search
_EVENT_PREFIX: Final = b"event:"
_DATA_PREFIX: Final = b"data:"
_HEAD_PREFIX: Final = b"HTTP/1."
_STATUS: Final = slice(9, 12)
"""The position of the status in a head."""
_REDIRECT_STATUSES: Final = frozenset({b"201", *(b"%d" % status for status in range(300, 400))})
"""The statuses whose `Location` leads a client to another address."""


class Origin:
    """The upstream's origin, in every spelling."""

    def __init__(self, scheme: str, host: str, port: int | None) -> None:
        """Compile a pattern for the origin; if `port` is None, it has the default port of its scheme."""
        port = port or _DEFAULT_PORTS[scheme]
        name = host.encode("idna")
        name = re.escape(b"[%b]" % name if b":" in name else name)
        ports = {port, 0} if port == _DEFAULT_PORTS[scheme] else {port}
        spellings = rb"(?:%b:)?//%b%b" % (scheme.encode(), name, _ports_pattern(ports))
        if scheme == "https":
            # A server that is unaware of the TLS in front of it writes http for the same origin.
            spellings += rb"|http://%b%b" % (name, _ports_pattern({port, 80, 0}))
        # A path that begins with //, or with characters that browsers read as //, would on its own name another host.
        self._origin_pattern = re.compile(rb"(?i:" + spellings + rb")(?=/(?![/\\\t])|[?#]|\Z)")

    def relative_address(self, address: bytes) -> bytes | None:
        """Returns an address without this origin; None if it has another one, or would lead elsewhere without it."""
        match = self._origin_pattern.match(address)
        if match is None:
            return None
        remainder = address[match.end() :]
        return remainder if remainder.startswith(b"/") else b"/" + remainder


def _ports_pattern(ports: set[int]) -> bytes:
    """Returns a pattern that matches these ports; 0 means that the port may be missing."""
    digits = b"|".join(b"%d" % port for port in sorted(ports - {0}))
    return rb"(?::(?:%b)?)?" % digits if 0 in ports else rb":(?:%b)" % digits


class ResponseRewriter:
    """Rewrites the responses on one connection, and passes the originals to the tap."""

    __slots__ = (
        "_awaits_endpoint",
        "_events",
        "_held",
        "_held_events",
        "_is_after_cr",
        "_line",
        "_origin",
        "_output",
        "_tap",
        "_type",
    )

    def __init__(self, origin: Origin, tap: ResponseTap) -> None:
        self._origin = origin
        self._tap = tap
        self._output = bytearray()
        self._events: list[Event] = []
        self._held = bytearray()
        """The bytes that may have to be changed: at most one head or one line."""
        self._held_events: list[Event] = []
        """The tap's events for the held bytes."""
        self._awaits_endpoint = False
        """Whether the current response is a stream that may begin with an `endpoint` event."""
        self._line = b""
        """The content of the current line of that stream."""
        self._type = b""
        self._is_after_cr = False

    def passes_unchanged(self, data: bytes) -> bool:
        """Returns whether none of these bytes can need a change; in this usual case, the tap can be fed directly."""
        tap = self._tap
        if not tap.is_in_head:
            return not (self._awaits_endpoint or tap.awaited_count)
        status = data[_STATUS]
        is_new_head = tap.awaited_count == 1 and not tap.is_in_response and data.startswith(_HEAD_PREFIX)
        return is_new_head and status.isdigit() and status >= b"200" and not self._must_hold(status)

    def feed(self, data: bytes) -> tuple[bytes, list[Event]]:
        """Returns the bytes to forward in place of these, and the events to report to the observer after that."""
        position = 0
        while position < len(data):
            if self._tap.is_in_head:
                position = self._process_head(data, position)
            elif self._awaits_endpoint:
                position = self._process_first_event(data, position)
            else:
                events, end = self._tap.feed_some(data, position)
                self._output += data[position:end]
                self._events += events
                position = end
        return self._take_output()

    def finish(self) -> tuple[bytes, list[Event]]:
        """Returns the held bytes, with their events, when the upstream has ended."""
        self._release_held()
        return self._take_output()

    def _take_output(self) -> tuple[bytes, list[Event]]:
        output, self._output = bytes(self._output), bytearray()
        events, self._events = self._events, []
        return output, events

    def _release_held(self) -> None:
        """Move the held bytes to the output, unchanged."""
        self._output += self._held
        self._events += self._held_events
        self._held.clear()
        self._held_events.clear()

    # --- heads ---

    def _must_hold(self, status: bytes) -> bool:
        """Returns whether a head with this status, which may be incomplete, is held until it is complete."""
        return len(status) < 3 or status in _REDIRECT_STATUSES or (status == b"200" and self._tap.awaits_get)

    def _process_head(self, data: bytes, position: int) -> int:
        is_partly_forwarded = (
            self._tap.is_in_response and not self._held
        )  # the beginning of the head has been forwarded
        is_get = self._tap.awaits_get
        events, end = self._tap.feed_some(data, position)
        self._held += data[position:end]
        self._held_events += events
        head = next((event for event in events if isinstance(event, ResponseHead)), None)
        if head is not None:
            self._begin_response(head, is_get=is_get)
        status = bytes(self._held[_STATUS])
        if head is not None and status in _REDIRECT_STATUSES and not is_partly_forwarded:
            self._held[:] = _ADDRESS_FIELD.sub(self._relative_field, bytes(self._held))
        if events or is_partly_forwarded or not self._tap.is_in_response or not self._must_hold(status):
            self._release_held()
        return end

    def _begin_response(self, head: ResponseHead, *, is_get: bool) -> None:
        is_stream = is_get and head.status == 200 and head.headers.media_type == b"text/event-stream"
        self._awaits_endpoint = is_stream and not head.headers.values_of(b"content-encoding")
        self._line = b""
        self._type, self._is_after_cr = b"", False

    def _relative_field(self, field: re.Match[bytes]) -> bytes:
        name, colon, value = field.groups()
        address = value.rstrip(b" \t")
        relative_address = self._origin.relative_address(address)
        if relative_address is None:
            return field[0]
        self._events.append(RewrittenAddress(name.lower().decode(), address, relative_address))
        return name + colon + relative_address

    # --- the first event of a stream ---

    def _process_first_event(self, data: bytes, position: int) -> int:
        """Process the bytes up to the next line end, in content or chunk framing; returns the position after it."""
        line_end = _LINE_END(data, position)
        piece = data[position : line_end.end() if line_end else len(data)]
        events, size = self._tap.feed_some(piece, 0)
        self._held += piece[:size]
        self._held_events += events
        # The size of a chunk is a line, so any content in a piece is at its beginning.
        content = b"".join([event.payload for event in events if isinstance(event, ResponseBody)])
        if content == b"\n" and self._is_after_cr:
            self._is_after_cr = False
        elif content:
            self._line += content
            self._is_after_cr = content.endswith(b"\r")
        self._examine_line()
        if not self._tap.is_in_response:
            self._awaits_endpoint = False
            self._release_held()
        return position + size

    def _examine_line(self) -> None:
        """Examine the current line of the stream, and forward its bytes unless the line may have to be changed."""
        line = self._line
        is_endpoint = self._type == b"endpoint"
        if line.endswith((b"\r", b"\n")):
            text = line[:-1]
            if text.startswith(_DATA_PREFIX):
                self._awaits_endpoint = False
                if is_endpoint:
                    self._rewrite_endpoint(text)
            elif not text:
                self._type = b""
            elif text.startswith(_EVENT_PREFIX):
                self._type = text.removeprefix(_EVENT_PREFIX).removeprefix(b" ")
            self._line = b""
        elif len(line) > MAX_EVENT_LINE_BYTES:
            self._awaits_endpoint = False
        elif line and is_endpoint and _DATA_PREFIX.startswith(line[: len(_DATA_PREFIX)]):
            return
        self._release_held()

    def _rewrite_endpoint(self, text: bytes) -> None:
        address = text.removeprefix(_DATA_PREFIX).removeprefix(b" ")
        relative_address = self._origin.relative_address(address)
        if relative_address is None or self._held != self._line:  # a chunk ends within the line
            return
        # A comment replaces the removed bytes, so the size of the chunk around it stays correct.
        comment = b":" + b" " * (len(address) - len(relative_address) - 2) + b"\n"
        self._held[: len(text)] = comment + text.removesuffix(address) + relative_address
        self._events.append(RewrittenAddress("endpoint", address, relative_address))
