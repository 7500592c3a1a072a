"""The order of a cassette's records, which does not depend on how concurrent calls happened to interleave.

The records are put together in blocks, each around one message. A call that overlaps others gets its answer, and its
progress, right after its request: between two messages of any other kind, calls are written one after another, in the
order of their requests. Nothing moves past a message that could depend on it, such as a cancellation, a notification
without a call, or a request of the server; and no request comes before a message that it followed. Records outside
messages move freely: the end of an HTTP exchange whose answer is complete goes to that answer, and a stream that the
client opens by GET right after its handshake, whose opening races with the next request, goes to that handshake.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Final, Literal, TypeAlias

from msgspec import Struct

_MAX_REQUESTS_BEFORE_STREAM: Final = 8
"""How many requests may overtake the opening of the stream after a handshake."""
_REGULAR_ENDS: Final = frozenset({"complete", "server"})

Mover: TypeAlias = Literal["client", "server", "neither"]


class RecordFacts(Struct, gc=False):
    """What the order depends on in one record."""

    rec: str
    t_ns: int
    offset: int
    """Where its line is in the file of lines."""
    size: int
    sender: Mover = "neither"
    """For a frame or a part: the side that sent it."""
    exchange: int = 0
    """The number of the HTTP exchange; 0 on stdio."""
    stage: str = ""
    """The stage of an exchange; the event of a stream or process; the direction of an end of file."""
    ended_by: str = ""
    call: int = -1
    """For a frame that may change places: the client's call that it opens, answers or reports progress of. -1 for
    anything else."""
    is_list: bool = False
    """For a frame with a call: whether that is for a list. Lists change places with lists only."""
    request_id: int = -1
    """For a frame of the client: the id of its request if that is a whole number; otherwise -1."""
    has_request: bool = False
    """For a frame of the client: whether there is a request in it."""
    is_initialized: bool = False
    """Whether it is the client's notification that ends the handshake."""
    is_get: bool = False
    """For the request of an exchange: whether it is a GET that resumes no stream."""
    is_legacy: bool = False
    """For a frame: whether it belongs to a session of the older transport, which answers on another stream."""
    is_settled: bool = False
    """For the end of an exchange: whether it has answered its requests."""
    is_delete: bool = False
    """For the request of an exchange: whether it ends a session."""
    is_announcing: bool = False
    """For an exchange: whether it announces an address for messages (the older transport)."""
    wants_stream: bool = False
    """For the request of an exchange: whether an event stream is an acceptable answer."""
    session: str = ""
    """For an exchange: the session id of its request, or the hash of that."""


class _Block(Struct):
    """Records that stay together."""

    position: int
    """The index of the record that decides where the block is."""
    records: list[int]
    mover: Mover
    exchange: int = 0
    call: int = -1
    """The client's call among whose blocks it may be placed; -1 if no other block may move past it."""
    request_id: int = -1
    is_list: bool = False
    has_message: bool = True

    @property
    def stretch(self) -> int:
        """The kind of stretch that it belongs to: 0 if no other block may move past it."""
        return 0 if self.call < 0 else 1 + self.is_list


class _Exchange(Struct):
    """The records of one HTTP exchange."""

    opening: list[int] = []
    """The request, with the frames of its body; of a GET, also the head of the response, which is in no message."""
    answers: list[tuple[list[int], RecordFacts]] = []
    """The frames of the response, each after its parts and the records that came right before it, with its call."""
    pending: list[int] = []
    """Records of the response that belong to the next frame, or to the end."""
    announcements: list[int] = []
    """Records that announce an address for messages."""
    ending: list[int] = []
    parts: dict[Mover, list[int]] = {}
    session: str = ""
    ended_by: str = ""
    call: int = -1
    is_list: bool = False
    request_id: int = -1
    frame_count: int = 0
    has_request: bool = False
    is_get: bool = False
    is_legacy: bool = False
    is_settled: bool = False
    is_delete: bool = False
    wants_stream: bool = False
    is_stream: bool = False
    is_initialized: bool = False


class _Call(Struct):
    """The blocks of one call in a stretch."""

    request: _Block | None = None
    answers: list[_Block] = []

    @property
    def end(self) -> int:
        """The position of its last block."""
        return max((block.position for block in self.answers), default=1 << 62)


def steady_order(entries: list[RecordFacts]) -> Iterator[int]:
    """Yields the indices of all records, in the order of a cassette."""
    for stretch, group in groupby(_blocks(entries), attrgetter("stretch")):
        for block in _one_call_after_the_other(group) if stretch else group:
            yield from block.records


def _one_call_after_the_other(stretch: Iterable[_Block]) -> Iterator[_Block]:
    """Yields the blocks of calls, sorted by call; those of earlier calls come first."""
    calls: dict[int, _Call] = {}
    for block in stretch:
        call = calls.setdefault(block.call, _Call())
        if block.mover == "client" and call.request is None:
            call.request = block
        else:
            call.answers.append(block)
    earlier = [number for number, call in calls.items() if call.request is None]
    for number in sorted(earlier):
        yield from calls[number].answers
    for call in _in_order_of_ids(call for call in calls.values() if call.request is not None):
        assert call.request is not None
        yield call.request
        yield from sorted(call.answers, key=lambda block: (block.has_message, block.position))


def _in_order_of_ids(calls: Iterable[_Call]) -> Iterator[_Call]:
    """Sort calls that overlap in several HTTP exchanges by their ids, which clients count up."""
    overlapping: list[_Call] = []
    end = -1
    for call in calls:
        assert call.request is not None
        if call.request.position > end:
            yield from _sorted_by_id(overlapping)
            overlapping, end = [], -1
        overlapping.append(call)
        end = max(end, call.end)
    yield from _sorted_by_id(overlapping)


def _sorted_by_id(calls: list[_Call]) -> list[_Call]:
    requests = [call.request for call in calls if call.request is not None]
    if all(request.exchange and request.request_id >= 0 for request in requests):
        calls.sort(key=lambda call: call.request.request_id if call.request is not None else -1)
    return calls


def _blocks(entries: list[RecordFacts]) -> list[_Block]:
    """Returns the blocks in the order of the capture, apart from those that move far."""
    exchanges: dict[int, _Exchange] = {}
    parts: dict[Mover, list[int]] = {}
    blocks: list[_Block] = []
    for index, entry in enumerate(entries):
        if entry.exchange:
            exchange = exchanges.setdefault(entry.exchange, _Exchange())
            _add_record(exchange, index, entry)
        elif entry.rec == "part":
            parts.setdefault(entry.sender, []).append(index)
        elif entry.rec == "frame":
            records = [*parts.pop(entry.sender, ()), index]
            blocks.append(_Block(index, records, entry.sender, 0, entry.call, entry.request_id, entry.is_list))
        elif entry.rec == "stderr" and blocks:
            blocks[-1].records.append(index)
        elif _ends_output_late(entries, index):
            blocks[-1].records.insert(-1, index)
        else:
            blocks.append(_Block(index, [index], "neither"))
    blocks += [_Block(indices[-1], indices, "neither") for indices in parts.values()]
    for number, exchange in exchanges.items():
        blocks += _blocks_of(number, exchange)
    blocks.sort(key=attrgetter("position"))
    return _with_streams_early(blocks, exchanges) if exchanges else blocks


def _ends_output_late(entries: list[RecordFacts], index: int) -> bool:
    """Whether a record is the end of the server's output, noticed right after the end of its process."""
    before, entry = entries[index - 1], entries[index]
    return (
        index > 0 and entry.rec == "eof" and entry.stage == "s2c" and (before.rec, before.stage) == ("process", "ended")
    )


# ---- HTTP


def _add_record(exchange: _Exchange, index: int, entry: RecordFacts) -> None:
    exchange.session = exchange.session or entry.session
    exchange.is_get = exchange.is_get or entry.is_get
    exchange.is_delete = exchange.is_delete or entry.is_delete
    exchange.wants_stream = exchange.wants_stream or entry.wants_stream
    exchange.is_stream = exchange.is_stream or entry.stage == "opened"
    if entry.rec == "part":
        exchange.parts.setdefault(entry.sender, []).append(index)
    elif entry.rec == "frame" and entry.sender == "client":
        exchange.opening += [*exchange.parts.pop("client", ()), index]
        exchange.frame_count += 1
        exchange.call, exchange.is_list, exchange.request_id = entry.call, entry.is_list, entry.request_id
        exchange.has_request = exchange.has_request or entry.has_request
        exchange.is_initialized = exchange.is_initialized or entry.is_initialized
        exchange.is_legacy = entry.is_legacy
    elif entry.rec == "frame":
        records = [*exchange.pending, *exchange.parts.pop("server", ()), index]
        exchange.answers.append((records, entry))
        exchange.pending = []
    elif entry.stage in ("end", "ended"):
        exchange.ending.append(index)
        exchange.ended_by = entry.ended_by
        exchange.is_settled = entry.is_settled
    elif entry.is_announcing:
        exchange.announcements.append(index)
    elif entry.stage == "request" or exchange.is_get:
        exchange.opening.append(index)
    else:
        exchange.pending.append(index)


def _blocks_of(number: int, exchange: _Exchange) -> Iterator[_Block]:
    """Yields the blocks of an exchange, not in order."""
    opening, answers, pending, ending = exchange.opening, exchange.answers, exchange.pending, exchange.ending
    call = exchange.call if exchange.frame_count == 1 else -1
    is_regular = exchange.ended_by in _REGULAR_ENDS
    if (
        not answers
        and not exchange.is_stream
        and (exchange.is_get or (exchange.frame_count > 0 and not exchange.has_request and is_regular))
    ):
        opening, pending, ending = [*opening, *pending, *ending], [], []
    if opening:
        position = opening[0] if exchange.is_get else exchange.opening[-1]
        yield _Block(position, opening, "client", number, call, exchange.request_id, exchange.is_list)
    if pending and not answers:
        yield _Block(pending[-1], pending, "server", number)
    elif pending:
        ending = [*pending, *ending]
    is_ended_by_answer = bool(answers) and is_regular and exchange.is_settled
    for place, (records, entry) in enumerate(answers, 1):
        ends_here = is_ended_by_answer and place == len(answers)
        all_records = [*records, *ending] if ends_here else records
        yield _Block(records[-1], all_records, "server", number, entry.call, is_list=entry.is_list)
    if ending and not is_ended_by_answer:
        ended_call = call if exchange.is_legacy and is_regular else -1
        yield _Block(ending[-1], ending, "server", number, ended_call, is_list=exchange.is_list, has_message=False)
    for side, records in exchange.parts.items():
        yield _Block(records[-1], records, side, number)
    for index in exchange.announcements:
        yield _Block(index, [index], "server", number)


def _with_streams_early(blocks: list[_Block], exchanges: dict[int, _Exchange]) -> list[_Block]:
    """Move a stream that a client opens after its handshake to the end of that, and its end to the end of all."""
    last_places = {block.exchange: place for place, block in enumerate(blocks) if block.exchange}
    handshakes = {exchange.session: number for number, exchange in exchanges.items() if exchange.is_initialized}
    last_request = max((place for place, block in enumerate(blocks) if _asks(block, exchanges)), default=-1)
    client_places = [place for place, block in enumerate(blocks) if block.mover == "client"]
    end_place = max(last_places.values(), default=0)
    keys = [(place, 0, 0) for place in range(len(blocks))]
    moved_sessions: set[str] = set()
    for place, block in enumerate(blocks):
        exchange = exchanges.get(block.exchange)
        if exchange is None or not (exchange.is_get and (exchange.is_stream or exchange.wants_stream)):
            continue
        if block.mover == "client":
            handshake = last_places.get(handshakes.get(exchange.session, 0), place)
            overtaking_count = bisect_left(client_places, place) - bisect_right(client_places, handshake)
            is_early = handshake < place and overtaking_count <= _MAX_REQUESTS_BEFORE_STREAM
            if is_early and exchange.session not in moved_sessions:
                moved_sessions.add(exchange.session)
                keys[place] = handshake, 1, place
        elif place > last_request and block.records == exchange.ending:
            keys[place] = end_place, 2, place
    return [blocks[place] for place in sorted(range(len(blocks)), key=keys.__getitem__)]


def _asks(block: _Block, exchanges: dict[int, _Exchange]) -> bool:
    """Whether a block is a client's message or request, but not the end of a session."""
    exchange = exchanges.get(block.exchange)
    return block.mover == "client" and (exchange is None or not exchange.is_delete)
