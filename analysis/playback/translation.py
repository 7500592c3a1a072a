"""Translation: a recorded message with the present ids and progress tokens in place of the recorded ones.

What a client chose is translated; what a server chose (cursors, task ids, event ids) is repeated. All bytes but those
of the ids and tokens stay as they are.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from analysis.comparison.canonical import canonical_json
from analysis.conversation.message import number_text, parse_exactly
from analysis.conversation.subscriptions import SUBSCRIPTION_ID
from analysis.playback.json_spans import Span, spans_of

_CANCELLED: Final = b'"notifications/cancelled"'
_PROGRESS: Final = b'"notifications/progress"'
_SUBSCRIPTION_ID: Final = SUBSCRIPTION_ID.encode()
_ESCAPE: Final = b"\\u00"
"""Occurs in each name whose spelling differs from the usual one."""
_begins_array: Final = re.compile(rb"[ \t\r\n]*+\[").match
_MAX_TOKEN_BYTES: Final = 1 << 20
"""Longer tokens are compared as they are spelt."""

_Tokens: TypeAlias = Mapping[bytes, bytes]
_NONE: Final[_Tokens] = MappingProxyType({})


class Substitutes(NamedTuple):
    """What to put in place of recorded values.

    Keys and values are JSON tokens as bytes, such as `b'7'` or `b'"a"'`; the keys as `canonical_token` returns them.
    """

    ids: _Tokens
    """By the recorded id of a request of the *other* side, the present id: for responses, cancellations, the ids of
    subscriptions (`io.modelcontextprotocol/subscriptionId`)."""
    tokens: _Tokens
    """By the recorded progress token that the *other* side chose, the present one: for progress notifications."""
    own_ids: _Tokens = _NONE
    """By the recorded id of a request of the *sender*, the present id: for its requests, and for cancellations of
    them, which take precedence over those of `ids`."""
    own_tokens: _Tokens = _NONE
    """By the recorded progress token that the *sender* chose, the present one: for its requests."""


class MessageTokens(NamedTuple):
    """What the sender of a message chose, or repeats, as canonical JSON tokens; None for what is absent."""

    id: bytes | None
    progress_token: bytes | None
    """`params._meta.progressToken` of a request."""
    cancelled_id: bytes | None = None
    """`params.requestId` of a cancellation."""
    reported_token: bytes | None = None
    """`params.progressToken` of a progress notification."""


def translated(raw: bytes, substitutes: Substitutes) -> bytes:
    """Returns a recorded message, request, response, notification or batch, translated; what is not JSON stays.

    Tokens are equal if their JSON type and value are: `1` and `1.0` are, `1` and `"1"` are not. If a member occurs
    twice, each is translated.
    """
    if not any(substitutes):
        return raw
    pieces: list[bytes] = []
    position = 0
    for start, end in _messages(raw):
        for value, mapping, other_mapping in _places(raw, start, end, substitutes):
            token = raw[value.start : value.end]
            substitute = _looked_up(token, mapping)
            if substitute is None and other_mapping:
                substitute = _looked_up(token, other_mapping)
            if substitute is not None and substitute != token:
                pieces += (raw[position : value.start], substitute)
                position = value.end
    return b"".join((*pieces, raw[position:])) if pieces else raw


def tokens_of(raw: bytes) -> tuple[MessageTokens, ...]:
    """Returns the ids and progress tokens of a message, or of each of a batch; of duplicate members, the last."""
    return tuple(_tokens(raw, start, end) for start, end in _messages(raw))


def canonical_token(token: bytes) -> bytes:
    """Returns a JSON string or number as one of all its spellings: equal values have equal tokens; never raises."""
    if token.isdigit() and (len(token) == 1 or token[0] != ord("0")):
        return token
    if len(token) > _MAX_TOKEN_BYTES:
        return token
    if token[:1] != b'"':
        return number_text(token.decode("ascii", "replace")).encode() if token[:1] in b"-0123456789" else token
    if b"\\" not in token:
        return token
    try:
        return canonical_json(parse_exactly(token))
    except ValueError:
        return token


def _looked_up(token: bytes, mapping: _Tokens) -> bytes | None:
    if not mapping:
        return None
    substitute = mapping.get(token)
    return mapping.get(canonical_token(token)) if substitute is None else substitute


def _messages(raw: bytes) -> Iterator[tuple[int, int]]:
    """Yields where each message begins and ends; a byte order mark is ignored, as the reading of captures does."""
    start = len(BOM_UTF8) if raw.startswith(BOM_UTF8) else 0
    if _begins_array(raw, start):
        yield from ((span.start, span.end) for span in spans_of(raw, start))
    else:
        yield start, len(raw)


def _places(raw: bytes, start: int, end: int, substitutes: Substitutes) -> Iterator[tuple[Span, _Tokens, _Tokens]]:
    """Yields the values of one message that may be translated, in order, each with the one or two mappings for it."""
    members = spans_of(raw, start, end)
    if not members:
        return
    method = _method(raw, members)
    for member in members:
        if member.name == "id":
            yield member, substitutes.ids if method is None else substitutes.own_ids, _NONE
        elif member.name == "params" and method is not None:
            yield from _params_places(raw, member, method, substitutes)
        elif member.name == "result" and _mentions(raw, _SUBSCRIPTION_ID, member.start, member.end):
            for inner in spans_of(raw, member.start, member.end):
                if inner.name == "_meta":
                    yield from _meta_places(raw, inner, substitutes)


def _params_places(
    raw: bytes, params: Span, method: bytes, substitutes: Substitutes
) -> Iterator[tuple[Span, _Tokens, _Tokens]]:
    is_cancellation = method == _CANCELLED
    start, end = params.start, params.end
    if not (
        is_cancellation or _mentions(raw, b"progressToken", start, end) or raw.find(_SUBSCRIPTION_ID, start, end) >= 0
    ):
        return
    for inner in spans_of(raw, start, end):
        if inner.name == "requestId" and is_cancellation:
            yield inner, substitutes.own_ids, substitutes.ids
        elif inner.name == "progressToken" and method == _PROGRESS:
            yield inner, substitutes.tokens, _NONE
        elif inner.name == "_meta":
            yield from _meta_places(raw, inner, substitutes)


def _meta_places(raw: bytes, meta: Span, substitutes: Substitutes) -> Iterator[tuple[Span, _Tokens, _Tokens]]:
    for inner in spans_of(raw, meta.start, meta.end):
        if inner.name == SUBSCRIPTION_ID:
            yield inner, substitutes.ids, _NONE
        elif inner.name == "progressToken":
            yield inner, substitutes.own_tokens, _NONE


def _tokens(raw: bytes, start: int, end: int) -> MessageTokens:
    found: dict[str, bytes] = {}
    members = spans_of(raw, start, end)
    if not members:
        return MessageTokens(None, None)
    method = _method(raw, members)
    needs_params = method == _CANCELLED or _mentions(raw, b"progressToken", start, end)
    for member in members:
        if member.name == "id":
            found["id"] = raw[member.start : member.end]
        for inner in spans_of(raw, member.start, member.end) if member.name == "params" and needs_params else ():
            if inner.name == "requestId" and method == _CANCELLED:
                found["cancelled_id"] = raw[inner.start : inner.end]
            elif inner.name == "progressToken" and method == _PROGRESS:
                found["reported_token"] = raw[inner.start : inner.end]
            for innermost in spans_of(raw, inner.start, inner.end) if inner.name == "_meta" else ():
                if innermost.name == "progressToken":
                    found["progress_token"] = raw[innermost.start : innermost.end]
    tokens = {name: canonical_token(token) for name, token in found.items()}
    return MessageTokens(tokens.pop("id", None), tokens.pop("progress_token", None), **tokens)


def _method(raw: bytes, members: list[Span]) -> bytes | None:
    """Returns the method of a message as a canonical token, or None if it has none."""
    methods = [member for member in members if member.name == "method"]
    return canonical_token(raw[methods[-1].start : methods[-1].end]) if methods else None


def _mentions(raw: bytes, name: bytes, start: int, end: int) -> bool:
    """Whether a member may have this name."""
    return raw.find(name, start, end) >= 0 or raw.find(_ESCAPE, start, end) >= 0
