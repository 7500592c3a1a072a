"""Recognises content that is repeated word for word, so that rules need not check it again.

Clients request the same lists again and again, and since 2026-07-28 every request repeats its sender's identity and
capabilities. Rules that depend only on such words, and on the kind of message, cannot report anything new about words
that they have already checked. Memory is bounded, and repeats are recognised by comparing bytes or a digest of them.
"""

import re
from hashlib import blake2b
from typing import Final, Literal, TypeAlias

import orjson

from analysis.conversation.call import MessageContext
from analysis.conversation.message import InvalidMessage, Notification, Request, Response
from analysis.conversation.session import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, SERVER_INFO

WordsScope: TypeAlias = Literal["envelope", "result"]
"""The words that a rule depends on: the sender's data in the `_meta` of a modern message, or a whole result."""

_WordsIdentity: TypeAlias = tuple[int, int, bytes]
"""Number of the session, number of its last loss, and the words or a digest of them."""

ENVELOPE_MEMBERS: Final = (PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, SERVER_INFO)
"""Members of `_meta` with the sender's identity and capabilities."""
REPEATED_METHODS: Final = frozenset(
    {"tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover"}
)
"""Methods whose results are usually repeated."""
MAX_CLEAN_WORDS: Final = 1_000
"""The most entries that are kept for one kind of message."""

# The two usual orders of a response's members. The rest of the response is its result.
_match_prefix: Final = re.compile(rb'\{"jsonrpc": ?"2\.0", ?"id": ?(?:[0-9]{1,20}|"[^"\\]{0,100}"), ?"result": ?').match
_match_suffix: Final = re.compile(rb', ?"jsonrpc": ?"2\.0", ?"id": ?(?:[0-9]{1,20}|"[^"\\]{0,100}")\}\r?\n?').fullmatch
_MAX_SUFFIX_BYTES: Final = 150


class CleanWords:
    """Words of one kind of message that led to no finding."""

    __slots__ = ("_words",)

    def __init__(self) -> None:
        self._words: set[_WordsIdentity] = set()

    def __contains__(self, words: _WordsIdentity) -> bool:
        return words in self._words

    def add(self, words: _WordsIdentity) -> None:
        """Add words that led to no finding."""
        if len(self._words) >= MAX_CLEAN_WORDS:
            self._words.clear()
        self._words.add(words)


def words_of(context: MessageContext, words: WordsScope) -> _WordsIdentity | None:
    """Returns an identity of words in a session that only equal words share, or None if it cannot be determined."""
    message = context.message
    if isinstance(message, InvalidMessage):
        return None
    digest = _envelope_of(message) if words == "envelope" else result_digest(context)
    # When records are lost, rules lose their state for a session and have to check again.
    return None if digest is None else (context.session.number, context.session.lost_seq, digest)


def _envelope_of(message: Request | Notification | Response) -> bytes | None:
    meta = message.meta
    envelope = {name: meta[name] for name in ENVELOPE_MEMBERS if name in meta}
    if not envelope and not isinstance(message, Notification):
        return None  # rules may report that the envelope is missing
    try:
        return orjson.dumps(envelope)
    except TypeError:
        return None  # integers beyond 64 bits, or lone surrogates


def result_digest(context: MessageContext) -> bytes | None:
    """Returns a digest of a response's result as written, or None if it cannot be determined."""
    if context.digest is None:
        message = context.message
        context.digest = (isinstance(message, Response) and digest_of(message)) or b""
    return context.digest or None


def digest_of(message: Response) -> bytes | None:
    """Returns a digest of a response's result as written, or None if it cannot be determined."""
    if len(message.frames) != 1 or message.index is not None:
        return None
    raw = message.frames[0].raw
    prefix = _match_prefix(raw)
    if prefix is not None:
        return blake2b(raw[prefix.end() :], digest_size=16).digest()
    result_end = raw.rfind(b',"jsonrpc"', -_MAX_SUFFIX_BYTES) if raw.startswith(b'{"result":') else -1
    if result_end < 0 or not _match_suffix(raw, result_end):
        return None
    return blake2b(raw[:result_end], digest_size=16).digest()
