"""Parses the JSON-RPC 2.0 messages in one frame.

`messages` never raises, regardless of the bytes, and guesses nothing. An absent member is `MISSING` and not `null`, a 1
is not a "1", and a message is classified by the members it has, never by which model would accept it. The verdict on
the frame (captures.envelope) takes precedence: a frame that is invalid there stays `InvalidMessage`, for the same
reason.

Values are parsed by orjson if the verdict found no problem. Otherwise `json` parses the bytes, and a number that a
float cannot represent keeps its digits (`Number`). Ids are exact in both cases.
"""

import json
from enum import Enum
from typing import Any, Final, Literal, Self, TypeAlias

import orjson
from msgspec import Struct
from msgspec.structs import replace

from captures.frame import Frame

Side: TypeAlias = Literal["client", "server"]
"""The sender's side. Each side has its own ids."""


def other_side(side: Side) -> Side:
    """Returns the other side."""
    return "server" if side == "client" else "client"


class Missing(Enum):
    """The type of `MISSING`."""

    MISSING = "missing"

    def __bool__(self) -> bool:
        """Returns False, as for null."""
        return False


MISSING: Final = Missing.MISSING
"""The value of an absent member."""

IdType: TypeAlias = Literal["string", "number", "boolean", "null", "other", "digest"]


# Thousands of ids are kept; with gc=False, the garbage collector does not visit them.
class Id(Struct, frozen=True, gc=False):
    """The id of a message as a key: ids are equal if their JSON types and exact values are."""

    type: IdType
    """The JSON type; `other` for an array or object, and `digest` for an id of any type above 256 characters."""
    value: str
    """A string after unescaping; a number in canonical form, in which `1.0` and `1` are equal and `9007199254740993` is
    exact; the digest of a long value; empty for `other`."""

    @property
    def is_answerable(self) -> bool:
        """Whether a response can refer to the id: a null, an array or an object cannot be answered."""
        return self.type not in ("null", "other")

    @property
    def text(self) -> str:
        """The id as JSON, in which a 1 and a "1" look different; untrusted text, not safe on a screen."""
        if self.type == "string":
            return json.dumps(self.value, ensure_ascii=False)
        return {"other": "(no scalar)", "digest": "(over 256 characters)"}.get(self.type, self.value)


_MAX_ID_CHARS: Final = 256
# Only integers of at most this many digits are written out: 1e400000 must not become 400,000 zeros.
_MAX_PLAIN_DIGITS: Final = 40
_PLAIN_LIMIT: Final = 10**_MAX_PLAIN_DIGITS
_MAX_INTEGER_DIGITS: Final = 400


class Number(float):
    """A number that keeps its JSON token, because a float may be rounded."""

    token: str

    def __new__(cls, token: str) -> Self:
        """Create the number that `token` denotes."""
        number = super().__new__(cls, token)
        number.token = token
        return number


def id_of(value: object) -> Id:
    """Returns a parsed id as a key, which is exact if `parse_exactly` parsed it: a plain float has lost digits."""
    if isinstance(value, str):
        return _bounded_id("string", value)
    if type(value) is int and 0 <= value < _PLAIN_LIMIT:
        return Id("number", str(value))
    if value is None:
        return Id("null", "null")
    if isinstance(value, bool):
        return Id("boolean", "true" if value else "false")
    if isinstance(value, int | float):
        return _bounded_id("number", number_text(value.token if isinstance(value, Number) else str(value)))
    return Id("other", "")


def id_of_token(token: bytes) -> Id:
    """Returns an id as a key, from its JSON token."""
    if token.isdigit() and len(token) <= _MAX_PLAIN_DIGITS:
        return Id("number", token.decode())
    text = token.decode("utf-8", "surrogatepass")
    if text[:1] in "-0123456789":
        return _bounded_id("number", number_text(text))
    return id_of(parse_exactly(token))


def _bounded_id(type_: Literal["string", "number"], value: str) -> Id:
    if len(value) <= _MAX_ID_CHARS:
        return Id(type_, value)
    # A table of ids must stay small when every id is a megabyte.
    from hashlib import blake2b

    return Id("digest", blake2b(f"{type_}:{value}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest())


def converted_id(id_: Id) -> Id:
    """Returns the id with its type changed, as by a peer that turns numbers into strings or strings into numbers."""
    if id_.type == "number":
        return Id("string", id_.value)
    if id_.type == "string":
        return Id("number", number_text(id_.value))
    return id_


def number_text(token: str) -> str:
    """Returns a JSON number in canonical form: equal numbers give equal texts, without conversion to a float.

    `1`, `1.0`, `10e-1` → `1`; `1e2` → `100`; `-0.0` → `0`; `0.50` → `0.5`; `1e400` → `1e400`. A token that is not a
    number is returned unchanged.
    """
    if len(token) <= _MAX_PLAIN_DIGITS and token.isdecimal():
        return token
    mantissa, _, power = token.lower().partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, fraction = mantissa.partition(".")
    power = power or "0"
    # int() does not accept so many digits. No counter gets that far, so the token itself is a good enough key.
    if not (whole + fraction).isdecimal() or len(power) > 4000 or not power.lstrip("+-").isdecimal():
        return token
    digits = (whole + fraction).lstrip("0")
    exponent = int(power) - len(fraction) + len(digits) - len(digits.rstrip("0"))
    digits = digits.rstrip("0")
    return sign + _canonical_text(digits, exponent) if digits else "0"


def _canonical_text(digits: str, exponent: int) -> str:
    """Returns `digits`, which have no zeros at either end, times ten to the power of `exponent`."""
    if 0 <= exponent <= _MAX_PLAIN_DIGITS - len(digits):
        return digits + "0" * exponent
    if 0 < -exponent <= _MAX_PLAIN_DIGITS:
        padded = digits.rjust(1 - exponent, "0")
        return f"{padded[:exponent]}.{padded[exponent:]}"
    return f"{digits}e{exponent}"


# Messages are never modified. That is not enforced, as it would double the cost of each, and there are millions.


class _Message(Struct, eq=False):
    frames: tuple[Frame, ...]
    """The frames of the message: one, or the lines that it spans."""
    index: int | None
    """The position in a batch, from 0; None outside a batch."""
    sender: Side
    """The side that sent the message."""
    seq: int
    """Number of the first frame."""
    t_ns: int
    """Stamp of the last frame: nanoseconds since the capture opened."""


class _ObjectMessage(_Message, eq=False):
    body: dict[str, Any]
    """All members of the message."""
    _packed: bytes | None = None
    _meta: dict[str, Any] | None = None

    def pack(self) -> None:
        """Keep the bytes of the message instead of its values, which are then parsed again on demand.

        The values take twenty times the memory, which matters when very many messages are kept. A message that would
        not parse to the same values again stays unchanged.
        """
        if self._packed is not None:
            return
        frame = self.frames[0]
        if self.index is None and len(self.frames) == 1:
            self._packed, self.frames = frame.raw, (replace(frame, body=None) if frame.body is not None else frame,)
        else:
            try:
                self._packed = b"%b" % orjson.dumps(self.body)
            except orjson.JSONEncodeError:
                return
        self._meta = None
        del self.body

    def __getattr__(self, name: str) -> Any:
        """Parse packed values again. `body` is the only attribute that can be missing."""
        if name != "body" or self._packed is None:
            raise AttributeError(name)
        if self.index is None and len(self.frames) == 1:
            return _parse(self.frames[0])
        return orjson.loads(self._packed)

    @property
    def params(self) -> Any:
        """The member `params`, or MISSING; usually an object, but this is not guaranteed."""
        return self.body.get("params", MISSING)

    @property
    def meta(self) -> dict[str, Any]:
        """`_meta` of the params or of the result, or an empty dict if there is none."""
        if self._meta is None:
            self._meta = _meta_of(self.body)
        return self._meta


def _meta_of(body: dict[str, Any]) -> dict[str, Any]:
    value = body.get("params")
    if isinstance(value, dict) and isinstance(meta := value.get("_meta"), dict):
        return meta
    value = body.get("result")
    if isinstance(value, dict) and isinstance(meta := value.get("_meta"), dict):
        return meta
    return {}


class Request(_ObjectMessage, eq=False, kw_only=True):
    """A message with `method` and `id`, which expects a response."""

    id: Id
    """The id of the request; `null` and objects are ids, too, although such a request cannot be answered."""
    method: str
    """The requested method."""

    def as_response(self) -> "Response | None":
        """Returns the message as a response if it has `result` or `error` in addition to `method`, or else None."""
        if "result" in self.body or "error" in self.body:
            return Response(self.frames, self.index, self.sender, self.seq, self.t_ns, self.body, id=self.id)
        return None


class Notification(_ObjectMessage, eq=False, kw_only=True):
    """A message with `method` but no `id`, which expects no response."""

    method: str
    """The notification's method."""


class Response(_ObjectMessage, eq=False, kw_only=True):
    """A message with `result` or `error`."""

    id: Id | None
    """The id of the request that this answers; None if the member is absent, which is not the same as `null`."""

    @property
    def result(self) -> Any:
        """The member `result`, or MISSING."""
        return self.body.get("result", MISSING)

    @property
    def error(self) -> Any:
        """The member `error`, or MISSING."""
        return self.body.get("error", MISSING)

    @property
    def is_error(self) -> bool:
        """Whether this is an error response: `error` is present, and not merely a null next to a result."""
        return "error" in self.body and (self.error is not None or "result" not in self.body)


class InvalidMessage(_Message, eq=False):
    """A frame, or part of one, that is not a message or cannot be judged."""

    reason: str
    """The id of the rule that it breaks, or `unjudged` if it is too large to examine or some of its bytes are lost."""


Message: TypeAlias = Request | Notification | Response | InvalidMessage


def messages(frame: Frame) -> tuple[Message, ...]:
    """Returns the messages of a frame: one, or all of a batch. The result is never empty, and nothing raises."""
    if frame.body is not None:
        return (flawless_message(frame, frame.body),)
    verdict = frame.verdict
    if frame.is_partial:
        return (invalid_message(frame, "unjudged"),)
    if verdict.kind in ("invalid", "unjudged"):
        return (invalid_message(frame, verdict.problem or verdict.kind),)
    try:
        body = _parse(frame)
        if isinstance(body, list):
            elements = tuple(message_of(frame, index, element) for index, element in enumerate(body))
            return elements or (invalid_message(frame, "batch/empty"),)
        return (message_of(frame, None, body),)
    except (ValueError, RecursionError):
        return (invalid_message(frame, verdict.problem or "unjudged"),)


def message_count(frame: Frame) -> int:
    """Returns the number of messages in a frame without creating them: a batch may have a million."""
    if frame.verdict.kind != "batch" or frame.is_partial:
        return 1
    try:
        body = orjson.loads(frame.raw)
    except ValueError:
        return len(messages(frame))
    return max(1, len(body)) if isinstance(body, list) else 1


def flawless_message(frame: Frame, body: dict[str, Any]) -> Request | Notification | Response:
    """Returns the message of a flawless frame, whose kind the verdict determines."""
    verdict = frame.verdict
    method = verdict.method
    sender_side: Side = "client" if frame.dir == "c2s" else "server"
    if method is not None and verdict.id is None:
        return Notification((frame,), None, sender_side, frame.seq, frame.t_ns, body, method=method)
    raw_id = body["id"]
    id_ = _bounded_id("string", raw_id) if type(raw_id) is str else Id("number", str(raw_id))
    if method is not None:
        return Request((frame,), None, sender_side, frame.seq, frame.t_ns, body, id=id_, method=method)
    return Response((frame,), None, sender_side, frame.seq, frame.t_ns, body, id=id_)


_WHITE_SPACE: Final = b" \t\r\n"


def is_as_written(message: Message) -> bool:
    """Whether a message is the same when serialised again, except for white space: then no member is duplicated.

    This is true of nearly all messages. Checking each object while parsing would take ten times as long.
    """
    if isinstance(message, InvalidMessage) or message.index is not None or len(message.frames) > 1:
        return False
    raw = message.frames[0].raw
    if message.frames[0].is_as_written:
        return True
    try:
        serialised = orjson.dumps(message.body)
    except orjson.JSONEncodeError:
        return False
    return serialised == raw or serialised.translate(None, _WHITE_SPACE) == raw.translate(None, _WHITE_SPACE)


def sender_of(frame: Frame) -> Side:
    """Returns the side that sent a frame."""
    return "client" if frame.dir == "c2s" else "server"


def invalid_message(frame: Frame, reason: str, index: int | None = None) -> InvalidMessage:
    """Returns an `InvalidMessage` for a frame, or a part of one, that is not a message for this reason."""
    return InvalidMessage((frame,), index, sender_of(frame), frame.seq, frame.t_ns, reason)


def message_of(frame: Frame, index: int | None, body: object) -> Message:
    """Returns the message in a parsed value, classified by its members.

    Args:
        frame: the frame that contains the value.
        index: the position of the value in a batch, or on a line; None otherwise.
        body: the value.
    """
    if not isinstance(body, dict):
        return invalid_message(frame, "framing/not-a-message" if index is None else "batch/item-not-object", index)
    common = index, sender_of(frame), frame.seq, frame.t_ns
    method = body.get("method", MISSING)
    if method is MISSING:
        if "result" in body or "error" in body:
            return Response((frame,), *common, body, id=_id(frame, index, body))
        return invalid_message(frame, "jsonrpc/unclassifiable", index)
    if not isinstance(method, str) or not method:
        return invalid_message(frame, "jsonrpc/method-not-string", index)
    id_ = _id(frame, index, body)
    if id_ is None:
        return Notification((frame,), *common, body, method=method)
    return Request((frame,), *common, body, id=id_, method=method)


def _id(frame: Frame, index: int | None, body: dict[str, Any]) -> Id | None:
    """Returns the id of a message; from the verdict's token if it has one, because orjson rounds some numbers."""
    if "id" not in body:
        return None
    token = frame.verdict.id
    return id_of(body["id"]) if index is not None or token is None else id_of_token(token)


def _parse(frame: Frame) -> Any:
    verdict = frame.verdict
    # A batch has no token per element, so the parsed ids must be exact.
    if verdict.problem is None and not verdict.omitted and verdict.kind != "batch":
        try:
            return orjson.loads(frame.raw)
        except ValueError:
            pass
    return parse_exactly(frame.raw)


def parse_exactly(raw: bytes) -> Any:
    """Parse JSON as leniently as `json` does, including a byte order mark and lone surrogates; numbers stay exact.

    Raises:
        ValueError: the bytes are not JSON, or not UTF-8.
        RecursionError: the value is nested too deeply.
    """
    return json.loads(raw.decode("utf-8-sig"), parse_int=_integer, parse_float=Number, parse_constant=_constant)


def _integer(token: str) -> int | Number:
    # int() refuses more than 4300 digits, and takes quadratic time for fewer.
    return int(token) if len(token) <= _MAX_INTEGER_DIGITS else Number(token)


def _constant(token: str) -> Number:
    """Returns NaN or an infinity, which are not JSON but are accepted by Python's parser."""
    return Number(token.replace("Infinity", "inf"))
