"""`mcpproxy show --frame N --as`: one message as `tui` copies it, printed."""

import sys
from pathlib import Path
from typing import NamedTuple

from analysis.conversation.fold import Fold
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Request
from analysis.conversation.session import Seen
from captures.errors import CaptureError
from captures.frame import Frame
from captures.reader import Capture, Damage, FrameAssembler
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.examining import say_damage
from mcpproxy.report.resending import Command, Posted, command, posted_by, pretty, raw_text

FORMS = ("curl", "shell", "message")


def show_as(paths: list[Path], number: int, form: str) -> int:
    """Print a message in this form; returns 2 if it has no such form, or the capture is damaged or cannot be read."""
    if len(paths) != 1:
        return fail(f"--as prints a frame of a single capture, not of {len(paths):,}")
    search = _Search(paths[0], number)
    code = int(Exit.USAGE if search.is_damaged else Exit.FINE)
    if search.frame is None:
        if number <= search.last:
            return fail(
                f"record {number} is not a frame, so it cannot be printed as {form}; to see what it is, use --frame "
                f"{number} without --as"
            )
        return fail(f"there is no frame {number} in {paths[0]}; the last record is {search.last}")
    if form == "message":
        sys.stdout.write(f"{pretty(search.frame.raw) or raw_text(search.frame.raw)}\n")
        return code
    made = search.command()
    if made is None:
        return fail(
            f"no command sends frame {number} again: the server sent it, and its request is not in the capture, or its "
            "HTTP request is unknown, or of the older transport, which answers on another stream; use --as message"
        )
    if made.kind != form:
        crossed = "HTTP" if made.kind == "curl" else "stdio"
        return fail(f"frame {number} was sent over {crossed}: use --as {made.kind}")
    sys.stdout.write(f"{made.text}\n")
    if made.has_placeholders:
        sys.stdout.flush()
        say("replace each <…> in the command before you run it")
    return code


class _Sent(NamedTuple):
    """A frame, and the HTTP request that carried it."""

    frame: Frame
    posted: Posted | None


class _Search:
    """A frame of a capture, with what is needed to send it again; nothing after it is read."""

    def __init__(self, path: Path, number: int) -> None:
        """Look for it.

        Raises:
            CaptureError: the capture cannot be read.
        """
        capture = Capture(path)
        self._header = capture.header.members
        self._number = number
        self._fold = Fold()
        self._begun: dict[int, _Sent] = {}
        """By session, the request with which it began."""
        self.frame: Frame | None = None
        self._sent: _Sent | None = None
        """What the command sends: the frame, or the request that it answers."""
        self._before: _Sent | None = None
        self.is_damaged = False
        self.last = -1
        """Number of the last record that was read."""
        assembler = FrameAssembler()
        for item in capture:
            if isinstance(item, Damage):
                if item.cause != "torn" and not self.is_damaged:
                    say_damage(item, path)
                    self.is_damaged = True
            else:
                self.last = item.seq
            entry = assembler.feed(item)
            if entry is not None and self._has_found(self._fold.feed(entry)):
                return
        for rest in assembler.end():
            if self._has_found(self._fold.feed(rest)):
                return
        self._has_found(self._fold.rest())

    def command(self) -> Command | None:
        """The command that sends the message again, or the request that it answers."""
        if self._sent is None:
            return None
        before = self._before
        return command(
            self._header,
            self._sent.frame,
            self._sent.posted,
            None if before is None else before.frame,
            None if before is None else before.posted,
        )

    def _has_found(self, several: tuple[Seen, ...]) -> bool:
        for seen in several:
            message = seen.message
            frame = next((frame for frame in message.frames if frame.seq == self._number), None)
            if frame is not None:
                self._take(seen, frame)
                return True
            if isinstance(message, Request) and message.sender == "client" and message.method == "initialize":
                self._begun[seen.session.number] = _sent(message.frames[0], seen.http)
        return False

    def _take(self, seen: Seen, frame: Frame) -> None:
        self.frame = frame
        exchange = seen.exchange
        if frame.dir == "c2s":
            self._sent = _sent(frame, seen.http)
        elif exchange is not None and exchange.request.sender == "client":
            self._sent = _sent(exchange.request.frames[0], exchange.http)
        # An `initialize` needs no `initialize` before it.
        begun = self._begun.get(seen.session.number)
        if self._sent is not None and begun is not None and begun.frame.seq < self._sent.frame.seq:
            self._before = begun


def _sent(frame: Frame, http: HttpExchange | None) -> _Sent:
    return _Sent(frame, None if http is None else posted_by(http, frame.raw))


def number_of(text: str | None) -> int:
    """The frame of `--frame`.

    Raises:
        CaptureError: it is missing, or no single number.
    """
    if text is None:
        raise CaptureError("--as needs --frame N, the message to print")
    if not (text.isascii() and text.isdecimal()) or len(text) > 15:
        raise CaptureError(f"--as takes a single frame, such as --frame 3, not {text!r:.40}")
    return int(text)
