"""The heads of an HTTP exchange as lines: the request line or the status, then the header fields, secrets hashed."""

from collections.abc import Iterator

from analysis.conversation.http_exchange import HttpExchange
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.spans import Span


def request_head(http: HttpExchange) -> Iterator[list[Span]]:
    """Method and target of a request, and a line for each of its header fields."""
    yield [Span(f"{sanitise(http.method, 40) or 'request lost'} {sanitise(http.target, None)}".rstrip(), "accent")]
    yield from _fields(http.fields)


def response_head(http: HttpExchange) -> Iterator[list[Span]]:
    """The status of a response, how its exchange ended if not well, and a line for each header field."""
    status = "no answer" if http.status is None else str(http.status)
    ended = f"   ended by {sanitise(http.ended_by, 40)}" if http.ended_by not in (None, "complete") else ""
    yield [Span(status, "accent"), Span(ended, "dim")] if ended else [Span(status, "accent")]
    yield from _fields(http.answer_fields)


def _fields(fields: dict[str, str]) -> Iterator[list[Span]]:
    for name, value in fields.items():
        yield [Span(f"{sanitise(name, None)}: ", "dim"), Span(sanitise(value, None))]
