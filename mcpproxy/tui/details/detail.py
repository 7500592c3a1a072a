"""Detail: everything about one row as lines: its text, pretty JSON, raw text, hex, headers, the exchange, findings.

A thread reads it from the file. Long content is split into pages.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from analysis.conversation.call import ERRORS, FAILURES, Outcome
from analysis.conversation.message import Response
from analysis.facts import raw_of
from captures.damage import Damage
from captures.frame import Frame
from captures.index import Entry
from captures.record import Record, raw_bytes
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.columns import OUTCOMES
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.details.byte_pages import PAGE, HexPage, RawPage
from mcpproxy.tui.details.exchange_view import Joined, exchange_view
from mcpproxy.tui.rows.finding_lines import row_lines, short_lines
from mcpproxy.tui.rows.row_text import message_at
from mcpproxy.tui.text.rows import row_text
from mcpproxy.tui.widgets.tree import Tree, branches, parse
from mcpproxy.wording import units
from mcpproxy.wording.http_head import request_head, response_head
from mcpproxy.wording.messages import failure, peer_text
from mcpproxy.wording.records import remark_on
from mcpproxy.wording.text import Span, ms_text

LARGEST_TREE: Final = 1 << 20
"""Bytes. A larger frame is shown as raw text, page by page."""
LARGEST_SILENCE: Final = 64 << 10
"""Bytes. A larger response is not examined for empty content: it has some, even if only `_meta`."""
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
    silence: str = ""
    """Which expected content is empty in the response, in words; empty if none."""


def detail(
    reading: Reading, row: int, view: str, page: int = 0, width: int = 80, *, with_findings: bool = False
) -> Detail:
    """One view of a row, and which content of its response is empty.

    Args:
        reading: the capture.
        row: the entry.
        view: one of VIEWS.
        page: from 0, of the raw views.
        width: cells of a line.
        with_findings: whether the exchange ends with the findings, as they are not beside it.
    """
    silence = silence_of(reading, row)
    if view == "exchange":
        facts = exchange_lines(reading, row, silence)
        findings = short_lines(reading, row, width) if with_findings else []
        if reading.call(row) is None:
            return Detail([*facts, *findings], silence=silence)
        return Detail(Joined(exchange_view(reading, row, width, facts[1:]), findings), silence=silence)
    return _view(reading, row, view, page, width)._replace(silence=silence)


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


def silence_of(reading: Reading, row: int) -> str:
    """Which expected content of the response is empty, in words; empty if none. Reads the response from the file."""
    number = reading.call(row)
    if number is None or reading.outcome(number) is not Outcome.RESULT:
        return ""
    member = _CONTENT.get(reading.kinds.all[reading.calls.kind[number]].method)
    answer = reading.partner(reading.calls.request[number])
    if member is None or answer is None or reading.index.entry(answer).size > LARGEST_SILENCE:
        return ""
    item = reading.index.item(answer)
    message = message_at(reading, answer, item) if isinstance(item, Frame) and item.verdict.kind != "batch" else None
    result = message.result if isinstance(message, Response) else None
    if not isinstance(result, dict) or result.get("structuredContent") is not None:
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


def exchange_lines(reading: Reading, row: int, silence: str = "") -> Lines:
    """An exchange: when it was sent and answered, how long it took, its outcome, and the two sides."""
    index, number = reading.index, reading.call(row)
    entry = index.entry(row)
    head = [[Span(f"{entry.sort} ", "accent"), Span(f"{entry_name(entry)}, {units.size(entry.size)}")]]
    if number is None:
        return [*head, [Span("not part of an exchange" if row < reading.understood else "not analysed yet …", "dim")]]
    calls = reading.calls
    request, response = calls.request[number], reading.partner(calls.request[number])
    lines = [*head, _pair("sent", _at(reading, request))]
    if response is not None:
        lines += [_pair("answered", _at(reading, response)), _pair("took", ms_text(calls.latency_ns[number]))]
    waited_ns = reading.abandoned_ns(number)
    if waited_ns is not None:
        text = f"after {units.duration(waited_ns)}"
        if response is not None:
            text += f", {units.duration(calls.latency_ns[number] - waited_ns)} before the response"
        lines.append([Span(f"{'abandoned':<10}", "dim"), Span(text, "bad")])
    answer = reading.conversation.probable_answers.get(number)
    if answer is not None and response is None:
        text = answer.text.removeprefix("probably ")
        lines.append([Span(f"{'probably':<10}", "dim"), Span(sanitise(text), "bad")])
    code = calls.outcome[number]
    outcome = OUTCOMES[code] if code < len(OUTCOMES) else None
    words = {
        Outcome.UNANSWERED: "unanswered: no response came before the session ended",
        Outcome.NOT_RECORDED: "not recorded: the response may be in what the capture lacks",
        Outcome.FAILED: f"failed: {_failure(reading, request)}" if outcome is Outcome.FAILED else "",
        None: "waiting" if reading.is_live else "…",
    }
    bad = outcome in ERRORS | FAILURES
    text = words.get(outcome, str(outcome).replace("_", " ")) + (f" {silence}" if silence else "")
    lines.append([Span(f"{'outcome':<10}", "dim"), Span(text, "bad" if bad else "plain")])
    client, server = reading.conversation.peers(reading.session(row))
    for word, peer in (("client", client), ("server", server)):
        if peer is not None:
            lines.append(_pair(word, peer_text(peer)))
    return lines


def _pair(name: str, text: str) -> list[Span]:
    return [Span(f"{name:<10}", "dim"), Span(text)]


def _at(reading: Reading, row: int) -> str:
    entry = reading.index.entry(row)
    return f"+{entry.t_ns / 1e9:,.6f} s   {entry_name(entry)}, {units.size(entry.size)}"


# ---- HTTP


def _failure(reading: Reading, request: int) -> str:
    item = reading.index.beginning(request)
    number = item.members.get("exchange") if item is not None else None
    http = reading.conversation.exchange(number) if type(number) is int else None
    # A redirected request has failed where it was repeated, if it was.
    return failure(None if http is not None and http.is_redirect else http)


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
