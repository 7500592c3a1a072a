"""The JSON tokens of messages that a translation needs: ids and progress tokens, verbatim."""

import json
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct, field

from analysis.conversation.message import Id, id_of_token

NO_ID = b"null"
"""The token of an absent or unusable id."""


class MessageTokens(NamedTuple):
    """Tokens of one message, as bytes; empty if absent."""

    id: bytes
    progress: bytes
    """The value of `progressToken` in the `_meta` of its params."""


class _Meta(Struct):
    progress: Raw = field(name="progressToken", default=Raw(b""))


class _Params(Struct):
    meta: _Meta = field(name="_meta", default_factory=_Meta)


class _Message(Struct):
    id: Raw = Raw(b"")
    params: _Params = field(default_factory=_Params)


class _Identified(Struct):
    id: Raw = Raw(b"")


_message_decoder = msgspec.json.Decoder(_Message)
_id_decoder = msgspec.json.Decoder(_Identified)
_batch_decoder = msgspec.json.Decoder(list[Raw])
_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def tokens_of(raw: bytes) -> MessageTokens:
    """Returns the tokens of a message; of bytes that are no JSON object, none."""
    try:
        message = _message_decoder.decode(raw)
        return MessageTokens(bytes(message.id), bytes(message.params.meta.progress))
    except _ERRORS:
        pass
    try:
        return MessageTokens(bytes(_id_decoder.decode(raw).id), b"")
    except _ERRORS:
        return _leniently_read(raw)


def _leniently_read(raw: bytes) -> MessageTokens:
    """Reads what the recorder accepts and msgspec does not, such as a lone surrogate or a byte order mark."""
    try:
        message = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return MessageTokens(b"", b"")
    if not isinstance(message, dict):
        return MessageTokens(b"", b"")
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    progress = meta.get("progressToken") if isinstance(meta, dict) else None
    return MessageTokens(_token_of(message, "id"), b"" if progress is None else json.dumps(progress).encode())


def _token_of(message: dict[str, object], member: str) -> bytes:
    return json.dumps(message[member]).encode() if member in message else b""


def batch_members(raw: bytes) -> list[bytes]:
    """Returns the exact bytes of each message of a batch; of other bytes, an empty list."""
    try:
        return [bytes(member) for member in _batch_decoder.decode(raw)]
    except _ERRORS:
        pass
    try:
        messages = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return []
    return [json.dumps(message).encode() for message in messages] if isinstance(messages, list) else []


def id_key(token: bytes) -> Id | None:
    """Returns an id as a key that is equal for equal ids; None without a token, or if no response can have it."""
    if not token:
        return None
    try:
        id_ = id_of_token(token)
    except (ValueError, RecursionError):
        return None
    return id_ if id_.is_answerable else None
