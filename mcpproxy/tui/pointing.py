"""Pointing: the filter terms that match the row at the cursor, the most specific first."""

from collections.abc import Iterator
from typing import NamedTuple

from analysis.conversation.message import Invalid, Notification, Request, Response
from analysis.facts import code_of, is_error, kind_of
from captures.frame import Frame
from mcpproxy.tui.data.call_kinds import pattern
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.rows.row_calls import LARGE, message_at

NAMES: dict[str, str] = {"tools/call": "tool", "prompts/get": "prompt", "resources/read": "resource"}


class Term(NamedTuple):
    """A term of a filter."""

    text: str
    about: str
    """Its subject, in one word."""


def terms_of(reading: Reading, row: int, response_row: int | None = None) -> list[Term]:
    """Returns the terms that select a row. Reads the file, so do not call it in the drawing thread.

    Args:
        reading: the capture.
        row: the row.
        response_row: the row of the response if the row shows an exchange, to include terms for its outcome.
    """
    terms = list(dict.fromkeys(_terms(reading, row)))
    if response_row is None:
        return terms
    outcome_terms = [
        term for term in _terms(reading, response_row) if term.about in ("status", "rule") and term not in terms
    ]
    return [
        *(term for term in terms if term.about != "side"),
        *outcome_terms,
        *(term for term in terms if term.about == "side"),
    ]


def _terms(reading: Reading, row: int) -> Iterator[Term]:
    entry, number = reading.index.entry(row), reading.call(row)
    item = reading.index.read_item(row) if entry.size <= LARGE and reading.index.is_frame(row) else None
    message = message_at(reading, row, item) if isinstance(item, Frame) else None
    if entry.dir is None:
        return
    kind = reading.kinds.all[reading.calls.kind[number]] if number is not None else None
    if kind is not None and not kind.is_rest:
        if kind.name is not None:
            yield Term(f"name:{pattern(kind.name)}", NAMES.get(kind.method, "name"))
        yield Term(f"method:{pattern(kind.method)}", "method")
    elif isinstance(message, Notification | Request):
        yield Term(f"method:{pattern(message.method)}", "method")
    if isinstance(message, Response):
        code = code_of(message)
        if code is not None:
            yield Term(f"code:{code}", "status")
        yield Term("has:error" if is_error(message) else "kind:response", "status")
    elif isinstance(message, Invalid):
        yield Term(f"kind:{kind_of(message)}", "kind")
    elif isinstance(message, Request) and number is not None and reading.partner(row) is None:
        yield Term("not has:answer", "status")
    for finding in reading.findings.kept_at(row)[:2]:
        yield Term(f"rule:{finding.rule}", "rule")
    yield Term(f"dir:{entry.dir}", "side")
