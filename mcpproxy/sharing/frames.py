"""Redacts the bytes of frames, and of stderr, so that what the judges of frames say about them stays.

JSON is edited in place. What cannot be parsed is replaced whole, since nothing can vouch for it, unless the user keeps
it: then it is searched as plain text.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from captures.envelope import READER_LIMIT, judge
from captures.exact import nesting
from captures.frame import UNJUDGED, Direction, Unit
from captures.limits import TOO_DEEP
from mcpproxy.sharing.json_places import NotJson
from mcpproxy.sharing.redaction import Redactor, Replacement

BOM: Final = "\ufeff"
_HARMLESS: Final = re.compile(
    r"[ \t\r\n\v\f]*|[ \t]*content-length:[ \t]*[0-9]{1,15}[ \t\r;,]*", re.IGNORECASE
).fullmatch
"""Blank lines, and headers of the Language Server Protocol."""


class Redacted(NamedTuple):
    """Bytes that may be shared."""

    raw: bytes
    made: list[Replacement]
    unparsed: str = ""
    """Why all of it was replaced, or had to be searched as plain text; empty if it was parsed."""
    is_same: bool = True
    """Whether the frame by itself means what it meant: the same kind, id, method and problem."""


class FrameRedactor:
    """Redacts frames for one share."""

    def __init__(self, redactor: Redactor, *, keep_unparsed: bool) -> None:
        self._redactor = redactor
        self._keeps = keep_unparsed

    def frame(
        self,
        raw: bytes,
        direction: Direction,
        unit: Unit,
        *,
        whole: bool,
        is_partial: bool = False,
        event: str | None = None,
    ) -> Redacted:
        """The bytes of a frame; see `captures.frame.Frame` for what the arguments mean."""

        def verdict(raw: bytes) -> object:
            return UNJUDGED if event else judge(raw, direction, unit, whole=whole, limit=READER_LIMIT)

        if not raw:
            return Redacted(raw, [])
        before = verdict(raw)
        why = "parts of it are missing" if is_partial else _why_unparsed(raw)
        made: list[Replacement] = []
        if not why:
            try:
                text = raw.decode()
                start = len(BOM) if text.startswith(BOM) else 0
                new = (text[:start] + self._redactor.document(text[start:], made)).encode("utf-8", "surrogatepass")
                return Redacted(new, made, is_same=verdict(new) == before)
            except (NotJson, UnicodeError):
                why = "it is not JSON"
        made.clear()
        new = raw
        for candidate in self._unparsed(raw, made):
            new = candidate
            if verdict(new) == before:
                return Redacted(new, made, why)
        return Redacted(new, made, why, is_same=False)

    def line(self, raw: bytes) -> Redacted:
        """A line of stderr, which is never parsed."""
        made: list[Replacement] = []
        return Redacted(next(self._unparsed(raw, made)), made, "stderr")

    def _unparsed(self, raw: bytes, made: list[Replacement]) -> Iterator[bytes]:
        """Bytes in place of some that were not parsed: the best first, the most general last."""
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = raw.decode("utf-8", "surrogateescape")
        if _HARMLESS(text):
            yield raw
            return
        if self._keeps:
            yield self._redactor.text(text, made).encode("utf-8", "surrogateescape")
            return
        tag = self._redactor.whole("unparsed", text, made)
        if tag == text:
            yield raw
            return
        plain = tag.encode("utf-8", "surrogateescape")
        yield plain
        yield BOM.encode() + plain
        yield b"\xff" + plain
        # Torn JSON, JSON that is too deep, and frames that are too large to be judged.
        yield b'{"' + plain
        yield b"[" * (TOO_DEEP + 1) + plain
        if len(raw) > READER_LIMIT:
            yield plain.ljust(len(raw), b".")
        yield plain


def _why_unparsed(raw: bytes) -> str:
    if len(raw) > READER_LIMIT:
        return "it is too large"
    return "it is nested too deeply" if nesting(raw) > TOO_DEEP else ""
