"""Detail: everything about one row as lines: its text, pretty JSON, raw text, hex, headers, the exchange, findings.

A thread reads it from the file. Long content is split into pages.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from analysis.facts import raw_of
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.protocol.revisions import rank_of
from captures.damage import Damage
from captures.frame import Frame
from captures.index import IndexEntry
from captures.record import Record, raw_bytes
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.columns import NONE
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.details.byte_pages import PAGE_BYTES, HexPage, RawPage
from mcpproxy.tui.details.exchange_view import JoinedLines, exchange_view, wrapped_facts
from mcpproxy.tui.details.wait_facts import wait_facts
from mcpproxy.tui.rows.finding_lines import row_lines, short_lines
from mcpproxy.tui.rows.login_row_text import role_of
from mcpproxy.tui.rows.row_calls import MAX_LINE_FRAME_BYTES, call_at, late_ns, message_at, response_of
from mcpproxy.tui.rows.row_ids import ids_at
from mcpproxy.tui.rows.row_logins import login_at
from mcpproxy.tui.rows.row_text import meaning_at
from mcpproxy.tui.text.messages import record_value
from mcpproxy.tui.text.rows import row_text
from mcpproxy.tui.widgets.tree import Tree, tree_lines
from mcpproxy.wording import units
from mcpproxy.wording.exact_json import parse
from mcpproxy.wording.facts import Fact, cancellation, extension_facts, outcome, related_facts
from mcpproxy.wording.http_head import request_head, response_head
from mcpproxy.wording.logins import client_text, duration_text, outcome_text
from mcpproxy.wording.names import peer_text
from mcpproxy.wording.spans import Role, Span
from mcpproxy.wording.statuses import outcome_status, waiting_status
from mcpproxy.wording.turns import id_facts

MAX_TREE_BYTES: Final = 1 << 20
"""The size, in bytes, above which a frame is shown as raw text, page by page."""
VIEWS: Final = ("text", "pretty", "raw", "hex", "headers", "exchange", "findings")

Lines = Sequence[Sequence[Span]]


class Detail(NamedTuple):
    """The content of the pane."""

    lines: Lines = ()
    tree: Tree | None = None
    pages: int = 1
    """The number of pages; `lines` is one of them."""
    exchange: Lines = ()
    """A summary of the row's exchange, to be shown next to it."""


def detail(
    reading: Reading, row: int, view: str, page: int = 0, width: int = 80, *, with_findings: bool = False
) -> Detail:
    """Returns one view of a row, and a summary of its exchange.

    Args:
        reading: the capture.
        row: the row.
        view: one of VIEWS.
        page: the number of the page in a raw view, from 0.
        width: the width of a line, in cells.
        with_findings: whether the exchange ends with the findings, because they are not shown next to it.
    """
    facts = exchange_lines(reading, row)
    if view != "exchange":
        return _view(reading, row, view, page, width)._replace(exchange=facts)
    findings = short_lines(reading, row, width) if with_findings else []
    number = reading.call(row)
    if number is None:
        return Detail([*wrapped_facts(facts, width), *findings])
    return Detail(
        JoinedLines(_wait_lines(reading, number, width), exchange_view(reading, row, width, facts[1:]), findings)
    )


def _wait_lines(reading: Reading, number: int, width: int) -> Lines:
    """Returns the lines about why a call hangs or was never answered, and an empty line; nothing for other calls."""
    facts = [_fact_line(fact) for fact in wait_facts(reading, number)]
    return [*wrapped_facts(_aligned(facts), width), []] if facts else []


def _view(reading: Reading, row: int, view: str, page: int, width: int) -> Detail:
    if view == "findings":
        return Detail(row_lines(reading, row, width))
    if view == "headers":
        return Detail(_header_lines(reading, row))
    if view == "text":
        writer = row_text(reading, row, width)
        if writer is not None:
            return Detail(writer.lines)
    index = reading.index
    if index.entry(row).size > MAX_TREE_BYTES and index.giant_frame_parts(row) is not None:
        return _byte_page(lambda: index.giant_frame_parts(row) or (), view, page, width, row, index.entry(row).size)
    item = reading.index.read_item(row)
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
    return _byte_page(lambda: (raw,), view, page, width, row, len(raw))


def _byte_page(pieces: Callable[[], Iterable[bytes]], view: str, page: int, width: int, row: int, size: int) -> Detail:
    page_class = HexPage if view == "hex" else RawPage
    return Detail(page_class(pieces, page, width, row), pages=max(1, -(-size // PAGE_BYTES)))


def _pretty(reading: Reading, row: int, item: Frame | Record) -> Detail | None:
    if isinstance(item, Record):
        return Detail(tree=Tree(tree_lines(record_value(item)))) if item.rec != "stderr" else None
    if len(item.raw) > MAX_TREE_BYTES:
        return None
    frames = message_at(reading, row, item).frames
    try:
        text = raw_of(frames).decode("utf-8-sig")
        return Detail(tree=Tree(tree_lines(parse(text))))
    except (ValueError, RecursionError):
        return None


# ---- the exchange


def entry_name(entry: IndexEntry) -> str:
    """Returns the name of an entry with its number: `frame 9`, or `record 9` if it is not a frame."""
    return f"{'frame' if entry.dir else 'record'} {entry.seq:,}"


def exchange_lines(reading: Reading, row: int) -> Lines:
    """Returns how a message relates to others: the times, outcome and two sides of its exchange. Reads the file."""
    index, number = reading.index, reading.call(row)
    entry = index.entry(row)
    lines = [[Span(f"{entry.kind} ", "accent"), Span(f"{entry_name(entry)}, {units.size(entry.size)}")]]
    login = reading.logins.login_shown_in(row)
    if login is not None:
        return [*lines, *_login_lines(reading, login)]
    if number is None:
        return [*lines, *(_related_lines(reading, row) or [[Span("not part of an exchange", "dim")]])]
    calls = reading.calls
    lines.append(_labelled_line("sent", _position_text(reading, calls.request[number])))
    if calls.response[number] != NONE:
        lines.append(_labelled_line("answered", _position_text(reading, calls.response[number])))
        qualifier = "about " if calls.is_inexact[number] else ""
        lines.append(_labelled_line("latency", f"{qualifier}{units.duration(calls.latency_ns[number])}"))
    lines += map(_fact_line, _outcome_facts(reading, number))
    lines += map(_fact_line, id_facts(ids_at(reading, number), is_short=True))
    client, server, _ = reading.conversation.peers(reading.session(row))
    for side, peer in (("client", client), ("server", server)):
        if peer is not None:
            lines.append(_labelled_line(side, peer_text(peer)))
    return [lines[0], *_aligned(lines[1:])]


def _login_lines(reading: Reading, number: int) -> Lines:
    """Returns what became of a login, for the summary of its head and its legs."""
    login, role = login_at(reading, number), role_of(reading.logins.state(number))
    if login is None:
        return []
    facts = (("login", f"{number:,}"), ("lasted", duration_text(login)), ("client", client_text(login)))
    return [_labelled_line("outcome", outcome_text(login), role), *(_labelled_line(*fact) for fact in facts)]


def _related_lines(reading: Reading, row: int) -> list[list[Span]]:
    """Returns the lines about a message that belongs to no call."""
    if row >= reading.interpreted_count:
        return [[Span("not analysed yet …", "dim")]]
    item = reading.index.read_item(row) if reading.index.entry(row).size <= MAX_LINE_FRAME_BYTES else None
    if not isinstance(item, Frame) or item.verdict.kind == "batch":
        return []
    message = message_at(reading, row, item)
    facts = [*extension_facts(message, None, None), *related_facts(message, meaning_at(reading, row, message))]
    return [*map(_fact_line, facts)]


def _outcome_facts(reading: Reading, number: int) -> Iterator[Fact]:
    """Yields how a call was cancelled, and its outcome."""
    calls, known_outcome = reading.calls, reading.outcome(number)
    is_answered, response = calls.response[number] != NONE, response_of(reading, number)
    # For a message that is too large to be read for a line, only its outcome is shown.
    call = call_at(reading, number, response) if response is not None or not is_answered else None
    if call is not None:
        yield from extension_facts(call.request, rank_of(call.revision), call.session)
        yield from filter(None, [cancellation(call)])
    if known_outcome is None:
        is_endless = reading.kinds.all[calls.kind[number]].method in ENDLESS_METHODS
        yield from [] if is_endless else [Fact("outcome", waiting_status().word if reading.is_live else "…")]
    elif call is not None:
        yield from filter(None, [outcome(call)])
    else:
        status = outcome_status(known_outcome, is_abandoned=reading.abandoned_ns(number) is not None)
        yield Fact("outcome", status._replace(late_ns=late_ns(reading, number)).word, status.is_bad)


def _fact_line(fact: Fact) -> list[Span]:
    return _labelled_line(fact.name, fact.text, "bad" if fact.is_bad else "plain")


def _labelled_line(name: str, text: str, role: Role = "plain") -> list[Span]:
    return [Span(f"{name:<9} ", "dim"), Span(text, role)]


def _aligned(lines: Lines) -> Lines:
    """Returns labelled lines whose texts begin in one column, even if a label is longer than most."""
    width = max((len(label.text) for label, *_ in lines), default=0)
    return [[label._replace(text=f"{label.text:<{width}}"), *texts] for label, *texts in lines]


def _position_text(reading: Reading, row: int) -> str:
    entry = reading.index.entry(row)
    return f"{units.offset_text(entry.t_ns)}   {entry_name(entry)}, {units.size(entry.size)}"


# ---- HTTP


def _header_lines(reading: Reading, row: int) -> Lines:
    item = reading.index.read_first_part(row)
    number = item.members.get("exchange") if item is not None else None
    if type(number) is not int:
        is_http = reading.conversation.capture.transport == "http"
        return [[Span("not part of an HTTP exchange" if is_http else "no headers: this came over stdio", "dim")]]
    http = reading.conversation.exchange(number)
    if http is None:
        return [[Span(f"HTTP exchange {number}: forgotten, or not analysed yet", "dim")]]
    return [[Span(f"exchange {number}", "dim")], *request_head(http), [], *response_head(http)]
