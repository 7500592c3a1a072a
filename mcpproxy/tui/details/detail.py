"""Detail: everything about one row as lines: its text, pretty JSON, raw text, hex, headers, the exchange, findings.

A thread reads it from the file. Long content is split into pages.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from analysis.conversation.call import ENDLESS, Outcome
from analysis.conversation.message import Response
from analysis.facts import raw_of
from captures.damage import Damage
from captures.frame import Frame
from captures.index import Entry
from captures.record import Record, raw_bytes
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.columns import NONE
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.details.byte_pages import PAGE, HexPage, RawPage
from mcpproxy.tui.details.exchange_view import Joined, exchange_view
from mcpproxy.tui.rows.finding_lines import row_lines, short_lines
from mcpproxy.tui.rows.row_calls import call_at, late_ns, message_at, response_of
from mcpproxy.tui.text.rows import row_text
from mcpproxy.tui.widgets.tree import Tree, branches, parse
from mcpproxy.wording import units
from mcpproxy.wording.facts import Fact, cancellation, status_of
from mcpproxy.wording.http_head import request_head, response_head
from mcpproxy.wording.names import peer_text
from mcpproxy.wording.records import remark_on
from mcpproxy.wording.spans import Role, Span
from mcpproxy.wording.statuses import verdict, waiting

LARGEST_TREE: Final = 1 << 20
"""Bytes. A larger frame is shown as raw text, page by page."""
_CONTENT: Final = {"tools/call": "content", "resources/read": "contents", "prompts/get": "messages"}
"""By method: the requested member of the result."""
VIEWS: Final = ("text", "pretty", "raw", "hex", "headers", "exchange", "findings")

Lines = Sequence[Sequence[Span]]


class Detail(NamedTuple):
    """What the pane shows."""

    lines: Lines = ()
    tree: Tree | None = None
    pages: int = 1
    """The number of pages; `lines` is one of them."""
    exchange: Lines = ()
    """The exchange of the row in short, for beside it."""


def detail(
    reading: Reading, row: int, view: str, page: int = 0, width: int = 80, *, with_findings: bool = False
) -> Detail:
    """One view of a row, and its exchange in short.

    Args:
        reading: the capture.
        row: the entry.
        view: one of VIEWS.
        page: from 0, of the raw views.
        width: cells of a line.
        with_findings: whether the exchange ends with the findings, as they are not beside it.
    """
    facts = exchange_lines(reading, row)
    if view != "exchange":
        return _view(reading, row, view, page, width)._replace(exchange=facts)
    findings = short_lines(reading, row, width) if with_findings else []
    if reading.call(row) is None:
        return Detail([*facts, *findings])
    return Detail(Joined(exchange_view(reading, row, width, facts[1:]), findings))


def _view(reading: Reading, row: int, view: str, page: int, width: int) -> Detail:
    if view == "findings":
        return Detail(row_lines(reading, row, width))
    if view == "headers":
        return Detail(_headers(reading, row))
    if view == "text":
        writing = row_text(reading, row, width)
        if writing is not None:
            return Detail(writing.lines)
    index = reading.index
    if index.entry(row).size > LARGEST_TREE and index.giant(row) is not None:
        return _bytes(lambda: index.giant(row) or (), view, page, width, row, index.entry(row).size)
    item = reading.index.item(row)
    if item is None:
        return Detail([[Span("gone: its recorder has deleted this part of the capture", "bad")]])
    if isinstance(item, Damage):
        return Detail([[Span(sanitise(str(item)), "bad")]])
    raw = item.raw if isinstance(item, Frame) else (raw_bytes(item.members) or item.line)
    if view == "pretty":
        content = _pretty(reading, row, item)
        if content is not None and content.tree is not None:
            content.tree.fit(width)
            return content
    return _bytes(lambda: (raw,), view, page, width, row, len(raw))


def _bytes(pieces: Callable[[], Iterable[bytes]], view: str, page: int, width: int, row: int, size: int) -> Detail:
    kind = HexPage if view == "hex" else RawPage
    return Detail(kind(pieces, page, width, row), pages=max(1, -(-size // PAGE)))


def _pretty(reading: Reading, row: int, item: Frame | Record) -> Detail | None:
    if isinstance(item, Record):
        remark = remark_on(item, ended=False)
        members = {name: value for name, value in item.members.items() if name != "crc"}
        tree = Tree(branches(parse(_text(members))))
        return Detail(tree=tree) if remark is None or item.rec != "stderr" else None
    if len(item.raw) > LARGEST_TREE:
        return None
    frames = message_at(reading, row, item).frames
    try:
        text = raw_of(frames).decode("utf-8-sig")
        return Detail(tree=Tree(branches(parse(text))))
    except (ValueError, RecursionError):
        return None


def _text(members: dict[str, Any]) -> str:
    import json

    return json.dumps(members, ensure_ascii=False, default=str)


# ---- the exchange


def silence_of(response: Response, method: str) -> str:
    """Which expected content of a result is empty, in words; empty if none."""
    member, result = _CONTENT.get(method), response.result
    if member is None or not isinstance(result, dict) or result.get("structuredContent") is not None:
        return ""
    if member not in result:
        return f"without {member}"
    return f"with empty {member}" if _is_empty(result[member]) else ""


def _is_empty(content: object) -> bool:
    """Whether content has no blocks, or only empty texts."""
    blocks = content if isinstance(content, list) else [content]
    return all(
        not block or (isinstance(block, dict) and block.get("type") == "text" and not block.get("text"))
        for block in blocks
    )


def entry_name(entry: Entry) -> str:
    """The name of an entry with its number: `frame 9`; if it is not a frame, `record 9`."""
    return f"{'frame' if entry.dir else 'record'} {entry.seq:,}"


def exchange_lines(reading: Reading, row: int) -> Lines:
    """An exchange: when it was sent and answered, how long it took, its outcome, and the two sides. Reads the file."""
    index, number = reading.index, reading.call(row)
    entry = index.entry(row)
    head = [[Span(f"{entry.sort} ", "accent"), Span(f"{entry_name(entry)}, {units.size(entry.size)}")]]
    if number is None:
        return [*head, [Span("not part of an exchange" if row < reading.understood else "not analysed yet …", "dim")]]
    calls = reading.calls
    lines = [*head, _pair("sent", _at(reading, calls.request[number]))]
    if calls.response[number] != NONE:
        lines.append(_pair("answered", _at(reading, calls.response[number])))
        lines.append(_pair("took", units.duration(calls.latency_ns[number])))
    lines += [_pair(fact.name, fact.text, "bad" if fact.is_bad else "plain") for fact in _became(reading, number)]
    client, server, _ = reading.conversation.peers(reading.session(row))
    for word, peer in (("client", client), ("server", server)):
        if peer is not None:
            lines.append(_pair(word, peer_text(peer)))
    return lines


def _became(reading: Reading, number: int) -> Iterator[Fact]:
    """How a call was cancelled, and what became of it."""
    calls, outcome = reading.calls, reading.outcome(number)
    is_answered, response = calls.response[number] != NONE, response_of(reading, number)
    # A message that is too large to be read for a line says its outcome only.
    call = call_at(reading, number, response) if response is not None or not is_answered else None
    cancelled = None if call is None else cancellation(call)
    yield from [] if cancelled is None else [cancelled]
    method = reading.kinds.all[calls.kind[number]].method
    if method in ENDLESS and outcome in (None, Outcome.UNANSWERED):
        return
    if outcome is None:
        yield Fact("outcome", waiting().word if reading.is_live else "…")
        return
    if call is None:
        status = verdict(outcome, is_abandoned=reading.abandoned_ns(number) is not None)
        status = status._replace(late_ns=late_ns(reading, number))
    else:
        status = status_of(call)
    text = status.word if is_answered else status.word + status.text
    silence = silence_of(response, method) if response is not None and outcome is Outcome.RESULT else ""
    yield Fact("outcome", f"{text} {silence}" if silence else text, status.is_bad)


def _pair(name: str, text: str, role: Role = "plain") -> list[Span]:
    return [Span(f"{name:<10}", "dim"), Span(text, role)]


def _at(reading: Reading, row: int) -> str:
    entry = reading.index.entry(row)
    return f"+{entry.t_ns / 1e9:,.6f} s   {entry_name(entry)}, {units.size(entry.size)}"


# ---- HTTP


def _headers(reading: Reading, row: int) -> Lines:
    item = reading.index.beginning(row)
    number = item.members.get("exchange") if item is not None else None
    if type(number) is not int:
        is_http = reading.conversation.capture.transport == "http"
        return [[Span("not part of an HTTP exchange" if is_http else "no headers: this came over stdio", "dim")]]
    http = reading.conversation.exchange(number)
    if http is None:
        return [[Span(f"HTTP exchange {number}: forgotten, or not analysed yet", "dim")]]
    return [[Span(f"exchange {number}", "dim")], *request_head(http), [], *response_head(http)]
