"""The raw text of frames: why something is not a message, and values that parsers hide.

Parsers agree only on flawless JSON: they keep the first or the last of duplicate members, some accept NaN, and some
fail on a lone surrogate. The functions here are called only for frames with an oddity.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, NamedTuple, TypeVar

from analysis.conversation.assembly import MAX_MESSAGES_PER_LINE
from analysis.conversation.call import MessageContext
from analysis.conversation.message import InvalidMessage, Message, is_as_written
from analysis.facts import raw_of
from analysis.protocol.json_pointer import encode_step
from analysis.rules.base import Rule
from analysis.rules.finding import Finding
from captures.envelope import judge
from captures.frame import Frame
from captures.limits import MAX_READER_JUDGED_BYTES

BOM: Final = b"\xef\xbb\xbf"
SEVERAL_MESSAGES: Final = "framing/several-messages-on-a-line"
NOT_JSON: Final = frozenset({"framing/stdout-not-json", "framing/stdin-not-json"})
MAX_QUOTED_NAME_CHARS: Final = 60
"""The most characters of an untrusted name that a finding repeats."""

_MAX_POINTER_CHARS: Final = 256
_REASONS_WITHOUT_VALUE: Final = NOT_JSON | {
    *("framing/invalid-utf8", "framing/lsp-header", "framing/blank-line", "framing/truncated-message"),
    *("framing/not-a-message", "framing/too-deep", "sse/data-not-json", "invalid", "unjudged"),
}
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_SPACE: Final = re.compile(r"[ \t\r\n]*+")


T = TypeVar("T")


class _LastResultCache(Generic[T]):
    """Caches a function's result for the latest frames, because all rules need it for each item of an array.

    Frames are compared by identity: comparing or hashing ten thousand lines for each of as many items would take
    minutes.
    """

    def __init__(self, make: Callable[[tuple[Frame, ...]], T]) -> None:
        self._make = make
        self._last: tuple[tuple[Frame, ...], T] | None = None

    def __call__(self, frames: tuple[Frame, ...]) -> T:
        """Returns the function's result for some frames, from the cache if they are the latest frames."""
        cached = self._last
        if cached is not None and cached[0][0] is frames[0] and len(cached[0]) == len(frames):
            return cached[1]
        result = self._make(frames)
        self._last = (frames, result)
        return result


class FrameRule(Rule):
    """A rule about the bytes of frames that are not a message, or begin with something that is not a message."""

    def on_invalid(self, context: MessageContext) -> Iterator[Finding]:
        """Check a frame, once."""
        return self.check_frame(context) if is_first(context.message) else iter(())

    def check_frame(self, context: MessageContext) -> Iterator[Finding]:
        """Yields the findings about a frame; `context` is the first message in it."""
        raise NotImplementedError

    def frame_finding(
        self, context: MessageContext, text: str, *, pointer: str = "", item: int | None = None
    ) -> Finding:
        """Returns a finding about the frame as a whole, or about one item in it."""
        related = tuple({frame.seq: None for frame in context.message.frames[-1:] if frame.seq != context.message.seq})
        return self.finding(context, text, pointer=pointer, related=related)._replace(item=item)


class AnyFrameRule(FrameRule):
    """A rule about the bytes of any frame; it checks each frame once, regardless of how many messages are in it."""

    def on_anomaly(self, context: MessageContext) -> Iterator[Finding]:
        """Check a frame that begins with a message, once."""
        return self.check_frame(context) if is_first(context.message) else iter(())


def is_first(message: Message) -> bool:
    """Whether a message is the first one of its frame."""
    return message.index in (None, 0)


@_LastResultCache
def _reason_after_bom(frames: tuple[Frame, ...]) -> str:
    frame = frames[0]
    verdict = judge(
        frame.raw.removeprefix(BOM), frame.dir, frame.unit, whole=frame.whole, limit=MAX_READER_JUDGED_BYTES
    )
    return verdict.problem or verdict.kind


def reason(message: Message) -> str | None:
    """Returns why something is not a message, apart from a byte order mark, or None if it is a message."""
    if not isinstance(message, InvalidMessage):
        return None
    return _reason_after_bom(message.frames[:1]) if message.reason == "framing/bom" else message.reason


def is_value(message: Message) -> bool:
    """Whether a message's bytes are a JSON object or array; the rules check no other values."""
    return reason(message) not in _REASONS_WITHOUT_VALUE


def object_of(message: Message) -> dict[str, Any] | None:
    """Returns the members of a message or of an invalid object, or None if it is not an object."""
    if not isinstance(message, InvalidMessage):
        return message.body
    if not is_value(message):
        return None
    values = _values(message.frames)
    index = message.index or 0
    value = values[index] if index < len(values) else None
    return value if isinstance(value, dict) else None


def is_not_json(context: MessageContext) -> bool:
    """Whether a message is a whole HTTP body that is not JSON."""
    frame = context.message.frames[0]
    if frame.unit != "http_body" or not frame.whole or not isinstance(context.message, InvalidMessage):
        return False
    return reason(context.message) == "invalid" and frame.verdict.kind == "invalid"


def is_item(message: Message) -> bool:
    """Whether a message is an item of an array, and not one of several messages on a line."""
    return message.index is not None and message.frames[0].verdict.problem != SEVERAL_MESSAGES


def items_of(message: Message) -> list[Any]:
    """Returns all items of the array that contains a message; numbers in them may be rounded."""
    return _values(message.frames)


@_LastResultCache
def _values(frames: tuple[Frame, ...]) -> list[Any]:
    """Returns the values in a frame: one value, the items of an array, or all values on a line. Integers are floats."""
    try:
        text = raw_of(frames).decode("utf-8-sig")
        values = _consecutive_values(text, json.JSONDecoder(parse_int=float).raw_decode)
    except (ValueError, RecursionError):
        return []
    return values[0] if len(values) == 1 and isinstance(values[0], list) else values


def _consecutive_values(text: str, decode: Callable[[str, int], tuple[Any, int]]) -> list[Any]:
    """Returns the consecutive JSON values in a text."""
    values: list[Any] = []
    position = _after_space(text, 0)
    while position < len(text) and len(values) < MAX_MESSAGES_PER_LINE:
        value, position = decode(text, position)
        values.append(value)
        position = _after_space(text, position)
    return values


def shortened_name(name: str) -> str:
    """Returns an untrusted name, truncated to `MAX_QUOTED_NAME_CHARS`."""
    return name if len(name) <= MAX_QUOTED_NAME_CHARS else f"{name[: MAX_QUOTED_NAME_CHARS - 1]}…"


# ---- values that parsers hide


class AnomalyLocation(NamedTuple):
    """Where an oddity is in a frame."""

    pointer: str
    """The JSON Pointer of the value in its message."""
    name: str = ""
    """The name of a duplicate member."""
    item: int | None = None
    """The message's position in its array, or on its line."""


class HiddenValues(NamedTuple):
    """The first location of each kind of hidden value; None if there is none."""

    repeated: AnomalyLocation | None = None
    constant: AnomalyLocation | None = None
    half_pair: AnomalyLocation | None = None


class _RepeatingObject(dict[str, Any]):
    """An object that repeats a member."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        seen: set[str] = set()
        self.repeated = ""
        """The first repeated name."""
        for name, _ in pairs:
            if name in seen:
                self.repeated = name
                break
            seen.add(name)


class _Constant:
    """NaN, or an infinity."""


def hidden_values(message: Message) -> HiddenValues:
    """Returns the locations of the values that parsers hide in the frames of a message."""
    if is_as_written(message):
        return HiddenValues()
    return _hidden_values(message.frames) if is_value(message) else HiddenValues()


@_LastResultCache
def _hidden_values(frames: tuple[Frame, ...]) -> HiddenValues:
    raw = raw_of(frames)
    parser = _OddityParser()
    try:
        values = _consecutive_values(raw.decode("utf-8-sig"), parser.decode)
    except (ValueError, RecursionError):
        return HiddenValues()
    if not values or (not parser.is_odd and not _ESCAPED_SURROGATE.search(raw)):
        return HiddenValues()
    has_several = len(values) > 1
    value = values if has_several else values[0]
    return _hidden_locations(value, has_items=has_several or isinstance(value, list))


class _OddityParser:
    """A JSON parser that notices odd values."""

    def __init__(self) -> None:
        self.is_odd = False
        self.decode = json.JSONDecoder(
            object_pairs_hook=self._object, parse_int=str, parse_float=str, parse_constant=self._constant
        ).raw_decode

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        self.is_odd = True
        return _RepeatingObject(pairs)

    def _constant(self, _token: str) -> _Constant:
        self.is_odd = True
        return _Constant()


def _after_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


def _hidden_locations(value: Any, *, has_items: bool) -> HiddenValues:
    """Returns the first locations of odd values, depth first; without recursion, because values may nest deeply."""
    locations: dict[str, AnomalyLocation] = {}
    path: list[str | int] = []
    levels: list[Iterator[tuple[str | int, Any]]] = [iter([("", value)])]
    while levels and len(locations) < len(HiddenValues._fields):
        key, item = next(levels[-1], (None, None))
        if key is None:
            levels.pop()
            if path:
                path.pop()
            continue
        path.append(key)
        for kind, name in _oddities(key, item):
            locations.setdefault(kind, _location([*path[1:], *([name] if kind == "repeated" else [])], name, has_items))
        if isinstance(item, dict):
            levels.append(iter(item.items()))
        elif isinstance(item, list):
            levels.append(iter(enumerate(item)))
        else:
            path.pop()
    return HiddenValues(**locations)


def _oddities(key: str | int, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, _RepeatingObject):
        yield "repeated", value.repeated
    elif isinstance(value, _Constant):
        yield "constant", ""
    elif isinstance(value, str) and _LONE_SURROGATE.search(value):
        yield "half_pair", ""
    if isinstance(key, str) and _LONE_SURROGATE.search(key):
        yield "half_pair", ""


def _location(path: list[str | int], name: str, has_items: bool) -> AnomalyLocation:
    item = path.pop(0) if has_items and path and isinstance(path[0], int) else None
    pointer = "".join(f"/{encode_step(str(part))}" for part in path)
    is_quotable = len(pointer) <= _MAX_POINTER_CHARS and not _LONE_SURROGATE.search(pointer)
    return AnomalyLocation(pointer if is_quotable else "", name, item if isinstance(item, int) else None)
