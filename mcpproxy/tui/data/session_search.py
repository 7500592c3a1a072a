"""Session search: counts the messages with a text in whole captures, as fast as their bytes can be searched.

The count is the number of rows that the filter `text:…` selects in the traffic of the capture. Only lines that may
contain the text are parsed. If a capture has something that makes lines and messages differ, such as damage, giant
frames, or messages that span lines, it is read again as every command reads it. Memory is bounded by a few chunks.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from analysis.conversation.assembly import Assembly
from analysis.facts import raw_of
from analysis.filter.text_search import TextSearch
from captures.cutting import version_of
from captures.damage import Damage
from captures.frame import Frame
from captures.reader import Capture, open_capture
from captures.record import LINE_START, MAX_LINE_BYTES, Record, raw_bytes, values_of
from captures.tail import Tail
from captures.versions import FORMAT_VERSION

CHUNK_BYTES: Final = 2 << 20
"""How many bytes are read at a time."""
MAX_KEPT_MATCHES: Final = 30
"""How many messages of a capture are kept with their excerpts."""
MAX_SUBJECT_CHARS: Final = 100
"""The maximum length of what says which message it is, in characters."""
_WORD: Final = re.compile(r"[\w./@+-][\w./:@+-]*")
_PART: Final = b'"rec":"part"'


class _NeedsFullReading(Exception):
    """The lines of a capture do not show how many messages contain the text; all of it must be read."""


def text_term(text: str) -> str:
    """Returns the filter that selects the messages with a text."""
    if _WORD.fullmatch(text):
        return f"text:{text}"
    return 'text:"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


class MatchedMessage(NamedTuple):
    """A message with the text."""

    seq: int
    """The number of its frame."""
    dir: str
    """The direction in which it crossed: `c2s` or `s2c`."""
    subject: str
    """Its method or, if it has none, its kind and id. Untrusted."""
    excerpt: str
    """The text around the first occurrence; empty if it is far inside. Untrusted."""


class Matches:
    """The messages of a capture with a text, so far."""

    def __init__(self, search: TextSearch) -> None:
        """Start without messages."""
        self.count = 0
        self.first: list[MatchedMessage] = []
        """The first `MAX_KEPT_MATCHES` of them."""
        self._search = search

    def note(self, raw: bytes, seq: int, direction: str, kind: object, id_: object, method: object) -> None:
        """Count a message.

        Args:
            raw: its bytes.
            seq: the number of its frame.
            direction: the direction in which it crossed.
            kind: its kind.
            id_: its id, None without one.
            method: its method, None without one.
        """
        self.count += 1
        if len(self.first) < MAX_KEPT_MATCHES:
            subject = method or (f"{kind} #{id_}" if id_ is not None else kind)
            text = str(subject)[:MAX_SUBJECT_CHARS]
            self.first.append(MatchedMessage(seq, direction, text, self._search.excerpt(raw)))


def count_messages(path: Path, search: TextSearch, report: Callable[[Matches], None]) -> Matches:
    """Count the rows of a capture that contain a text, up to its present end.

    Args:
        path: the capture.
        search: the text.
        report: called with the matches so far after each chunk.

    Raises:
        NotACapture, NewerFormat: as for `Capture`.
        OSError: the file cannot be read.
    """
    matches = Matches(search)
    try:
        for lines in _lines_in(path):
            _count_in(lines, search, matches)
            report(matches)
    except _NeedsFullReading:
        return _count_thoroughly(path, search, report)
    return matches


def _lines_in(path: Path) -> Iterator[bytes]:
    """Yields the whole lines of each chunk."""
    capture = Capture(path)
    for segment in capture.segments:
        with open_capture(segment) as file:
            rest, is_first = b"", True
            while chunk := file.read(CHUNK_BYTES):
                end = chunk.rfind(b"\n") + 1
                lines, rest = (rest + chunk[:end], chunk[end:]) if end else (b"", rest + chunk)
                if len(rest) > MAX_LINE_BYTES:
                    raise _NeedsFullReading
                if is_first and lines:
                    is_first = False
                    _check_header(lines[: lines.index(b"\n")], capture.header)
                yield lines
            if rest.count(LINE_START) > 1:
                raise _NeedsFullReading
            if rest and values_of(rest, orjson.loads) is not None:
                yield rest


def _check_header(line: bytes, header: Record) -> None:
    values = values_of(line, orjson.loads)
    record = Record(0, "header", 0, values or {})
    is_usual = values is not None and values["rec"] == "header" and version_of(record) == FORMAT_VERSION
    if not is_usual or record.members.get("capture") != header.members.get("capture"):
        raise _NeedsFullReading


def _count_in(lines: bytes, search: TextSearch, matches: Matches) -> None:
    if _PART in lines:
        raise _NeedsFullReading
    for start, end in search.candidate_lines(lines):
        found = _message_with_text(lines[start:end], search)
        if found is not None:
            raw, values = found
            matches.note(raw, values["seq"], values["dir"], values.get("kind"), values.get("id"), values.get("method"))


def _message_with_text(line: bytes, search: TextSearch) -> tuple[bytes, dict[str, Any]] | None:
    """Returns the bytes of the message in a line, and the members of its record, if it contains the text."""
    values = values_of(line, orjson.loads) if len(line) < MAX_LINE_BYTES else None
    if values is None:
        raise _NeedsFullReading
    if values["rec"] != "frame":
        return None
    unit = values.get("unit", "line")
    if values.get("dir") not in ("c2s", "s2c") or unit not in ("line", "http_body", "sse_event") or "parts" in values:
        raise _NeedsFullReading
    raw = raw_bytes(values)
    if raw is None or not search.is_in(raw):
        return None
    if unit == "line" and values.get("kind") in ("invalid", "unjudged"):
        raise _NeedsFullReading  # it may be a line of a longer message
    return raw, values


def _count_thoroughly(path: Path, search: TextSearch, report: Callable[[Matches], None]) -> Matches:
    """Count the messages after joining their lines and parts; several messages in one frame count once."""
    assembly, matches, last_seq = Assembly(), Matches(search), -1
    with Tail(path) as tail:
        while True:
            steps = tail.assembled_step(CHUNK_BYTES)
            messages = [message for _, item in steps for message in _messages_of(item, assembly)]
            is_over = tail.has_ended or (tail.is_at_end and not steps)
            if is_over:
                messages += assembly.finish()
            for message in messages:
                frame, raw = message.frames[0], raw_of(message.frames)
                if frame.seq != last_seq and search.is_in(raw):
                    verdict = frame.verdict
                    matches.note(raw, frame.seq, frame.dir, verdict.kind, verdict.id, verdict.method)
                    last_seq = frame.seq
            report(matches)
            if is_over:
                return matches


def _messages_of(item: Frame | Record | Damage | None, assembly: Assembly) -> list:  # type: ignore[type-arg]
    if (
        isinstance(item, Damage)
        or (item is not None and item.skipped)
        or (isinstance(item, Record) and item.rec == "gap")
    ):
        assembly.note_loss()
    return [*assembly.feed(item)] if isinstance(item, Frame) else []
