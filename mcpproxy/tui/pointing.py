"""Pointing: the terms of a filter that the row at the cursor offers, the most specific first."""

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


def terms_of(reading: Reading, row: int, answer: int | None = None) -> list[Term]:
    """The terms that select a row; reads the file, so do not call it in the drawing thread.

    Args:
        reading: the capture.
        row: the row.
        answer: the row of the response, if the row is that of an exchange: then terms for its outcome are offered, too.
    """
    terms = list(dict.fromkeys(_terms(reading, row)))
    if answer is None:
        return terms
    outcome = [term for term in _terms(reading, answer) if term.about in ("status", "rule") and term not in terms]
    return [
        *(term for term in terms if term.about != "side"),
        *outcome,
        *(term for term in terms if term.about == "side"),
    ]


def _terms(reading: Reading, row: int) -> Iterator[Term]:
    entry, number = reading.index.entry(row), reading.call(row)
    item = reading.index.read_item(row) if entry.size <= LARGE and reading.index.is_frame(row) else None
    message = message_at(reading, row, item) if isinstance(item, Frame) else None
    if entry.dir is None:
        return
    call = reading.kinds.all[reading.calls.kind[number]] if number is not None else None
    if call is not None and not call.is_rest:
        if call.name is not None:
            yield Term(f"name:{pattern(call.name)}", NAMES.get(call.method, "name"))
        yield Term(f"method:{pattern(call.method)}", "method")
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
