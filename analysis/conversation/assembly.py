"""Assembles messages that are not one line each: a message over several lines, or several messages on one line.

The recorder judges each line by itself. Peers that print their JSON over several lines, or forget the line feed, break
a rule of the transport, but their messages can still be read. A line that is not JSON by itself but could be the
beginning of a JSON text is held back with the lines after it until the brackets close, and then read as a whole; if
that fails, each line is judged by itself again. Work is linear in the bytes, and the held lines are bounded.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from analysis.conversation.message import Message, invalid_message, message_of, messages, parse_exactly
from analysis.facts import raw_of
from captures.frame import Frame
from captures.limits import MAX_JUDGED_DEPTH, MAX_READER_JUDGED_BYTES

MAX_MESSAGE_LINES: Final = 10_000
"""The most lines that one message may span."""
MAX_MESSAGES_PER_LINE: Final = 10_000
"""The most messages that one line may contain."""

_NOT_JSON: Final = frozenset({"framing/stdout-not-json", "framing/stdin-not-json", "framing/blank-line"})
_SEVERAL_MESSAGES: Final = "framing/several-messages-on-a-line"
_TOKENS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}"]')
_SPACE: Final = re.compile(r"[ \t\r\n]*+")


class Assembly:
    """Assembles both directions of one stdio connection; frames from HTTP pass unchanged."""

    def __init__(self) -> None:
        self._unfinished = {"c2s": _UnfinishedMessage(), "s2c": _UnfinishedMessage()}

    @property
    def is_idle(self) -> bool:
        """Whether no lines are held back, and no lines before the next one are lost."""
        return not any(unfinished.frames or unfinished.has_lost_lines for unfinished in self._unfinished.values())

    def feed(self, frame: Frame) -> Iterable[Message]:
        """Returns the messages that a frame completes: none if the frame may be part of a longer message."""
        unfinished = self._unfinished[frame.dir]
        if frame.unit != "line" or (frame.body is not None and not unfinished.frames and not unfinished.has_lost_lines):
            return messages(frame)
        return self._feed(frame, unfinished)

    @staticmethod
    def _feed(frame: Frame, unfinished: "_UnfinishedMessage") -> Iterator[Message]:
        if unfinished.has_lost_lines:
            yield from unfinished.feed_after_loss(frame)
            return
        if (
            not unfinished.frames
            and frame.verdict.problem not in _NOT_JSON
            and frame.verdict.problem != _SEVERAL_MESSAGES
        ):
            yield from messages(frame)
            return
        if unfinished.frames and frame.verdict.kind not in ("invalid", "unjudged"):
            yield from unfinished.release()
            yield from messages(frame)
            return
        if unfinished.try_add(frame):
            if unfinished.is_closed:
                yield from unfinished.join()
            return
        yield from unfinished.release()
        if unfinished.try_add(frame) and not unfinished.is_closed:
            return
        unfinished.clear()
        yield from _split(frame) if frame.verdict.problem == _SEVERAL_MESSAGES else messages(frame)

    def note_loss(self) -> None:
        """Note lost lines: messages held back may lack lines, and the next lines may be the rest of a message."""
        for unfinished in self._unfinished.values():
            unfinished.has_lost_lines = True

    def finish(self, direction: str | None = None) -> Iterator[Message]:
        """Release the lines held back in one direction or both, at the end of the stream; yield their messages."""
        for held_direction, unfinished in self._unfinished.items():
            if direction in (None, held_direction):
                yield from unfinished.release()


class _UnfinishedMessage:
    """Lines that may form one message."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.has_lost_lines = False
        """Whether lines before the next one are lost."""
        self._depth = 0
        self._size = 0

    def feed_after_loss(self, frame: Frame) -> Iterator[Message]:
        """Process a line after a loss; yield messages. Lines cannot be judged until one is a message by itself."""
        self.has_lost_lines = frame.verdict.problem in _NOT_JSON
        for held_frame in self.frames:
            yield invalid_message(held_frame, "unjudged")
        self.clear()
        yield from [invalid_message(frame, "unjudged")] if self.has_lost_lines else messages(frame)

    @property
    def is_closed(self) -> bool:
        """Whether every bracket is closed."""
        return self._depth == 0

    def clear(self) -> None:
        self.frames, self._depth, self._size = [], 0, 0

    def try_add(self, frame: Frame) -> bool:
        """Add a line if it can belong to a message that spans lines; return whether it was added."""
        raw = frame.raw
        if not self.frames and not raw.lstrip().startswith((b"{", b"[")):
            return False
        if len(self.frames) >= MAX_MESSAGE_LINES or self._size + len(raw) > MAX_READER_JUDGED_BYTES:
            return False
        depth = self._depth
        for token in _TOKENS.finditer(raw):
            mark = token[0]
            if mark == b'"':
                return False  # a string that does not end on its line
            if mark in b"[{":
                depth += 1
            elif mark in b"]}":
                depth -= 1
            if depth < 0 or depth > MAX_JUDGED_DEPTH:
                return False
            if depth == 0 and raw[token.end() :].strip():
                return False  # something follows the end
        if not self.frames and depth == 0:
            return False  # the brackets close, but the line is not JSON
        self.frames.append(frame)
        self._depth, self._size = depth, self._size + len(raw)
        return True

    def join(self) -> Iterator[Message]:
        """Clear the lines; yield them as one message, or each by itself if they do not form one."""
        frames = tuple(self.frames)
        raw = raw_of(frames)
        try:
            body = parse_exactly(raw)
        except (ValueError, RecursionError):
            yield from self.release()
            return
        self.clear()
        if body == []:
            yield _spanning_message(frames, invalid_message(frames[0], "batch/empty"))
            return
        items = enumerate(body) if isinstance(body, list) else ((None, body),)
        for index, item in items:
            yield _spanning_message(frames, message_of(frames[0], index, item))

    def release(self) -> Iterator[Message]:
        """Clear the lines; yield the messages of each, judged by itself."""
        frames = self.frames
        self.clear()
        for frame in frames:
            yield from [invalid_message(frame, "unjudged")] if self.has_lost_lines else messages(frame)


def _spanning_message(frames: tuple[Frame, ...], message: Message) -> Message:
    """Returns the message with all the lines that it spans."""
    return replace(message, frames=frames, t_ns=frames[-1].t_ns)


def _split(frame: Frame) -> Iterator[Message]:
    """Yields the messages of a line that contains several; their index is the position on the line."""
    try:
        text = frame.raw.decode("utf-8-sig")
        values: list[object] = []
        position = 0
        while position < len(text) and len(values) < MAX_MESSAGES_PER_LINE:
            item, position = _DECODER.raw_decode(text, position)
            values.append(item)
            space = _SPACE.match(text, position)
            position = space.end() if space else position
    except (ValueError, RecursionError):
        yield invalid_message(frame, _SEVERAL_MESSAGES)
        return
    for index, item in enumerate(values):
        yield message_of(frame, index, item)


_DECODER: Final = json.JSONDecoder()
