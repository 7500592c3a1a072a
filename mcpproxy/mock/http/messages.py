"""Writes responses of HTTP/1.1, and the events of event streams."""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, TypeAlias

import orjson

from analysis.playback.items import HttpAnswer
from analysis.protocol.error_codes import INVALID_REQUEST
from mcpproxy.wire.framing import TOKEN

HeaderFields: TypeAlias = tuple[tuple[str, str], ...]

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
MAX_REPEATED_FIELDS: Final = 50

_OWN_FIELDS: Final = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "keep-alive",
        "mcp-session-id",
        "proxy-connection",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""The fields that describe the connection or the coding of the recording, or that the mock sets itself."""
_UNBUFFERED: Final = (("X-Accel-Buffering", "no"),)
_NOT_IN_LINE: Final = re.compile(r"[\r\n\0]")
_LINE_END: Final = re.compile(rb"\r\n?|\n")
_is_printable: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*").fullmatch
_has_host: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|[/\\]{2}").match


def response_head(
    status: int, fields: HeaderFields, content_type: str | None, length: int | None, *, is_chunked: bool, closes: bool
) -> bytes:
    """Returns the head of a response.

    Args:
        status: the status.
        fields: further fields, which have been checked.
        content_type: the type of the content; None without content.
        length: the length of the content in bytes; None if it is not known.
        is_chunked: whether the content comes in chunks.
        closes: whether the connection ends after the response.
    """
    lines = [f"HTTP/1.1 {status} {_phrase(status)}", *(f"{name}: {value}" for name, value in fields)]
    if content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    if content_type == EVENT_STREAM:
        lines.append("Cache-Control: no-cache, no-transform")
    if is_chunked:
        lines.append("Transfer-Encoding: chunked")
    elif length is not None and status >= HTTPStatus.OK and status != HTTPStatus.NO_CONTENT:
        lines.append(f"Content-Length: {length}")
    if closes:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Recorded"


def stream_fields(answer: HttpAnswer | None) -> HeaderFields:
    """Returns the fields of an event stream: the recorded ones, or else one that keeps proxies from buffering it."""
    return _UNBUFFERED if answer is None or answer.is_legacy else repeated_fields(answer)


def repeated_fields(answer: HttpAnswer | None) -> HeaderFields:
    """Returns the fields of a recorded response that are sent again; its text is untrusted.

    A `Location` that leads to another server is left out.
    """
    if answer is None or answer.is_legacy:
        return ()
    return tuple(
        (name, value)
        for name, value in answer.fields[:MAX_REPEATED_FIELDS]
        if name.lower() not in _OWN_FIELDS
        and not (name.lower() == "cache-control" and media_type_of(answer) == EVENT_STREAM)
        and TOKEN(name.encode("utf-8", "replace"))
        and _is_printable(value)
        and not (name.lower() == "location" and _leads_away(value))
    )


def _leads_away(address: str) -> bool:
    """Whether an address may lead to another server: browsers drop tabs, and take a backslash for a slash."""
    return _has_host(address.replace("\t", "").strip()) is not None


def media_type_of(answer: HttpAnswer | None) -> str:
    """Returns the media type of a recorded response, in lower case; empty if unknown, or of the older transport."""
    if answer is None or answer.is_legacy:
        return ""
    for name, value in answer.fields:
        if name.lower() == "content-type":
            return value.partition(";")[0].strip().lower()
    return ""


def type_of_text(answer: HttpAnswer, text: bytes) -> str | None:
    """Returns the content type with which the text of a recorded response is sent; it may have one without a text."""
    media_type = media_type_of(answer)
    if media_type not in ("", EVENT_STREAM) and media_type.isascii() and media_type.isprintable():
        return media_type
    return "text/plain; charset=utf-8" if text else None


def event_bytes(
    data: bytes | None, *, event_id: str | None = None, retry_ms: int | None = None, event: str | None = None
) -> bytes:
    """Returns an event of an event stream.

    Args:
        data: its data, which may have several lines; None for none.
        event_id: its id, cut at a line end or NUL, which no id can have.
        retry_ms: how long a client waits before it reconnects, in milliseconds; a negative time is left out.
        event: its type; None for `message`.
    """
    lines = [b"event: " + _one_line(event or "message")] if data or event else []
    if event_id is not None:
        lines.append(b"id: " + _one_line(event_id))
    if retry_ms is not None and retry_ms >= 0:
        lines.append(b"retry: %d" % retry_ms)
    if data is not None:
        lines += [b"data: " + line for line in _LINE_END.split(data)] if data else [b"data:"]
    return b"\n".join([*lines, b"", b""])


def _one_line(text: str) -> bytes:
    return _NOT_IN_LINE.split(text, maxsplit=1)[0].encode("utf-8", "replace")


def error_body(reason: str, code: int = INVALID_REQUEST) -> bytes:
    """Returns a JSON-RPC error for a request that is refused before it is read; `reason` is trusted text."""
    return orjson.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": reason}})


def accepts(accept_values: Iterable[bytes], media_type: str) -> bool:
    """Whether the `Accept` fields of a request admit a media type; they do if there are none."""
    ranges = [part.partition(b";")[0].strip().lower() for value in accept_values for part in value.split(b",")]
    wildcard = media_type.partition("/")[0] + "/*"
    return not any(ranges) or not {b"*/*", media_type.encode(), wildcard.encode()}.isdisjoint(ranges)
