"""`mcpproxy show --frame N --as`: prints a message as `tui` copies it, or lines of stderr."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from analysis.conversation.call import MessageContext
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Request
from analysis.reading import Reading, Step
from captures.errors import CaptureError
from captures.frame import Frame
from captures.reader import Capture
from captures.record import Record, raw_bytes
from mcpproxy.cli.check_warnings import say_damage
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.messages import parse_frame_range
from mcpproxy.wording.resending import Command, PostedMessage, command, posted_message, pretty_json, raw_text

FORMS = ("curl", "shell", "message")


def show_as(paths: list[Path], frames: tuple[int, int], form: str) -> int:
    """Print frames in a form; returns 2 if they do not have it, or the capture is damaged or cannot be read.

    Args:
        paths: the captures; more than one is an error.
        frames: the numbers of the first and the last frame; both are the same unless the form is `message`.
        form: one of FORMS.
    """
    if len(paths) != 1:
        return fail(f"--as prints a frame of a single capture, not of {len(paths):,}")
    number = frames[0]
    if form == "message":
        return _print_texts(paths[0], frames)
    source = _CaptureSource(paths[0])
    search = _FrameSearch(source, number)
    if search.frame is None:
        return _report_not_found(source, frames, form)
    resend_command = search.command()
    if resend_command is None:
        return fail(
            f"no command sends frame {number} again: the server sent it, and its request is not in the capture, or its "
            "HTTP request is unknown, or of the older transport, which answers on another stream; use --as message"
        )
    if resend_command.kind != form:
        transport = "HTTP" if resend_command.kind == "curl" else "stdio"
        return fail(f"frame {number} was sent over {transport}: use --as {resend_command.kind}")
    sys.stdout.write(f"{resend_command.text}\n")
    if resend_command.has_placeholders:
        sys.stdout.flush()
        say("replace each <…> in the command before you run it")
    return source.exit_code


def _print_texts(path: Path, frames: tuple[int, int]) -> int:
    """Print the messages and the lines of stderr in a range; returns 2 if there are none, or the capture is damaged."""
    source = _CaptureSource(path)
    has_printed = is_piece = False
    for step in source:
        entry = step.item
        if not isinstance(entry, Frame | Record) or not frames[0] <= entry.seq <= frames[1]:
            continue
        text = _copied_text(entry)
        if text is None:
            continue
        separator = "\n" if is_piece and isinstance(entry, Frame) else ""
        # A long line of stderr spans several records, without a line break between them.
        is_piece = isinstance(entry, Record) and entry.members.get("delim") == ""
        sys.stdout.write(f"{separator}{text}" + ("" if is_piece else "\n"))
        has_printed = True
        if frames[0] == frames[1]:
            break
    if not has_printed:
        return _report_not_found(source, frames, "message")
    sys.stdout.write("\n" if is_piece else "")
    return source.exit_code


def _copied_text(entry: Frame | Record) -> str | None:
    """Return a message or a line of stderr, escaped for a terminal; None for other records."""
    if isinstance(entry, Frame):
        return pretty_json(entry.raw) or raw_text(entry.raw)
    raw = raw_bytes(entry.members) if entry.rec == "stderr" else None
    return None if raw is None else raw_text(raw)


def _report_not_found(source: "_CaptureSource", frames: tuple[int, int], form: str) -> int:
    """Report that the named frames do not exist, or have no such form; returns the exit code."""
    number, last_number = frames
    if number != last_number:
        return fail(f"none of the records from {number} to {last_number} is a message or a line of stderr")
    if number > source.last_seq:
        return fail(f"there is no frame {number} in {source.path}; the last record is {source.last_seq}")
    return fail(
        f"record {number} is not a frame, so it cannot be printed as {form}; to see what it is, use --frame {number} "
        "without --as"
    )


class _CaptureSource:
    """A capture that is being read; its first damage is reported on stderr."""

    def __init__(self, path: Path) -> None:
        """Open the capture.

        Raises:
            CaptureError: the capture cannot be read.
        """
        self.path = path
        self.capture = Capture(path)
        self.exit_code = int(Exit.FINE)
        self.last_seq = -1
        """The number of the last record read so far."""
        self._reading = Reading(self.capture)

    def __iter__(self) -> Iterator[Step]:
        for step in self._reading.to_end():
            damage = self._reading.damage_in(step)
            if damage is not None:
                say_damage(damage, self.path)
                self.exit_code = int(Exit.USAGE)
            if isinstance(step.record, Frame | Record):
                self.last_seq = step.record.seq
            yield step


class _SentFrame(NamedTuple):
    """A frame, and the HTTP request that carried it, if there was one."""

    frame: Frame
    http_request: PostedMessage | None


class _FrameSearch:
    """Searches a capture for a frame, and for what is needed to send it again; reads nothing after the frame."""

    def __init__(self, source: _CaptureSource, number: int) -> None:
        self._header = source.capture.header.members
        self._number = number
        self._initialize_frames: dict[int, _SentFrame] = {}
        """The `initialize` request of each session, by session number."""
        self.frame: Frame | None = None
        self._frame_to_send: _SentFrame | None = None
        """The frame that the command sends: the one searched for, or the request that it answers."""
        self._initialize_frame: _SentFrame | None = None
        for step in source:
            if self._find_in(step.messages):
                return

    def command(self) -> Command | None:
        """Return the command that sends the message, or the request that it answers, again; None if there is none."""
        if self._frame_to_send is None:
            return None
        handshake = self._initialize_frame
        return command(
            self._header,
            self._frame_to_send.frame,
            self._frame_to_send.http_request,
            None if handshake is None else handshake.frame,
            None if handshake is None else handshake.http_request,
        )

    def _find_in(self, contexts: tuple[MessageContext, ...]) -> bool:
        for context in contexts:
            message = context.message
            frame = next((frame for frame in message.frames if frame.seq == self._number), None)
            if frame is not None:
                self._on_frame_found(context, frame)
                return True
            if isinstance(message, Request) and message.sender == "client" and message.method == "initialize":
                self._initialize_frames[context.session.number] = _sent_frame(message.frames[0], context.http)
        return False

    def _on_frame_found(self, context: MessageContext, frame: Frame) -> None:
        self.frame = frame
        call = context.answered
        if frame.dir == "c2s":
            self._frame_to_send = _sent_frame(frame, context.http)
        elif call is not None and call.request.sender == "client":
            self._frame_to_send = _sent_frame(call.request.frames[0], call.http)
        # An `initialize` needs no `initialize` before it.
        handshake = self._initialize_frames.get(context.session.number)
        if (
            self._frame_to_send is not None
            and handshake is not None
            and handshake.frame.seq < self._frame_to_send.frame.seq
        ):
            self._initialize_frame = handshake


def _sent_frame(frame: Frame, http: HttpExchange | None) -> _SentFrame:
    return _SentFrame(frame, None if http is None else posted_message(http, frame.raw))


def parse_frames(text: str | None, form: str) -> tuple[int, int]:
    """Parse the value of `--frame`; returns the numbers of the first and the last frame.

    Raises:
        CaptureError: the value is missing, or is neither a number nor, for messages, a range.
    """
    if text is None:
        raise CaptureError("--as needs --frame N, the message to print")
    frames = parse_frame_range(text)
    if form != "message" and frames[0] != frames[1]:
        raise CaptureError(f"--as {form} takes a single frame, such as --frame 3, not {text!r:.40}")
    return frames
