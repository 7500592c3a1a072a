"""mitmproxy flow files.

`mitmdump -w FILE` and the Save command of mitmproxy write flow files. Flows are grouped by server as in [HAR files](har.md).

**Where to find it.** Wherever you save it. `mitmdump --mode reverse:http://127.0.0.1:8000 -w FILE` logs one
server. The import was tested with mitmproxy 11 and 12, which write version 21 of the flow format; later versions can be imported
as long as the members of a flow stay the same.

**What the capture contains.** The HTTP exchanges with their heads, bodies and times. A file may contain up to 256 MiB of
flows, and a flow may be up to 64 MiB long. A flow that cannot be read is left out. If bytes are not a flow, everything after them is
left out, too.

**What is missing.**

| missing | what the capture has instead |
|---|---|
| when each event of a stream arrived | the time at which the stream ended, marked as not exact |
| bodies that mitmproxy streamed without keeping them | empty bodies, marked as missing |
| how bodies were split into chunks, connections that failed before a request, and HTTP/2 | requests are recorded as HTTP/1.1 |
"""

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from mcpproxy.importers.case import Case
from mcpproxy.importers.exchange_log import (
    LoggedExchange,
    UnreadableExchange,
    checked_method,
    checked_time,
    is_http_url,
    items_of,
)
from mcpproxy.importers.form import Form
from mcpproxy.importers.log_items import LeftOut, Remark
from mcpproxy.importers.source import InvalidLine, Log, required_object
from mcpproxy.importers.times import SECOND_NS
from mcpproxy.wording.counts import count_text

MAX_FLOW_BYTES: Final = 64 << 20
"""The size of one flow."""
MAX_TOTAL_FLOW_BYTES: Final = 256 << 20
"""The size of all flows in a file: all are read before anything is written, because they are sorted by server."""
MAX_FLOW_DEPTH: Final = 32
MAX_LENGTH_DIGITS: Final = 10
MAX_NUMBER_DIGITS: Final = 40
_START: Final = re.compile(rb"[0-9]{1,10}:[0-9]{1,10}:[a-z_]+[,;]").match


def sniff(head: bytes, _file_name: str) -> bool:
    """Returns whether the log begins with the length of a flow, and that of the name of its first member."""
    return _START(head) is not None


def read(log: Log) -> Iterator[Case | LeftOut | Remark]:
    """Read a log.

    Raises:
        InvalidLine: the log is not a flow file, or contains no MCP.
    """
    flows = _FlowReader()
    exchanges = list(flows.exchanges(log.file))
    yield from items_of(exchanges, flows.other_count)
    if flows.missing_body_count:
        pronoun = "it" if flows.missing_body_count == 1 else "them"
        missing_bodies = count_text(flows.missing_body_count, "body", "bodies")
        yield Remark(f"{missing_bodies} missing: mitmproxy streamed {pronoun} without keeping {pronoun}")


class _FlowReader:
    """Reads the flows of a file, and counts other flows and missing bodies."""

    def __init__(self) -> None:
        self.other_count = 0
        """The number of flows that are not HTTP."""
        self.missing_body_count = 0
        """The number of bodies that mitmproxy streamed without keeping them."""

    def exchanges(self, file: BinaryIO) -> Iterator[LoggedExchange | UnreadableExchange]:
        """Yields the exchanges of a file, up to the first bytes that are not a flow."""
        number = total_size = 0
        try:
            for number, (flow, size) in enumerate(_netstrings(file), 1):
                total_size += size
                if total_size > MAX_TOTAL_FLOW_BYTES:
                    raise InvalidLine(f"more than {MAX_TOTAL_FLOW_BYTES >> 20} MiB of flows; save fewer")
                yield from self._exchange(flow, f"flow {number - 1}")
        except InvalidLine as error:
            if not number:
                raise
            yield UnreadableExchange(f"flow {number}", f"{error}; everything after it is left out", "")
        if not number:
            raise InvalidLine("expected a flow as written by `mitmdump -w FILE`")

    def _exchange(self, flow: Any, place: str) -> Iterator[LoggedExchange | UnreadableExchange]:
        if isinstance(flow, dict) and flow.get("type") != "http":
            self.other_count += 1
            return
        try:
            if not isinstance(flow, dict):
                raise InvalidLine("expected a flow")
            yield _logged_exchange(flow, place, self)
        except InvalidLine as error:
            yield UnreadableExchange(place, str(error), "")


def _logged_exchange(flow: dict[str, Any], place: str, flows: _FlowReader) -> LoggedExchange:
    request = required_object(flow.get("request"), "a dictionary in `request`")
    response = flow.get("response")
    response_values = response if isinstance(response, dict) else {}
    start_ns = checked_time(request.get("timestamp_start"), "seconds in `timestamp_start`", SECOND_NS)
    bodies = []
    for message in (request, response_values):
        content = message.get("content", b"")
        flows.missing_body_count += content is None
        bodies.append(content if isinstance(content, bytes) else b"")
    error = flow.get("error")
    end_times = [
        _time(response_values.get("timestamp_end")),
        _time(response_values.get("timestamp_start")),
        _time(error.get("timestamp")) if isinstance(error, dict) else None,
    ]
    end_ns = next((time_ns for time_ns in end_times if time_ns is not None), start_ns)
    status = response_values.get("status_code", 0)
    return LoggedExchange(
        place,
        start_ns,
        _time(response_values.get("timestamp_start")) or end_ns,
        end_ns,
        _url(request),
        checked_method(_bytes(request.get("method"))),
        b"HTTP/1.1",
        _fields(request.get("headers")),
        bodies[0],
        status if type(status) is int and 0 <= status <= 999 else 0,
        _bytes(response_values.get("reason")),
        _fields(response_values.get("headers")),
        bodies[1],
        _peer(flow.get("client_conn")),
        lacks_request_body=request.get("content", b"") is None,
        lacks_response_body=response_values.get("content", b"") is None,
    )


def _url(request: dict[str, Any]) -> str:
    scheme, host, port = _bytes(request.get("scheme")), request.get("host"), request.get("port")
    if scheme not in (b"http", b"https") or not isinstance(host, str) or type(port) is not int:
        raise InvalidLine("expected scheme, host and port of a request")
    path = _bytes(request.get("path")).decode("utf-8", "backslashreplace")
    url_host = f"[{host}]" if ":" in host else host
    default_port = {b"http": 80, b"https": 443}[scheme]
    url = f"{scheme.decode()}://{url_host}{'' if port == default_port else f':{port}'}{path}"
    if not is_http_url(url):
        raise InvalidLine("expected scheme, host and port of a request")
    return url


def _peer(connection: object) -> str:
    address = connection.get("peername") if isinstance(connection, dict) else None
    if not isinstance(address, list) or len(address) < 2 or not isinstance(address[0], str) or len(address[0]) > 256:
        return ""
    return f"{address[0]}:{address[1]}" if type(address[1]) is int else ""


def _fields(headers: object) -> list[tuple[bytes, bytes]]:
    rows = headers if isinstance(headers, list) else []
    return [
        (row[0], row[1])
        for row in rows
        if isinstance(row, list) and len(row) == 2 and isinstance(row[0], bytes) and isinstance(row[1], bytes)
    ]


def _time(value: object) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return round(value * SECOND_NS) if is_number and 0 < value < 1e9 * 4 else None  # type: ignore[operator] # it is one


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""


# ---- typed netstrings: `LENGTH:DATA` and a letter for the type (https://tnetstrings.info, with `;` for text)
#
# This reader of some fifty lines exists because mitmproxy, which has one, pins dozens of packages to certain versions.
# It is strict, and limits the total size, the size of a flow, and the depth.


def _netstrings(file: BinaryIO) -> Iterator[tuple[Any, int]]:
    """Yields the values of a file, each with its size.

    Raises:
        InvalidLine: the file is not a sequence of netstrings.
    """
    offset = 0
    while char := file.read(1):
        digits = b""
        while char.isdigit() and len(digits) < MAX_LENGTH_DIGITS:
            digits += char
            char = file.read(1)
        if char != b":" or not digits or int(digits) > MAX_FLOW_BYTES:
            raise InvalidLine(f"byte {offset}: expected a flow of mitmproxy, of at most {MAX_FLOW_BYTES >> 20} MiB")
        size = int(digits)
        data = file.read(size + 1)
        if len(data) != size + 1:
            raise InvalidLine(f"byte {offset}: the file ends within a flow")
        yield _value(data[size], memoryview(data)[:size], offset, 0), size
        offset += len(digits) + 2 + size


def _value(kind: int, data: memoryview, offset: int, depth: int) -> Any:
    if depth > MAX_FLOW_DEPTH:
        raise InvalidLine(f"byte {offset}: nested too deeply")
    letter = chr(kind)
    try:
        if letter == ",":
            return data.tobytes()
        if letter == ";":
            return data.tobytes().decode()
        if letter in "#^":
            if len(data) > MAX_NUMBER_DIGITS:
                raise ValueError
            return int(data.tobytes()) if letter == "#" else float(data.tobytes())
        if letter == "!":
            return {b"true": True, b"false": False}[data.tobytes()]
        if letter == "~" and not data:
            return None
    except (ValueError, KeyError):
        raise InvalidLine(f"byte {offset}: expected a value of the type {letter!r}") from None
    if letter not in "]}":
        raise InvalidLine(f"byte {offset}: expected the type of a value")
    items = list(_items(data, offset, depth))
    if letter == "]":
        return items
    if len(items) % 2 or not all(isinstance(key, str | bytes) for key in items[::2]):
        raise InvalidLine(f"byte {offset}: expected a dictionary")
    keys = (key.decode("ascii", "replace") if isinstance(key, bytes) else key for key in items[::2])
    return dict(zip(keys, items[1::2], strict=True))


def _items(data: memoryview, offset: int, depth: int) -> Iterator[Any]:
    position = 0
    while position < len(data):
        prefix = data[position : position + MAX_LENGTH_DIGITS + 1].tobytes()
        digits, colon, _ = prefix.partition(b":")
        if not colon or not digits.isdigit():
            raise InvalidLine(f"byte {offset}: expected the length of a value")
        start = position + len(digits) + 1
        end = start + int(digits)
        if end >= len(data):
            raise InvalidLine(f"byte {offset}: a value is longer than the value that contains it")
        yield _value(data[end], data[start:end], offset, depth + 1)
        position = end + 1


FORM = Form(
    title="a mitmproxy flow file",
    sniff=sniff,
    read=read,
    limitation="flow files do not record how bodies were split into chunks, or connections that failed before a request",
    is_verbatim=True,
)
