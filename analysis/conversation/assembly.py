"""Assembles messages that do not match lines: a message over several lines, or several messages on one line.

The recorder judges each line by itself. Peers that print their JSON over several lines, or forget the line feed, break
a rule of the transport, but are understood anyway. A line that is not JSON by itself but could be the beginning of a
JSON text is held back with the lines after it until the brackets close, and then read as a whole; if that fails, each
line is judged by itself again. Work is linear in the bytes, and the held lines are bounded.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from analysis.conversation.message import Message, invalid, message_of, messages, parse_exactly
from analysis.facts import raw_of
from captures.frame import Frame
from captures.limits import MAX_READER_JUDGED_BYTES, TOO_DEEP

MAX_MESSAGE_LINES: Final = 10_000
"""The most lines that one message may span."""
MAX_MESSAGES_PER_LINE: Final = 10_000
"""The most messages that one line may hold."""

_NOT_JSON: Final = frozenset({"framing/stdout-not-json", "framing/stdin-not-json", "framing/blank-line"})
_SEVERAL: Final = "framing/several-messages-on-a-line"
_TOKENS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}"]')
_SPACE: Final = re.compile(r"[ \t\r\n]*+")


class Assembly:
    """Assembles both directions of one stdio connection; frames from HTTP pass unchanged."""

    def __init__(self) -> None:
        self._held = {"c2s": _Unfinished(), "s2c": _Unfinished()}

    @property
    def is_idle(self) -> bool:
        """Whether no line is held back, and no line before the next one is lost."""
        return not any(held.frames or held.is_spoilt for held in self._held.values())

    def feed(self, frame: Frame) -> Iterable[Message]:
        """The messages that a frame completes; none if it may be part of one."""
        held = self._held[frame.dir]
        if frame.unit != "line" or (frame.body is not None and not held.frames and not held.is_spoilt):
            return messages(frame)
        return self._feed(frame, held)

    @staticmethod
    def _feed(frame: Frame, held: "_Unfinished") -> Iterator[Message]:
        if held.is_spoilt:
            yield from held.after_loss(frame)
            return
        if not held.frames and frame.verdict.problem not in _NOT_JSON and frame.verdict.problem != _SEVERAL:
            yield from messages(frame)
            return
        if held.frames and frame.verdict.kind not in ("invalid", "unjudged"):
            yield from held.release()
            yield from messages(frame)
            return
        if held.try_add(frame):
            if held.is_closed:
                yield from held.joined()
            return
        yield from held.release()
        if held.try_add(frame) and not held.is_closed:
            return
        held.clear()
        yield from _split(frame) if frame.verdict.problem == _SEVERAL else messages(frame)

    def note_loss(self) -> None:
        """Note lost lines: held messages may lack some, and the next lines may be the rest of a message."""
        for held in self._held.values():
            held.is_spoilt = True

    def finish(self, direction: str | None = None) -> Iterator[Message]:
        """Release the lines held back in one direction or both, at the end of the stream; returns their messages."""
        for name, held in self._held.items():
            if direction in (None, name):
                yield from held.release()


class _Unfinished:
    """Lines that may form one message."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.is_spoilt = False
        """Whether lines before the next one are lost."""
        self._depth = 0
        self._size = 0

    def after_loss(self, frame: Frame) -> Iterator[Message]:
        """Process a line after lost ones: until a line is a message by itself, the lines cannot be judged."""
        self.is_spoilt = frame.verdict.problem in _NOT_JSON
        for held in self.frames:
            yield invalid(held, "unjudged")
        self.clear()
        yield from [invalid(frame, "unjudged")] if self.is_spoilt else messages(frame)

    @property
    def is_closed(self) -> bool:
        """Whether every bracket is closed."""
        return self._depth == 0

    def clear(self) -> None:
        self.frames, self._depth, self._size = [], 0, 0

    def try_add(self, frame: Frame) -> bool:
        """Add a line; return False, without adding it, if it cannot belong to a message that spans lines."""
        raw = frame.raw
        if not self.frames and not raw.lstrip().startswith((b"{", b"[")):
            return False
        if len(self.frames) >= MAX_MESSAGE_LINES or self._size + len(raw) > MAX_READER_JUDGED_BYTES:
            return False
        depth = self._depth
        for token in _TOKENS.finditer(raw):
            mark = token[0]
            if mark == b'"':
                return False  # a string does not end on its line
            if mark in b"[{":
                depth += 1
            elif mark in b"]}":
                depth -= 1
            if depth < 0 or depth > TOO_DEEP:
                return False
            if depth == 0 and raw[token.end() :].strip():
                return False  # something follows the end
        if not self.frames and depth == 0:
            return False  # its brackets close, and yet it is not JSON
        self.frames.append(frame)
        self._depth, self._size = depth, self._size + len(raw)
        return True

    def joined(self) -> Iterator[Message]:
        """All lines as one message, or each by itself if they do not form one."""
        frames = tuple(self.frames)
        raw = raw_of(frames)
        try:
            body = parse_exactly(raw)
        except (ValueError, RecursionError):
            yield from self.release()
            return
        self.clear()
        if body == []:
            yield _over(frames, invalid(frames[0], "batch/empty"))
            return
        items = enumerate(body) if isinstance(body, list) else ((None, body),)
        for index, item in items:
            yield _over(frames, message_of(frames[0], index, item))

    def release(self) -> Iterator[Message]:
        """The lines, each judged by itself."""
        frames = self.frames
        self.clear()
        for frame in frames:
            yield from [invalid(frame, "unjudged")] if self.is_spoilt else messages(frame)


def _over(frames: tuple[Frame, ...], message: Message) -> Message:
    """A message that spans lines, from its values."""
    return replace(message, frames=frames, t_ns=frames[-1].t_ns)


def _split(frame: Frame) -> Iterator[Message]:
    """The messages of a line that holds several; their index is the position on the line."""
    try:
        text = frame.raw.decode("utf-8-sig")
        values: list[object] = []
        at = 0
        while at < len(text) and len(values) < MAX_MESSAGES_PER_LINE:
            item, at = _DECODER.raw_decode(text, at)
            values.append(item)
            space = _SPACE.match(text, at)
            at = space.end() if space else at
    except (ValueError, RecursionError):
        yield invalid(frame, _SEVERAL)
        return
    for index, item in enumerate(values):
        yield message_of(frame, index, item)


_DECODER: Final = json.JSONDecoder()
