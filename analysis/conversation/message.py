"""Messages: the JSON-RPC 2.0 messages in one frame.

It never raises, regardless of the bytes, and guesses nothing. An absent member is `MISSING` and not `null`, a 1 is
not a "1", and a message is classified by the members it has, never by which model would accept it. The verdict on the
frame (captures.envelope) comes first: a frame that is invalid there stays `Invalid`, for the same reason.

Values are parsed by orjson if the verdict found no problem. Otherwise `json` reads the bytes, and a number that a float
cannot hold keeps its digits (`Number`). Ids are exact in both cases.
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
    """The other side."""
    return "server" if side == "client" else "client"


class Missing(Enum):
    """The type of `MISSING`."""

    MISSING = "missing"

    def __bool__(self) -> bool:
        """Always false, as null is."""
        return False


MISSING: Final = Missing.MISSING
"""The value of an absent member."""

IdType: TypeAlias = Literal["string", "number", "boolean", "null", "other", "digest"]


# Thousands of ids are kept; with gc=False, the garbage collector does not visit them.
class Id(Struct, frozen=True, gc=False):
    """The id of a message as a key: ids are equal if JSON type and exact value are."""

    type: IdType
    """`other` is an array or object; `digest` any type above 256 characters."""
    value: str
    """A string after unescaping; a number in one form, so that `1.0` and `1` are equal and `9007199254740993` is exact;
    the digest of a long value; nothing for `other`."""

    @property
    def pairs(self) -> bool:
        """Whether a response can carry it; null, an array or an object cannot be answered."""
        return self.type not in ("null", "other")

    @property
    def text(self) -> str:
        """As JSON would write it, so that a 1 and a "1" look different; untrusted text, not safe on a screen."""
        if self.type == "string":
            return json.dumps(self.value, ensure_ascii=False)
        return {"other": "(no scalar)", "digest": "(over 256 characters)"}.get(self.type, self.value)


_MAX_ID_CHARS: Final = 256
# Integers up to this many digits are written out; 1e400000 must not become 400,000 zeros.
_PLAIN_DIGITS: Final = 40
_PLAIN: Final = 10**_PLAIN_DIGITS
_INTEGER_DIGITS: Final = 400


class Number(float):
    """A number that keeps its token, because a float may round it."""

    token: str

    def __new__(cls, token: str) -> Self:
        """Create the number that `token` denotes."""
        number = super().__new__(cls, token)
        number.token = token
        return number


def id_of(value: object) -> Id:
    """The key of a parsed id. Exact if `parse_exactly` parsed it; a plain float has already lost digits."""
    if isinstance(value, str):
        return _short("string", value)
    if type(value) is int and 0 <= value < _PLAIN:
        return Id("number", str(value))
    if value is None:
        return Id("null", "null")
    if isinstance(value, bool):
        return Id("boolean", "true" if value else "false")
    if isinstance(value, int | float):
        return _short("number", number_text(value.token if isinstance(value, Number) else str(value)))
    return Id("other", "")


def id_of_token(token: bytes) -> Id:
    """The key of an id from its JSON token, verbatim."""
    if token.isdigit() and len(token) <= _PLAIN_DIGITS:
        return Id("number", token.decode())
    text = token.decode("utf-8", "surrogatepass")
    if text[:1] in "-0123456789":
        return _short("number", number_text(text))
    return id_of(parse_exactly(token))


def _short(type_: Literal["string", "number"], value: str) -> Id:
    if len(value) <= _MAX_ID_CHARS:
        return Id(type_, value)
    # A table of ids must stay small when every id is a megabyte.
    from hashlib import blake2b

    return Id("digest", blake2b(f"{type_}:{value}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest())


def converted(id_: Id) -> Id:
    """The id that was meant if a peer turns numbers into strings, or strings into numbers."""
    if id_.type == "number":
        return Id("string", id_.value)
    if id_.type == "string":
        return Id("number", number_text(id_.value))
    return id_


def number_text(token: str) -> str:
    """A JSON number in canonical form: equal numbers give equal texts, without going through a float.

    `1`, `1.0`, `10e-1` → `1`; `1e2` → `100`; `-0.0` → `0`; `0.50` → `0.5`; `1e400` → `1e400`. A token that is not a
    number comes back unchanged.
    """
    if len(token) <= _PLAIN_DIGITS and token.isdecimal():
        return token
    mantissa, _, power = token.lower().partition("e")
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, fraction = mantissa.partition(".")
    power = power or "0"
    # More digits than int() accepts: no counter gets that far, and the token is as good a key as any.
    if not (whole + fraction).isdecimal() or len(power) > 4000 or not power.lstrip("+-").isdecimal():
        return token
    digits = (whole + fraction).lstrip("0")
    exponent = int(power) - len(fraction) + len(digits) - len(digits.rstrip("0"))
    digits = digits.rstrip("0")
    return sign + _written(digits, exponent) if digits else "0"


def _written(digits: str, exponent: int) -> str:
    """`digits` times ten to the `exponent`; digits without zeros at either end."""
    if 0 <= exponent <= _PLAIN_DIGITS - len(digits):
        return digits + "0" * exponent
    if 0 < -exponent <= _PLAIN_DIGITS:
        padded = digits.rjust(1 - exponent, "0")
        return f"{padded[:exponent]}.{padded[exponent:]}"
    return f"{digits}e{exponent}"


# Messages are never modified. That is not enforced: it would double the cost of each, and there are millions.


class _Message(Struct, eq=False):
    frames: tuple[Frame, ...]
    """Its frames: one, or the lines that it spans."""
    index: int | None
    """Its place in a batch, from 0; None outside of one."""
    sender: Side
    """Who sent it."""
    seq: int
    """Number of its first frame."""
    t_ns: int
    """Stamp of its last frame: nanoseconds since the capture opened."""


class _Object(_Message, eq=False):
    body: dict[str, Any]
    """All its members."""
    _packed: bytes | None = None
    _meta: dict[str, Any] | None = None

    def pack(self) -> None:
        """Keep its bytes instead of its values, which take twenty times the memory and are parsed again on demand.

        Meant for a message that waits among very many. A message that would not parse to the same values again stays
        unchanged.
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
        """Parse packed values again; no other attribute is ever missing."""
        if name != "body" or self._packed is None:
            raise AttributeError(name)
        if self.index is None and len(self.frames) == 1:
            return _parse(self.frames[0])
        return orjson.loads(self._packed)

    @property
    def params(self) -> Any:
        """The member `params`, or MISSING; usually an object, but that is not guaranteed."""
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


class Request(_Object, eq=False, kw_only=True):
    """A message with `method` and `id`, which expects a response."""

    id: Id
    """Its id; `null` and objects are ids, too, although they cannot be answered."""
    method: str
    """The requested method."""

    def as_response(self) -> "Response | None":
        """The same message read as a response, if it has `result` or `error` in addition to `method`."""
        if "result" in self.body or "error" in self.body:
            return Response(self.frames, self.index, self.sender, self.seq, self.t_ns, self.body, id=self.id)
        return None


class Notification(_Object, eq=False, kw_only=True):
    """A message with `method` but no `id`, which expects no response."""

    method: str
    """The notification's method."""


class Response(_Object, eq=False, kw_only=True):
    """A message with `result` or `error`."""

    id: Id | None
    """The id of the request that it answers; None if the member is absent, which is not `null`."""

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
        """Whether it is an error: `error` is present, and not merely a null next to a result."""
        return "error" in self.body and (self.error is not None or "result" not in self.body)


class Invalid(_Message, eq=False):
    """A frame, or part of one, that is not a message or cannot be judged."""

    reason: str
    """The id of the rule that it breaks, or `unjudged`: too big to examine, or some of its bytes are lost."""


Message: TypeAlias = Request | Notification | Response | Invalid


def messages(frame: Frame) -> tuple[Message, ...]:
    """The messages of a frame: one, or those of a batch. Never empty, never raises."""
    if frame.body is not None:
        return (flawless(frame, frame.body),)
    verdict = frame.verdict
    if frame.is_partial:
        return (invalid(frame, "unjudged"),)
    if verdict.kind in ("invalid", "unjudged"):
        return (invalid(frame, verdict.problem or verdict.kind),)
    try:
        body = _parse(frame)
        if isinstance(body, list):
            elements = tuple(message_of(frame, index, element) for index, element in enumerate(body))
            return elements or (invalid(frame, "batch/empty"),)
        return (message_of(frame, None, body),)
    except (ValueError, RecursionError):
        return (invalid(frame, verdict.problem or "unjudged"),)


def count_of(frame: Frame) -> int:
    """How many messages `messages` would make of a frame, without making them: a batch may have a million."""
    if frame.verdict.kind != "batch" or frame.is_partial:
        return 1
    try:
        body = orjson.loads(frame.raw)
    except ValueError:
        return len(messages(frame))
    return max(1, len(body)) if isinstance(body, list) else 1


def flawless(frame: Frame, body: dict[str, Any]) -> Request | Notification | Response:
    """The message of a flawless frame; the verdict already determines its kind."""
    verdict = frame.verdict
    method = verdict.method
    by: Side = "client" if frame.dir == "c2s" else "server"
    if method is not None and verdict.id is None:
        return Notification((frame,), None, by, frame.seq, frame.t_ns, body, method=method)
    ident = body["id"]
    id_ = _short("string", ident) if type(ident) is str else Id("number", str(ident))
    if method is not None:
        return Request((frame,), None, by, frame.seq, frame.t_ns, body, id=id_, method=method)
    return Response((frame,), None, by, frame.seq, frame.t_ns, body, id=id_)


_WHITE: Final = b" \t\r\n"


def is_as_written(message: Message) -> bool:
    """Whether a message is the same when written again, except for white space: then no member is duplicated.

    Nearly all are, and checking each object while parsing takes ten times as long.
    """
    if isinstance(message, Invalid) or message.index is not None or len(message.frames) > 1:
        return False
    raw = message.frames[0].raw
    if message.frames[0].is_as_written:
        return True
    try:
        again = orjson.dumps(message.body)
    except orjson.JSONEncodeError:
        return False
    return again == raw or again.translate(None, _WHITE) == raw.translate(None, _WHITE)


def sender(frame: Frame) -> Side:
    """The side that sent a frame."""
    return "client" if frame.dir == "c2s" else "server"


def invalid(frame: Frame, reason: str, index: int | None = None) -> Invalid:
    """A frame, or a part of one, that is not a message, for a reason."""
    return Invalid((frame,), index, sender(frame), frame.seq, frame.t_ns, reason)


def message_of(frame: Frame, index: int | None, body: object) -> Message:
    """The message in a parsed value, classified by its members.

    Args:
        frame: where it came from.
        index: its position in a batch, or on a line; None otherwise.
        body: the value.
    """
    if not isinstance(body, dict):
        return invalid(frame, "framing/not-a-message" if index is None else "batch/item-not-object", index)
    place = index, sender(frame), frame.seq, frame.t_ns
    method = body.get("method", MISSING)
    if method is MISSING:
        if "result" in body or "error" in body:
            return Response((frame,), *place, body, id=_id(frame, index, body))
        return invalid(frame, "jsonrpc/unclassifiable", index)
    if not isinstance(method, str) or not method:
        return invalid(frame, "jsonrpc/method-not-string", index)
    id_ = _id(frame, index, body)
    if id_ is None:
        return Notification((frame,), *place, body, method=method)
    return Request((frame,), *place, body, id=id_, method=method)


def _id(frame: Frame, index: int | None, body: dict[str, Any]) -> Id | None:
    """The typed id; from the verdict's token if there is one, because orjson turns some numbers into floats."""
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
    """Parse JSON as leniently as `json` does, a byte order mark and lone surrogates included; numbers stay exact.

    Raises:
        ValueError: it is not JSON, or not UTF-8.
        RecursionError: it is nested too deeply.
    """
    return json.loads(raw.decode("utf-8-sig"), parse_int=_integer, parse_float=Number, parse_constant=_constant)


def _integer(token: str) -> int | Number:
    # int() refuses more than 4300 digits, and takes quadratic time for fewer.
    return int(token) if len(token) <= _INTEGER_DIGITS else Number(token)


def _constant(token: str) -> Number:
    """NaN and the infinities, which JSON lacks but Python's parser accepts."""
    return Number(token.replace("Infinity", "inf"))
