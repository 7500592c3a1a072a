"""ScriptTable: the items of a script, packed, with the indexes by which they are found.

A million items as objects would take half a gigabyte, so each is a row of fixed size, and texts are stored once. One
thread appends while another one reads: a row is complete before its number is in any index, and nothing is ever
changed except the indexes of what came before.
"""

from array import array
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, overload

from analysis.playback.http_answer_table import HttpAnswerTable
from analysis.playback.items import Channel, HttpAnswer, Item, ItemKind, Member, Stored
from analysis.playback.recently_used import RecentlyUsed

if TYPE_CHECKING:
    from analysis.conversation.message import Side

KINDS: Final[tuple[ItemKind, ...]] = (
    "request",
    "response",
    "notification",
    "batch",
    "invalid",
    "priming",
    "stderr",
)
"""The kinds of items; their positions are stored."""
CHANNELS: Final[tuple[Channel, ...]] = ("pipe", "request", "stream")
"""The channels; their positions are stored."""
REQUEST, RESPONSE, NOTIFICATION, BATCH, INVALID, PRIMING, STDERR = range(len(KINDS))
PIPE, OWN_REQUEST, STREAM = range(len(CHANNELS))
SERVER: Final = 1
"""Bits of a row's code: sent by the server; the kind from bit 1 on, the channel from bit 4 on."""
KIND_SHIFT: Final = 1
CHANNEL_SHIFT: Final = 4
REPEAT: Final = 1 << 6
"""The item repeats an earlier one."""
ANSWER: Final = 1 << 7
"""The item answers its call."""
ROW: Final = Struct("<QQQqiiIIIIIIIB")
"""Number of the record, stamp, offset, exchange, call, outer call, session, segment, method, name, key, event id,
header fields, code. Texts are positions among the texts; the event id is one more than its position among the ids."""
MEMBER_ROW: Final = Struct("<iIIIB")
"""Call, method, name, key, code of one message of a batch."""
MAX_TEXT_CHARS: Final = 1_000
"""The most characters of a method or name that are kept."""
_MAX_KEPT_MEMBERS: Final = 500_000
"""How many messages of batches are kept as objects, about 130 bytes each."""
_KIND_MASK: Final = 7
_KIND: Final = _KIND_MASK << KIND_SHIFT
_pack: Final = ROW.pack
_SEVERAL: Final = -2
_UNKNOWN: Final = array("q", (-1,))
_EXTENSION: Final = 1_000


Terms: TypeAlias = tuple[int, int, int, int, int, int]
"""Call, outer call, method, name, key and code of an item; -1 for no call."""


class Extras(NamedTuple):
    """What few items have."""

    parts: tuple[tuple[int, int], ...] = ()
    members: bytes = b""
    """The rows of the messages of a batch."""
    event: str | None = None
    """The type of an SSE event that is not a message."""


_NO_EXTRAS: Final = Extras()


class ScriptTable(Sequence[Item]):
    """The items of a script so far, in order."""

    def __init__(self) -> None:
        """Create a table without items."""
        self.rows = bytearray()
        """The rows, one after the other."""
        self.texts: list[str] = [""]
        """The texts of all rows, in the order in which they first came."""
        self.extras: dict[int, Extras] = {}
        """By number of the item."""
        self.sessions: list[int] = []
        """The numbers of the sessions in the order in which they began."""
        self.http_answers = HttpAnswerTable()
        self.event_ids: list[str] = []
        """The ids of events in the order of the items that have one."""
        self.response_texts: dict[int, tuple[int, int]] = {}
        """Segment and offset of the record with the text of a response, by number of the exchange."""
        self.other_sessions: dict[int, int] = {}
        """The sessions of the exchanges that carried no message of the client, by the numbers of the exchanges."""
        self.ended_calls = array("q")
        """The calls that ended without an answer, in this order."""
        self._other_exchanges: dict[int, list[int]] = {}
        self.text_numbers: dict[str, int] = {"": 0}
        """The numbers of the texts."""
        self.next_number = 0
        """The number of the item that is appended next."""
        self.message_count = 0
        """How many messages the loaded items have; every call has a smaller number."""
        self._restored_count = 0
        self._by_session: dict[int, array[int]] = {}
        self._batches: RecentlyUsed[Item] = RecentlyUsed(_MAX_KEPT_MEMBERS)
        """The batches that were asked for last: they may have very many messages, each of which is played by itself."""
        self._last_session, self._last_items = -1, array("q")
        # The only request with a key, by the number of the key; several requests are listed by session.
        self._only_requests = array("q")
        self._requests: dict[tuple[int, int], array[int]] = {}
        self._answers = array("q")
        # The only item of a call, by the number of the call.
        self._only_items = array("q")
        self._call_items: dict[int, array[int]] = {}

    # ---- appending

    def text_number(self, text: str) -> int:
        """Store a text unless it is stored already; return its number."""
        number = self.text_numbers.get(text)
        if number is None:
            self.texts.append(text)
            number = self.text_numbers[text] = len(self.texts) - 1
        return number

    def append(
        self,
        seq: int,
        t_ns: int,
        offset: int,
        exchange: int,
        session: int,
        segment: int,
        event_id: int,
        terms: Terms,
        extras: Extras | None = None,
        fields: int = 0,
    ) -> None:
        """Append an item.

        Args:
            seq: the number of its record.
            t_ns: its stamp.
            offset: the offset of the record in its segment.
            exchange: the number of the HTTP exchange, or 0.
            session: the number of its session, or 0.
            segment: the position of its segment.
            event_id: one more than the position of its event id among `event_ids`, or 0.
            terms: its call, texts and code.
            extras: what few items have.
            fields: the number of the text of the header fields (`request_fields.text_of`), or 0.
        """
        number = self.next_number
        self.next_number = number + 1
        if number < self._restored_count:
            return
        if extras is not None:
            self.extras[number] = extras
        call, outer, method, name, key, code = terms
        self.rows += _pack(
            seq, t_ns, offset, exchange, call, outer, session, segment, method, name, key, event_id, fields, code
        )
        self._index(number, session, call, outer, key, code)
        if extras is not None and extras.members:
            self._index_members(number, session, code, extras.members)

    def put_http_answer(self, answer: HttpAnswer, *, has_message: bool) -> None:
        """Set what is known so far of how an exchange was answered.

        Args:
            answer: how it was answered, without the text.
            has_message: whether the exchange carried a message of the client.
        """
        number = answer.exchange
        self.http_answers.put(answer)
        is_other = not has_message and (answer.method != "POST" or answer.ended_by)
        is_settled = answer.session or answer.ended_by
        if is_other and is_settled and number not in self.other_sessions:
            self.list_exchange(number, answer.session)

    def list_exchange(self, number: int, session: int) -> None:
        """List an exchange as one of a session that carried no message of the client."""
        self.other_sessions[number] = session
        self._other_exchanges.setdefault(session, []).append(number)

    def note_end(self, call: int) -> None:
        """Note that a call ended without an answer."""
        answers = self._answers
        if call >= len(answers):
            _extend(answers, call)
        if answers[call] == -1:
            answers[call] = _SEVERAL
            self.ended_calls.append(call)

    def begin_again(self) -> None:
        """Expect that all items are appended again, in the same order; those that are here already stay."""
        self.next_number, self._restored_count = 0, len(self)

    def _index(self, number: int, session: int, call: int, outer: int, key: int, code: int) -> None:
        if session != self._last_session:
            self._last_session = session
            self._last_items = self._by_session.get(session) or self._begin_session(session)
        self._last_items.append(number)
        if code & SERVER:
            if code & ANSWER and call >= 0:
                answers = self._answers
                if call >= len(answers):
                    _extend(answers, call)
                answers[call] = number
            owner = outer if code & _KIND == 0 else call
            if owner >= 0:
                self._add_to_call(owner, number)
        elif code & (_KIND | REPEAT) == 0:
            self._add_request(key, session, number)
        elif call >= 0 and code & ANSWER:
            self._add_answer(call, number)
            if outer >= 0:
                self._add_to_call(outer, number)

    def _begin_session(self, session: int) -> "array[int]":
        items = self._by_session[session] = array("q")
        if session:
            self.sessions.append(session)
        return items

    def _index_members(self, number: int, session: int, code: int, members: bytes) -> None:
        for call, _, _, key, member_code in MEMBER_ROW.iter_unpack(members):
            kind = member_code >> KIND_SHIFT & _KIND_MASK
            if member_code & ANSWER and call >= 0:
                self._add_answer(call, number)
            if code & SERVER:
                if call >= 0 and kind != REQUEST:
                    self._add_to_call(call, number)
            elif kind == REQUEST and not code & REPEAT:
                self._add_request(key, session, number)

    def _add_answer(self, call: int, number: int) -> None:
        answers = self._answers
        if call >= len(answers):
            _extend(answers, call)
        answers[call] = number

    def _add_to_call(self, call: int, number: int) -> None:
        only_items = self._only_items
        if call >= len(only_items):
            _extend(only_items, call)
        only = only_items[call]
        if only == -1:
            only_items[call] = number
        elif only == _SEVERAL:
            items = self._call_items[call]
            if items[-1] != number:
                items.append(number)
        elif only != number:
            self._call_items[call] = array("q", (only, number))
            only_items[call] = _SEVERAL

    def _add_request(self, key: int, session: int, number: int) -> None:
        only_requests = self._only_requests
        if key >= len(only_requests):
            _extend(only_requests, key)
        only = only_requests[key]
        if only == -1:
            only_requests[key] = number
            return
        if only not in (_SEVERAL, number):
            first_session = self.row(only)[6]
            self._requests[first_session, key] = array("q", (only,))
        if only != number:
            numbers = self._requests.get((session, key))
            if numbers is None:
                self._requests[session, key] = array("q", (number,))
            elif numbers[-1] != number:
                numbers.append(number)
            only_requests[key] = _SEVERAL

    # ---- reading

    def __len__(self) -> int:
        return len(self.rows) // ROW.size

    def row(self, number: int) -> tuple[int, ...]:
        """Returns the values of a row, in the order of `ROW`."""
        return ROW.unpack_from(self.rows, number * ROW.size)

    @overload
    def __getitem__(self, number: int) -> Item: ...
    @overload
    def __getitem__(self, number: slice) -> list[Item]: ...
    def __getitem__(self, number: int | slice) -> Item | list[Item]:
        if isinstance(number, slice):
            return [self._item(position) for position in range(*number.indices(len(self)))]
        position = number + len(self) if number < 0 else number
        if not 0 <= position < len(self):
            raise IndexError(number)
        batch = self._batches.get(position)
        if batch is not None:
            return batch
        item = self._item(position)
        return self._batches.add(position, item, len(item.members)) if item.kind == "batch" else item

    def __iter__(self) -> Iterator[Item]:
        number = 0
        while number < len(self):
            yield self._item(number)
            number += 1

    def _item(self, number: int) -> Item:
        (
            seq,
            t_ns,
            offset,
            exchange,
            call,
            outer,
            session,
            segment,
            method,
            name,
            key,
            event_id,
            fields,
            code,
        ) = self.row(number)
        extras = self.extras.get(number, _NO_EXTRAS)
        texts = self.texts
        return Item(
            number,
            _sender(code),
            KINDS[code >> KIND_SHIFT & _KIND_MASK],
            session,
            seq,
            t_ns,
            Stored(segment, offset, extras.parts),
            call,
            outer,
            texts[method],
            texts[name],
            texts[key],
            exchange,
            CHANNELS[code >> CHANNEL_SHIFT & 3],
            self.event_ids[event_id - 1] if event_id else None,
            tuple([self._member(row) for row in MEMBER_ROW.iter_unpack(extras.members)]) if extras.members else (),
            bool(code & REPEAT),
            extras.event,
            texts[fields],
        )

    def _member(self, row: tuple[int, ...]) -> Member:
        call, method, name, key, code = row
        texts = self.texts
        return Member(KINDS[code >> KIND_SHIFT & _KIND_MASK], call, texts[method], texts[name], texts[key])

    def items_of(self, session: int) -> Sequence[int]:
        """Returns the numbers of the items of a session; the list grows once the session has begun."""
        return self._by_session.get(session, ())

    def requests(self, session: int, key: str) -> Sequence[int]:
        """Returns the numbers of the items of a session that are client's requests with this key, in order."""
        key_number = self.text_numbers.get(key, -1)
        only = self._only_requests[key_number] if 0 <= key_number < len(self._only_requests) else -1
        if only == _SEVERAL:
            return self._requests.get((session, key_number), ())
        return (only,) if only >= 0 and self.row(only)[6] == session else ()

    def other_exchanges(self, session: int) -> Sequence[int]:
        """Returns the numbers of the exchanges of a session without a message of the client; the list grows."""
        return self._other_exchanges.get(session, ())

    def items_of_call(self, call: int) -> Sequence[int]:
        """Returns the numbers of the items that belong to a client's call, in order."""
        only = self._only_items[call] if 0 <= call < len(self._only_items) else -1
        return self._call_items[call] if only == _SEVERAL else (only,) if only >= 0 else ()

    def answer_of(self, call: int) -> int | None:
        """Returns the number of the item that answers a call; None if there is none."""
        number = self._answers[call] if 0 <= call < len(self._answers) else -1
        return number if number >= 0 else None

    def has_ended(self, call: int) -> bool:
        """Whether a call was answered, or ended without an answer."""
        return 0 <= call < len(self._answers) and self._answers[call] != -1


def _sender(code: int) -> "Side":
    return "server" if code & SERVER else "client"


def _extend(numbers: "array[int]", last: int) -> None:
    """Extend a list of numbers with -1 so that it has a position `last`; it gets some more, as each time costs."""
    numbers.extend(_UNKNOWN * (last + _EXTENSION - len(numbers)))
