"""Pointing: the filter terms that match the row at the cursor, the most specific first."""

from collections.abc import Iterator
from typing import NamedTuple

from analysis.conversation.client_ids import NO_IDS
from analysis.conversation.message import InvalidMessage, Notification, Request, Response
from analysis.facts import code_of, is_error, kind_of
from captures.frame import Frame
from mcpproxy.tui.data.call_kinds import pattern
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.rows.row_calls import MAX_LINE_FRAME_BYTES, message_at
from mcpproxy.tui.rows.row_ids import ids_at

NAME_SUBJECTS: dict[str, str] = {"tools/call": "tool", "prompts/get": "prompt", "resources/read": "resource"}


class FilterTerm(NamedTuple):
    """A term of a filter."""

    text: str
    subject: str
    """Its subject, in one word."""


def negated(term: str) -> str:
    """Returns the text of a term that selects all other rows."""
    return term.removeprefix("not ") if term.startswith("not ") else f"not {term}"


def terms_of(reading: Reading, row: int, response_row: int | None = None) -> list[FilterTerm]:
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
        term for term in _terms(reading, response_row) if term.subject in ("status", "rule") and term not in terms
    ]
    return [
        *(term for term in terms if term.subject != "side"),
        *outcome_terms,
        *(term for term in terms if term.subject == "side"),
    ]


def _terms(reading: Reading, row: int) -> Iterator[FilterTerm]:
    entry, number = reading.index.entry(row), reading.call(row)
    item = reading.index.read_item(row) if entry.size <= MAX_LINE_FRAME_BYTES and reading.index.is_frame(row) else None
    message = message_at(reading, row, item) if isinstance(item, Frame) else None
    if entry.dir is None:
        return
    kind = reading.kinds.all[reading.calls.kind[number]] if number is not None else None
    if kind is not None and not kind.is_catch_all:
        if kind.name is not None:
            yield FilterTerm(f"name:{pattern(kind.name)}", NAME_SUBJECTS.get(kind.method, "name"))
        yield FilterTerm(f"method:{pattern(kind.method)}", "method")
    elif isinstance(message, Notification | Request):
        yield FilterTerm(f"method:{pattern(message.method)}", "method")
    if isinstance(message, Response):
        code = code_of(message)
        if code is not None:
            yield FilterTerm(f"code:{code}", "status")
        yield FilterTerm("has:error" if is_error(message) else "kind:response", "status")
    elif isinstance(message, InvalidMessage):
        yield FilterTerm(f"kind:{kind_of(message)}", "kind")
    elif isinstance(message, Request) and number is not None and reading.partner(row) is None:
        yield FilterTerm("not has:answer", "status")
    for finding in reading.findings.findings_at(row)[:2]:
        yield FilterTerm(f"rule:{finding.rule}", "rule")
    ids = NO_IDS if number is None else ids_at(reading, number)
    if ids.turn is not None:
        yield FilterTerm(f"turn:{pattern(ids.turn)}", "turn")
    if ids.session is not None:
        yield FilterTerm(f"client_session:{pattern(ids.session)}", "conversation")
    yield FilterTerm(f"dir:{entry.dir}", "side")
