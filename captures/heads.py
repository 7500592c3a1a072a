"""The heads of HTTP requests and responses in `exchange` records, read once each.

Each record of an exchange repeats its heads so far, and the next exchange has nearly the same ones. A head that occurs
again is the same object, with everything derived from it. An odd head is read like any other JSON.
"""

from collections import Counter
from typing import Any, Final

import orjson

MAX_CACHED_HEADS: Final = 1_000
"""The most heads that are remembered."""
MAX_CACHED_HEAD_BYTES: Final = 8 << 10
"""Bytes. Longer heads are not remembered."""

_SESSION: Final = "mcp-session-id"
_NONE: Final[frozenset[str]] = frozenset()
_RECORD: Final = b'"rec":"exchange"'
_EARLY: Final = len(b'{"seq":1234567890123456789,') + len(_RECORD)
_REQUEST: Final = b',"request":{'
_RESPONSE: Final = b',"response":{'
_END: Final = b'"]]}'


class Head(dict[str, Any]):
    """The members of a head, which must not be modified, and what its header fields say."""

    __slots__ = ("doubled", "fields", "session")

    def __init__(self, members: dict[str, Any]) -> None:
        """Read the header fields; members of any form are allowed."""
        super().__init__(members)
        headers = members.get("headers")
        named = [
            pair
            for pair in (headers if isinstance(headers, list) else ())
            if isinstance(pair, list) and pair and isinstance(pair[0], str)
        ]
        pairs = [(pair[0].lower(), pair[1]) for pair in named if len(pair) == 2]
        self.fields: dict[str, str] = {name: value for name, value in pairs if isinstance(value, str)}
        """The last value of each header field, by its name in lower case."""
        self.doubled: frozenset[str] = _NONE
        """Names of fields that occur more than once."""
        if len(named) > len(self.fields):
            counts = Counter(pair[0].lower() for pair in named)
            self.doubled = frozenset(name for name, count in counts.items() if count > 1) or _NONE
        first = next((value for name, value in pairs if name == _SESSION), None)
        self.session: str | None = first if isinstance(first, str) else None
        """The session id, or its hash; the first if there are several."""


class Heads:
    """The most recent heads, by their bytes."""

    def __init__(self) -> None:
        self._known: dict[bytes, Head] = {}

    def loads(self, line: bytes) -> Any:
        """The JSON value in a line, like `orjson.loads`; a usual head becomes a `Head`, the same one each time.

        Raises:
            ValueError: it is not JSON.
        """
        if line.find(_RECORD, 0, _EARLY) < 0:
            return orjson.loads(line)
        try:
            values = self._usual(line.split(_END, 2))
        except ValueError:
            values = None
        return orjson.loads(line) if values is None else values

    def _usual(self, pieces: list[bytes]) -> dict[str, Any] | None:
        """The record that was cut at the ends of its heads; returns None or raises ValueError if it is not a usual one.

        A head extends from its name to the first `_END`, if this text alone is one JSON value: then no other value can
        begin there. The rest is read with a 0 in place of each head. This proves that the head is a member of the
        record, if its name occurs only once in the rest.
        """
        if len(pieces) == 3:
            before, _, asked = pieces[0].partition(_REQUEST)
            between, _, answered = pieces[1].partition(_RESPONSE)
            rest = b'%b,"request":0%b,"response":0%b' % (before, between, pieces[2])
            heads = {"request": self._head(asked), "response": self._head(answered)}
        elif len(pieces) == 2:
            before, is_request, asked = pieces[0].partition(_REQUEST)
            if is_request:
                rest, heads = b'%b,"request":0%b' % (before, pieces[1]), {"request": self._head(asked)}
            else:
                before, _, answered = pieces[0].partition(_RESPONSE)
                rest, heads = b'%b,"response":0%b' % (before, pieces[1]), {"response": self._head(answered)}
        else:
            return None
        if (
            None in heads.values()
            or b"\\" in rest
            or rest.count(b'"request":') + rest.count(b'"response":') != len(heads)
        ):
            return None
        values: dict[str, Any] = orjson.loads(rest)
        if not heads.keys() <= values.keys():
            return None
        values.update(heads)
        return values

    def _head(self, text: bytes) -> Head | None:
        """The head with these bytes, given without the first and the last ones, or None if it is not a usual one."""
        known = self._known.get(text)
        if known is not None or not text or len(text) > MAX_CACHED_HEAD_BYTES:
            return known
        members = orjson.loads(b"{%b%b" % (text, _END))
        headers = members.get("headers")
        flat = [value for name, value in members.items() if name != "headers"]
        if type(headers) is not list or any(type(value) not in (str, int) for value in flat):
            return None
        if any(type(pair) is not list or [*map(type, pair)] != [str, str] for pair in headers):
            return None
        head = Head(members)
        if len(self._known) >= MAX_CACHED_HEADS:
            del self._known[next(iter(self._known))]
        self._known[text] = head
        return head
