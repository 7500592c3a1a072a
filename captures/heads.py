"""Reads each distinct head of an HTTP request or response in `exchange` records only once.

Each record of an exchange repeats the heads received so far, and later exchanges often have identical heads. A head
that occurs again yields the same `Head` object, so its fields are not derived again. An odd head is read like any other
JSON.
"""

from collections import Counter
from typing import Any, Final

import orjson

MAX_CACHED_HEADS: Final = 1_000
"""The maximum number of cached heads."""
MAX_CACHED_HEAD_BYTES: Final = 8 << 10
"""The size in bytes above which heads are not cached."""

_SESSION_FIELD: Final = "mcp-session-id"
_EMPTY_SET: Final[frozenset[str]] = frozenset()
_RECORD_TYPE: Final = b'"rec":"exchange"'
_TYPE_END: Final = len(b'{"seq":1234567890123456789,') + len(_RECORD_TYPE)
_REQUEST_START: Final = b',"request":{'
_RESPONSE_START: Final = b',"response":{'
_HEAD_END: Final = b'"]]}'


class Head(dict[str, Any]):
    """The members of a head, which must not be modified, with its header fields."""

    __slots__ = ("fields", "repeated_fields", "session_id")

    def __init__(self, members: dict[str, Any]) -> None:
        """Read the header fields; the members may have any type."""
        super().__init__(members)
        headers = members.get("headers")
        named_pairs = [
            pair
            for pair in (headers if isinstance(headers, list) else ())
            if isinstance(pair, list) and pair and isinstance(pair[0], str)
        ]
        pairs = [(pair[0].lower(), pair[1]) for pair in named_pairs if len(pair) == 2]
        self.fields: dict[str, str] = {name: value for name, value in pairs if isinstance(value, str)}
        """The last value of each header field, by name in lower case."""
        self.repeated_fields: frozenset[str] = _EMPTY_SET
        """The names of fields that occur more than once, in lower case."""
        if len(named_pairs) > len(self.fields):
            counts = Counter(pair[0].lower() for pair in named_pairs)
            self.repeated_fields = frozenset(name for name, count in counts.items() if count > 1) or _EMPTY_SET
        first = next((value for name, value in pairs if name == _SESSION_FIELD), None)
        self.session_id: str | None = first if isinstance(first, str) else None
        """MCP's session id or its hash; the first one if there are several; None if there is none."""

    @property
    def field_lines(self) -> list[tuple[str, str]]:
        """Each header field in order, also a repeated one: its name in lower case, and its value."""
        headers = self.get("headers")
        return [
            (pair[0].lower(), pair[1])
            for pair in (headers if isinstance(headers, list) else ())
            if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and isinstance(pair[1], str)
        ]


class HeadCache:
    """A cache of heads, by their bytes; the head that was parsed first is dropped first."""

    def __init__(self) -> None:
        self._heads: dict[bytes, Head] = {}

    def loads(self, line: bytes) -> Any:
        """Returns the JSON value in a line, like `orjson.loads`, but with the same `Head` object for equal heads.

        Raises:
            ValueError: the line is not JSON.
        """
        if line.find(_RECORD_TYPE, 0, _TYPE_END) < 0:
            return orjson.loads(line)
        try:
            values = self._read_usual_record(line.split(_HEAD_END, 2))
        except ValueError:
            values = None
        return orjson.loads(line) if values is None else values

    def _read_usual_record(self, pieces: list[bytes]) -> dict[str, Any] | None:
        """Returns a record that was split at the ends of its heads; returns None or raises ValueError if it is odd.

        The text from a head's name to the first `_HEAD_END` is the whole head if it parses as JSON on its own, because
        no longer value can begin with it. The rest of the record is parsed with each head replaced by 0. If the name of
        each head then occurs exactly once, the head was a member of the record itself.
        """
        if len(pieces) == 3:
            start, _, request_text = pieces[0].partition(_REQUEST_START)
            middle, _, response_text = pieces[1].partition(_RESPONSE_START)
            record = b'%b,"request":0%b,"response":0%b' % (start, middle, pieces[2])
            heads = {"request": self._read_head(request_text), "response": self._read_head(response_text)}
        elif len(pieces) == 2:
            start, separator, request_text = pieces[0].partition(_REQUEST_START)
            if separator:
                record, heads = b'%b,"request":0%b' % (start, pieces[1]), {"request": self._read_head(request_text)}
            else:
                start, _, response_text = pieces[0].partition(_RESPONSE_START)
                record, heads = b'%b,"response":0%b' % (start, pieces[1]), {"response": self._read_head(response_text)}
        else:
            return None
        if (
            None in heads.values()
            or b"\\" in record
            or record.count(b'"request":') + record.count(b'"response":') != len(heads)
        ):
            return None
        values: dict[str, Any] = orjson.loads(record)
        if not heads.keys() <= values.keys():
            return None
        values.update(heads)
        return values

    def _read_head(self, text: bytes) -> Head | None:
        """Returns the head with this text between its first brace and `_HEAD_END`, or None if it is odd."""
        cached = self._heads.get(text)
        if cached is not None or not text or len(text) > MAX_CACHED_HEAD_BYTES:
            return cached
        members = orjson.loads(b"{%b%b" % (text, _HEAD_END))
        headers = members.get("headers")
        other_values = [value for name, value in members.items() if name != "headers"]
        if type(headers) is not list or any(type(value) not in (str, int) for value in other_values):
            return None
        if any(type(pair) is not list or [*map(type, pair)] != [str, str] for pair in headers):
            return None
        head = Head(members)
        if len(self._heads) >= MAX_CACHED_HEADS:
            del self._heads[next(iter(self._heads))]
        self._heads[text] = head
        return head
