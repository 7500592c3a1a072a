"""The heads of an HTTP exchange as lines: the request line or the status, then the header fields, secrets hashed."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from analysis.conversation.http_exchange import HttpExchange
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.spans import Span


def request_head(http: HttpExchange) -> Iterator[list[Span]]:
    """The method and target of a request, and a line for each of its header fields."""
    yield [Span(f"{sanitise(http.method, 40) or 'request lost'} {sanitise(http.target, None)}".rstrip(), "accent")]
    yield from _fields(http.field_lines)


def response_head(http: HttpExchange) -> Iterator[list[Span]]:
    """The status of a response, how its exchange ended if it was not complete, and a line for each header field."""
    status = "no answer" if http.status is None else str(http.status)
    ending = f"   ended by {sanitise(http.ended_by, 40)}" if http.ended_by not in (None, "complete") else ""
    yield [Span(status, "accent"), Span(ending, "dim")] if ending else [Span(status, "accent")]
    yield from _fields(http.answer_field_lines)


def recorded_head(head: Mapping[str, Any]) -> Iterator[list[Span]]:
    """A head as an `exchange` record contains it: its first line, and a line for each header field, in order."""
    names = ("version", "status", "reason") if "status" in head else ("method", "target", "version")
    parts = [head.get(name) for name in names]
    words = [sanitise(str(part), None) for part in parts if isinstance(part, str | int) and part != ""]
    responder = f"   by {sanitise(str(head['by']), 40)}" if isinstance(head.get("by"), str) else ""
    yield [Span(" ".join(words), "accent"), *([Span(responder, "dim")] if responder else [])]
    headers = head.get("headers")
    pairs = [pair for pair in headers if isinstance(pair, list) and len(pair) == 2] if isinstance(headers, list) else []
    yield from _fields((str(name), str(value)) for name, value in pairs)


def _fields(fields: Iterable[tuple[str, str]]) -> Iterator[list[Span]]:
    for name, value in fields:
        yield [Span(f"{sanitise(name, None)}: ", "dim"), Span(sanitise(value, None))]
