"""Wait facts: why a call hangs, and whether its server is alive; for a call that was never answered, why it ended.

Everything is read when it is shown, in the thread that reads details. Only the newest rows are searched, so the cost
does not grow with the capture.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from analysis import clock
from analysis.conversation.call import Outcome, token_of
from analysis.conversation.http_exchange import EVENT_STREAM, HttpExchange
from analysis.conversation.message import Id, Notification, Request
from analysis.conversation.under_way import PROGRESS_METHODS
from analysis.protocol.extensions import ENDLESS_METHODS
from captures.frame import Frame
from captures.verdict import Direction
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.data.columns import NONE
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.server_process import UnknownState, server_states
from mcpproxy.tui.rows.row_calls import message_at, request_of
from mcpproxy.wording import waits
from mcpproxy.wording.facts import Fact, request_title
from mcpproxy.wording.gists import progress_text
from mcpproxy.wording.values import string

MAX_SEARCHED_ROWS: Final = 1000
"""How many of the newest rows are searched for signs of life, progress and events."""
MAX_SEARCHED_BYTES: Final = 4 << 20
"""How many bytes of these rows are read."""
MAX_COUNTED_CALLS: Final = 10_000
"""How many of the calls that ended last are examined for what was answered."""
MAX_PROGRESS_BYTES: Final = 64 << 10
"""The maximum size of a frame that is read in the search for progress."""
MAX_SERVER_REQUESTS: Final = 100
"""How many of the server's requests are searched for one in the session of a call."""
MAX_PROGRESS_CHARS: Final = 60
"""The maximum length of the message about progress, in characters."""
_ANSWER_DIRECTIONS: Final[dict[str, Direction]] = {"client": "s2c", "server": "c2s"}
"""By the side that requests, the direction of the answer."""


class Progress(NamedTuple):
    """A report on the progress of a call."""

    text: str
    row: int


class NewestRows(NamedTuple):
    """What the newest rows contain about a call and the side that should answer it."""

    sign_row: int | None = None
    """The last row from that side since the request."""
    progress: Progress | None = None
    events: int = 0
    """How many events have come on the stream of the call's HTTP exchange."""
    event_row: int | None = None
    """The last of them."""
    is_complete: bool = True
    """Whether all rows since the request were searched."""


def wait_facts(reading: Reading, number: int) -> list[Fact]:
    """Returns why a call waits, or why it was never answered; nothing for a call that was answered in time.

    Args:
        reading: the capture.
        number: the number of the call.
    """
    kind = reading.kinds.all[reading.calls.kind[number]]
    waited_ns = reading.waited_ns(number)
    if waited_ns is None or kind.method in ENDLESS_METHODS:
        return []
    is_waiting = reading.is_live and reading.outcome(number) is None
    receiver = "server" if kind.side == "client" else "client"
    request_row = reading.calls.request[number]
    newest = _newest_rows(reading, number, _ANSWER_DIRECTIONS[kind.side])
    if not is_waiting:
        return [*_ended_facts(reading, number, waited_ns, receiver, newest)]
    sent_ns = (reading.conversation.capture.wall_ns or 0) + reading.index.t_ns(request_row)
    facts = [
        *_closed_output_facts(reading, receiver),
        *_blocking_facts(reading, number),
        waits.wait_fact(waited_ns, sent_ns),
        waits.sign_of_life_fact(
            receiver,
            "" if newest.sign_row is None else _place(reading, newest.sign_row),
            None if newest.sign_row is None else _ago_ns(reading, newest.sign_row),
        ),
    ]
    if newest.progress is not None:
        row = newest.progress.row
        facts.append(waits.progress_fact(newest.progress.text, reading.index.entry(row).seq, _ago_ns(reading, row)))
    facts += _meanwhile_facts(reading, number, newest.sign_row)
    facts += _http_facts(reading, request_row, newest)
    if receiver == "server":
        facts += process_facts(reading)
    return facts


def process_facts(reading: Reading) -> Iterator[Fact]:
    """Yields what the process of a live capture's server is doing; nothing if the capture does not name it."""
    process = reading.server_process
    if reading.conversation.capture.transport == "http":
        yield waits.unknown_process_fact("the server is reached over HTTP")
        return
    if process is None:
        return
    states = server_states(process, reading.index.header.members)
    if isinstance(states, UnknownState):
        yield waits.unknown_process_fact(states.reason)
        return
    for position, state in enumerate(states):
        yield waits.process_fact(*state, is_child=position > 0)


def _closed_output_facts(reading: Reading, receiver: str) -> Iterator[Fact]:
    """Yields that the server cannot answer, if it has closed its output."""
    row = reading.output_end_row
    if row is not None and row < len(reading.index) and receiver == "server":
        yield waits.closed_output_fact(reading.index.entry(row).seq, _ago_ns(reading, row))


def _blocking_facts(reading: Reading, number: int) -> Iterator[Fact]:
    """Yields that the server itself waits for an answer to a request that it has sent since."""
    calls, kinds, row = reading.calls, reading.kinds.all, reading.calls.request[number]
    if kinds[calls.kind[number]].side != "client":
        return
    requests = islice(reading.waiting.server_requests(number), MAX_SERVER_REQUESTS)
    blocker = next((other for other in requests if reading.session(calls.request[other]) == reading.session(row)), None)
    waited_ns = None if blocker is None else reading.waited_ns(blocker)
    if blocker is None or waited_ns is None:
        return
    request, blocking_row = request_of(reading, blocker), calls.request[blocker]
    title = request_title(request) if request is not None else waits.method_text(kinds[calls.kind[blocker]].method)
    exchange = _exchange_number(reading, row)
    is_certain = reading.waiting.is_only_client_call_before(blocker) or (
        exchange is not None and exchange == _exchange_number(reading, blocking_row)
    )
    yield waits.client_wait_fact(title, reading.index.entry(blocking_row).seq, waited_ns, is_certain=is_certain)


def _ended_facts(reading: Reading, number: int, waited_ns: int, receiver: str, newest: NewestRows) -> Iterator[Fact]:
    """Yields how long a call waited in vain, what ended that, and when the other side last sent anything."""
    outcome = reading.outcome_without_response(number)
    end_row = reading.calls.end[number]
    if outcome is Outcome.CANCELLED or reading.abandoned_ns(number) is not None:
        cancelled_row = reading.conversation.cancelled_at.get(number, end_row)
        if cancelled_row >= len(reading.index):
            return
        cancellation = reading.index.entry(cancelled_row)
        ending = waits.cancelled_text(cancellation.seq, is_message=cancellation.dir is not None)
    elif not reading.has_ended:
        return
    elif reading.is_killed:
        ending = waits.KILLED_TEXT
    else:
        remark = "" if reading.end is None else reading.end.text
        ending = waits.session_end_text(reading.conversation.capture.ending, remark)
    end_ns = reading.index.t_ns(reading.calls.request[number]) + waited_ns
    wall_ns = reading.conversation.capture.wall_ns
    yield waits.ended_wait_fact(waited_ns, ending, None if wall_ns is None else wall_ns + end_ns)
    if newest.sign_row is None and newest.is_complete:
        yield waits.sign_of_life_fact(receiver, "", None, is_over=True)
    elif newest.sign_row is not None and reading.index.t_ns(newest.sign_row) <= end_ns:
        ago_ns = end_ns - reading.index.t_ns(newest.sign_row)
        yield waits.sign_of_life_fact(receiver, _place(reading, newest.sign_row), ago_ns, is_over=True)


def _meanwhile_facts(reading: Reading, number: int, sign_row: int | None) -> Iterator[Fact]:
    """Yields how many other requests of the same side have been answered since, and the last of them.

    Args:
        reading: the capture.
        number: the number of the call.
        sign_row: the last row from the other side, about which another line says everything.
    """
    calls, kinds, request_row = reading.calls, reading.kinds.all, reading.calls.request[number]
    side, settled = kinds[calls.kind[number]].side, calls.settled
    end = len(settled)
    first = max(0, end - MAX_COUNTED_CALLS)
    count, last_row, is_counted = 0, 0, first == 0
    for position in range(end - 1, first - 1, -1):
        response = calls.response[settled[position]]
        if response == NONE:
            continue
        if response < request_row:
            is_counted = True
            break
        if kinds[calls.kind[settled[position]]].side == side:
            last_row = max(last_row, response)
            count += 1
    if count or is_counted:
        ago_ns = _ago_ns(reading, last_row) if count else 0
        last_frame = None if not count or last_row == sign_row else reading.index.entry(last_row).seq
        yield waits.meanwhile_fact(count, is_counted=is_counted, last_frame=last_frame, ago_ns=ago_ns)


def _http_facts(reading: Reading, request_row: int, newest: NewestRows) -> Iterator[Fact]:
    """Yields how far the HTTP response has come, if the request came over HTTP."""
    exchange = _exchange_at(reading, request_row)
    if exchange is None:
        return
    yield waits.http_wait_fact(
        exchange.status,
        is_stream=exchange.media_type == EVENT_STREAM,
        is_over=exchange.end_ref is not None,
        events=newest.events,
        is_counted=newest.is_complete,
        ago_ns=None if newest.event_row is None else _ago_ns(reading, newest.event_row),
    )


def _exchange_at(reading: Reading, row: int) -> HttpExchange | None:
    number = _exchange_number(reading, row)
    return None if number is None else reading.conversation.exchange(number)


def _exchange_number(reading: Reading, row: int) -> int | None:
    item = reading.index.read_first_part(row)
    number = None if item is None else item.members.get("exchange")
    return number if type(number) is int else None


def _newest_rows(reading: Reading, number: int, direction: Direction) -> NewestRows:
    """Search the rows since a request, the newest first, for what concerns its call."""
    index, request_row = reading.index, reading.calls.request[number]
    request = request_of(reading, number)
    token = None if request is None else _token(request)
    exchange = _exchange_number(reading, request_row) if reading.http.has_any else None
    last_row = min(len(index), reading.interpreted_count) - 1
    first_row = max(request_row, last_row - MAX_SEARCHED_ROWS)
    sign_row = event_row = progress = None
    events = read_bytes = 0
    for row in range(last_row, first_row, -1):
        entry = index.entry(row)
        is_sign = entry.dir == direction or (entry.kind == "stderr" and direction == "s2c")
        if is_sign and sign_row is None:
            sign_row = row
        if entry.dir != direction:
            continue
        read_bytes += entry.size
        if read_bytes > MAX_SEARCHED_BYTES:
            first_row = row
            break
        if exchange is not None and _exchange_number(reading, row) == exchange:
            events, event_row = events + 1, row if event_row is None else event_row
        if progress is None and token is not None and entry.kind == "notification" and entry.size <= MAX_PROGRESS_BYTES:
            progress = _progress_in(reading, row, token)
    if exchange is not None and direction == "s2c":
        # The head of a response has no frame, but is a sign of life, too.
        head_rows = [row for row in reading.http.rows(exchange) if request_row < row <= last_row]
        sign_row = max([*head_rows, *([] if sign_row is None else [sign_row])], default=None)
    return NewestRows(sign_row, progress, events, event_row, is_complete=first_row == request_row)


def _token(request: Request) -> Id | None:
    params = request.params
    meta = params.get("_meta") if isinstance(params, dict) else None
    return token_of(meta.get("progressToken")) if isinstance(meta, dict) else None


def _progress_in(reading: Reading, row: int, token: Id) -> Progress | None:
    """Returns the progress that a row reports for a token, or None if it reports none."""
    frame = reading.index.read_item(row)
    message = message_at(reading, row, frame) if isinstance(frame, Frame) else None
    if not isinstance(message, Notification) or message.method not in PROGRESS_METHODS:
        return None
    params = message.params
    is_about = isinstance(params, dict) and token_of(params.get("progressToken")) == token
    if not is_about or not isinstance(params, dict):
        return None
    text = sanitise(string(params, "message"), MAX_PROGRESS_CHARS)
    return Progress(f"{progress_text(params)}{f' {text}' if text else ''}", row)


def _ago_ns(reading: Reading, row: int) -> int:
    return max(0, clock.age_ns(reading.conversation.capture.wall_ns) - reading.index.t_ns(row))


def _place(reading: Reading, row: int) -> str:
    entry = reading.index.entry(row)
    return waits.sent_text(entry.kind, entry.seq, is_frame=entry.dir is not None)
