"""The order of a cassette's records, which does not depend on how concurrent messages happened to interleave.

The records are put together in blocks, each around one message. Every message of one side stays behind all messages of
the other side that it was behind: only blocks of the same side, with no block of the other side between them, change
places. So a request still precedes its response, and what a peer may have known when it sent a message is the same.
Two things move further, because no message goes with them: the end of an HTTP exchange whose answer is complete, which
goes to that answer, and a stream that the client opens by GET right after its handshake, whose opening races with the
next request.
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


class Entry(Struct, gc=False):
    """What the order must know of one record."""

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
    """For a frame of the server: the client's call that it belongs to; -1 if it belongs to none, or this is unknown."""
    request_id: int = -1
    """For a frame of the client: the id of its request if that is a whole number; otherwise -1."""
    is_initialized: bool = False
    """Whether it is the client's notification that ends the handshake."""
    is_plain_get: bool = False
    """For the request of an exchange: whether it is a GET that resumes nothing."""
    session: str = ""
    """For an exchange: the hash of its session id, if it has one."""


class _Block(Struct):
    """Records that stay together."""

    position: int
    """The index of the record that decides where the block is."""
    records: list[int]
    mover: Mover
    exchange: int = 0
    call: int = -1
    request_id: int = -1


class _Exchange(Struct):
    """The records of one HTTP exchange."""

    opening: list[int] = []
    """The request, with the frames of its body; of a GET, also the head of the response, which is in no message."""
    answers: list[list[int]] = []
    """The frames of the response, each after its parts and the records that came right before it."""
    pending: list[int] = []
    """Records of the response that belong to the next frame, or to the end."""
    ending: list[int] = []
    parts: dict[Mover, list[int]] = {}
    session: str = ""
    ended_by: str = ""
    is_plain_get: bool = False
    is_stream: bool = False
    is_initialized: bool = False
    request_ids: list[int] = []


def steady_order(entries: list[Entry]) -> Iterator[int]:
    """Yields the indices of all records, in the order of a cassette."""
    ranks: dict[int, int] = {}
    """By exchange: its position among those that the client began."""
    for mover, group in groupby(_blocks(entries), attrgetter("mover")):
        run: Iterable[_Block] = list(group)
        if mover == "client":
            run = list(_in_order_of_ids(run))
            for block in run:
                ranks.setdefault(block.exchange, len(ranks))
        elif mover == "server":
            run = _in_order_of_requests(run, ranks)
        for block in run:
            yield from block.records


def _blocks(entries: list[Entry]) -> list[_Block]:
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
            blocks.append(_Block(index, records, entry.sender, call=entry.call))
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


def _ends_output_late(entries: list[Entry], index: int) -> bool:
    """Whether a record is the end of the server's output, noticed right after the end of its process."""
    before, entry = entries[index - 1], entries[index]
    return (
        index > 0 and entry.rec == "eof" and entry.stage == "s2c" and (before.rec, before.stage) == ("process", "ended")
    )


# ---- HTTP


def _add_record(exchange: _Exchange, index: int, entry: Entry) -> None:
    exchange.session = exchange.session or entry.session
    exchange.is_plain_get = exchange.is_plain_get or entry.is_plain_get
    exchange.is_stream = exchange.is_stream or entry.stage == "opened"
    if entry.rec == "part":
        exchange.parts.setdefault(entry.sender, []).append(index)
    elif entry.rec == "frame" and entry.sender == "client":
        exchange.opening += [*exchange.parts.pop("client", ()), index]
        exchange.request_ids.append(entry.request_id)
        exchange.is_initialized = exchange.is_initialized or entry.is_initialized
    elif entry.rec == "frame":
        exchange.answers.append([*exchange.pending, *exchange.parts.pop("server", ()), index])
        exchange.pending = []
    elif entry.stage in ("end", "ended"):
        exchange.ending.append(index)
        exchange.ended_by = entry.ended_by
    elif entry.stage == "request" or exchange.is_plain_get:
        exchange.opening.append(index)
    else:
        exchange.pending.append(index)


def _blocks_of(number: int, exchange: _Exchange) -> Iterator[_Block]:
    """Yields the blocks of an exchange, not in order."""
    opening, answers, ending = exchange.opening, exchange.answers, [*exchange.pending, *exchange.ending]
    if exchange.is_plain_get and not exchange.is_stream and not answers:
        opening, ending = [*opening, *ending], []
    if opening:
        request_id = exchange.request_ids[0] if len(exchange.request_ids) == 1 else -1
        position = opening[0] if exchange.is_plain_get else opening[-1]
        yield _Block(position, opening, "client", number, request_id=request_id)
    is_ended_by_answer = bool(answers) and exchange.ended_by in _REGULAR_ENDS and not exchange.is_plain_get
    for place, records in enumerate(answers, 1):
        ends_here = is_ended_by_answer and place == len(answers)
        yield _Block(records[-1], [*records, *ending] if ends_here else records, "server", number)
    if ending and not is_ended_by_answer:
        yield _Block(ending[-1], ending, "server", number)
    for side, records in exchange.parts.items():
        yield _Block(records[-1], records, side, number)


def _with_streams_early(blocks: list[_Block], exchanges: dict[int, _Exchange]) -> list[_Block]:
    """Move a stream that a client opens after its handshake to the end of that, and its end to the end of all."""
    last_places = {block.exchange: place for place, block in enumerate(blocks) if block.exchange}
    handshakes = {exchange.session: number for number, exchange in exchanges.items() if exchange.is_initialized}
    last_request = max((place for place, block in enumerate(blocks) if block.request_id >= 0), default=-1)
    client_places = [place for place, block in enumerate(blocks) if block.mover == "client"]
    end_place = max(last_places.values(), default=0)
    keys = [(place, 0, 0) for place in range(len(blocks))]
    moved_sessions: set[str] = set()
    for place, block in enumerate(blocks):
        exchange = exchanges.get(block.exchange)
        if exchange is None or not exchange.is_plain_get:
            continue
        if block.mover == "client":
            handshake = last_places.get(handshakes.get(exchange.session, 0), place)
            overtaking_count = bisect_left(client_places, place) - bisect_right(client_places, handshake)
            is_early = handshake < place and overtaking_count <= _MAX_REQUESTS_BEFORE_STREAM
            if is_early and exchange.session not in moved_sessions:
                moved_sessions.add(exchange.session)
                keys[place] = handshake, 1, place
        elif place > last_request and block.records[-1:] == exchange.ending[-1:]:
            keys[place] = end_place, 2, place
    return [blocks[place] for place in sorted(range(len(blocks)), key=keys.__getitem__)]


# ---- runs of blocks of one side


def _in_order_of_ids(run: Iterable[_Block]) -> Iterator[_Block]:
    """Sort requests that were sent at once in several exchanges by their ids, which clients count up."""
    for is_request, group in groupby(run, lambda block: block.exchange > 0 and block.request_id >= 0):
        blocks = list(group)
        yield from sorted(blocks, key=attrgetter("request_id")) if is_request else blocks


def _in_order_of_requests(run: Iterable[_Block], ranks: dict[int, int]) -> Iterator[_Block]:
    """Sort what the server sent at once by the requests that it belongs to."""

    def rank(block: _Block) -> int:
        return ranks.get(block.exchange, -1) if block.exchange else block.call

    for is_sortable, group in groupby(run, lambda block: rank(block) >= 0):
        blocks = list(group)
        yield from sorted(blocks, key=rank) if is_sortable else blocks
