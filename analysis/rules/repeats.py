"""Repeats: what is said again word for word, so that rules need not be asked about it again.

Clients ask for the same lists time and again, and since 2026-07-28 every request says anew who its sender is and what
it can do. Of rules that go by such words alone, and by the kind of message, nothing new can be heard about words of
which they have found nothing to say. Memory is bounded, and nothing is ever taken for a repeat that is none: what is
compared are bytes, or a digest of them.
"""

import re
from hashlib import blake2b
from typing import Final, Literal, TypeAlias

import orjson

from analysis.conversation.message import Invalid, Notification, Request, Response
from analysis.conversation.session import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
    Seen,
)

Words: TypeAlias = Literal["envelope", "result"]
"""What a rule goes by: what a modern message says of its sender in `_meta`, or a whole result."""

_Words: TypeAlias = tuple[int, int, bytes]
"""Number of the session, what was lost in it last, and the words or a digest of them."""

ENVELOPE: Final = (PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, SERVER_INFO)
"""Members of `_meta` that say who sends a message, and what it can do."""
LISTS: Final = frozenset(
    {"tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover"}
)
"""Methods whose results come again."""
KEPT: Final = 1_000
"""Words of one kind of message that are remembered."""

# The two orders in which people write the members of a response. What is left of it is its result.
_BEFORE: Final = re.compile(rb'\{"jsonrpc": ?"2\.0", ?"id": ?(?:[0-9]{1,20}|"[^"\\]{0,100}"), ?"result": ?').match
_AFTER: Final = re.compile(rb', ?"jsonrpc": ?"2\.0", ?"id": ?(?:[0-9]{1,20}|"[^"\\]{0,100}")\}\r?\n?').fullmatch
_LONGEST_AFTER: Final = 150


class Heard:
    """Words of one kind of message about which there was nothing to say."""

    __slots__ = ("_heard",)

    def __init__(self) -> None:
        self._heard: set[_Words] = set()

    def __contains__(self, words: _Words) -> bool:
        return words in self._heard

    def add(self, words: _Words) -> None:
        """Remember them."""
        if len(self._heard) >= KEPT:
            self._heard.clear()
        self._heard.add(words)


def words_of(seen: Seen, words: Words) -> _Words | None:
    """What identifies them in a session: equal only where they are; None where they cannot be told."""
    message = seen.message
    if isinstance(message, Invalid):
        return None
    found = _envelope_of(message) if words == "envelope" else result_digest(seen)
    # What rules remember of a session is gone when records are lost, and they have to be asked anew.
    return None if found is None else (seen.session.number, seen.session.lost_seq, found)


def _envelope_of(message: Request | Notification | Response) -> bytes | None:
    meta = message.meta
    found = {name: meta[name] for name in ENVELOPE if name in meta}
    if not found:
        return None  # rules may be about that
    try:
        return orjson.dumps(found)
    except TypeError:
        return None  # numbers beyond 64 bits, lone surrogates


def result_digest(seen: Seen) -> bytes | None:
    """What identifies the result of a response, as it is written; None where it cannot be told."""
    if seen.digest is None:
        message = seen.message
        seen.digest = (isinstance(message, Response) and _digest(message)) or b""
    return seen.digest or None


def _digest(message: Response) -> bytes | None:
    if len(message.frames) != 1 or message.index is not None:
        return None
    raw = message.frames[0].raw
    before = _BEFORE(raw)
    if before is not None:
        return blake2b(raw[before.end() :], digest_size=16).digest()
    cut = raw.rfind(b',"jsonrpc"', -_LONGEST_AFTER) if raw.startswith(b'{"result":') else -1
    if cut < 0 or not _AFTER(raw, cut):
        return None
    return blake2b(raw[:cut], digest_size=16).digest()
