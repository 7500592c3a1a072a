"""Redacts the bytes of frames and of stderr without changing the verdicts of the frames.

JSON is edited in place. Text that cannot be parsed is replaced whole, because any part of it may be secret. If the user
keeps such text, it is searched as plain text.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from captures.envelope import MAX_READER_JUDGED_BYTES, judge
from captures.exact_judge import is_too_large_to_judge, nesting_depth
from captures.limits import MAX_STRUCTURAL_CHARS, TOO_DEEP
from captures.verdict import UNJUDGED, Direction, Unit
from mcpproxy.sharing.fragments import secrets_in_fragment
from mcpproxy.sharing.json_places import NotJson
from mcpproxy.sharing.kingfisher import SearchLimitReached, Secret
from mcpproxy.sharing.redaction import Redactor, Replacement

BOM: Final = "\ufeff"
_HARMLESS: Final = re.compile(
    r"[ \t\r\n\v\f]*|[ \t]*content-length:[ \t]*[0-9]{1,15}[ \t\r;,]*"
    r"|content-type: ?application/vscode-jsonrpc;? ?charset=utf-?8\r*",
    re.IGNORECASE,
).fullmatch
"""Matches blank lines, and headers of the Language Server Protocol."""
_JSON_PUNCTUATION: Final = frozenset('{}[]",')
_FORMS: Final = (b"%b", b"\xef\xbb\xbf%b", b"\xff%b", b'{"%b', b"[" * (TOO_DEEP + 1) + b"%b")
"""Formats for a pseudonym, one for each problem to keep: not JSON, a byte order mark, not UTF-8, torn, and too deep."""


class RedactedBytes(NamedTuple):
    """Redacted bytes."""

    raw: bytes
    replacements: list[Replacement]
    unparsed: str = ""
    """The reason why all bytes were replaced, or searched as plain text; empty if they were parsed."""
    is_same: bool = True
    """Whether the frame's own verdict is unchanged: the same kind, error code and problem."""


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
    ) -> RedactedBytes:
        """Redacts a frame; see `captures.frame.Frame` for the meaning of the arguments."""

        def verdict(raw: bytes) -> object:
            if event:
                return UNJUDGED.kind
            judged = judge(raw, direction, unit, whole=whole, limit=MAX_READER_JUDGED_BYTES)
            return judged.kind, judged.code, judged.problem

        if not raw:
            return RedactedBytes(raw, [])
        before = verdict(raw)
        why = "parts of it are missing" if is_partial else _why_unparsed(raw)
        made: list[Replacement] = []
        if not why:
            try:
                text = raw.decode()
                start = len(BOM) if text.startswith(BOM) else 0
                new = (text[:start] + self._redactor.document(text[start:], made)).encode("utf-8", "surrogatepass")
                return RedactedBytes(new, made, is_same=verdict(new) == before)
            except (NotJson, UnicodeError):
                why = "not JSON"
            except SearchLimitReached as error:
                why = str(error)
        new, made = raw, []
        for new, made in self._unparsed(raw):
            if verdict(new) == before:
                return RedactedBytes(new, made, why)
        return RedactedBytes(new, made, why, is_same=False)

    def line(self, raw: bytes) -> RedactedBytes:
        """Redacts a line of stderr, or a part of a frame, without parsing it."""
        return RedactedBytes(*list(self._unparsed(raw))[-1], "stderr")

    def _unparsed(self, raw: bytes) -> Iterator[tuple[bytes, list[Replacement]]]:
        """Yields candidates to replace bytes that were not parsed, from the most informative to the most general."""
        text = raw.decode("utf-8", "surrogateescape")
        if _HARMLESS(text):
            yield raw, []
            return
        if self._keeps:
            made: list[Replacement] = []
            yield self._redactor.text(text, made).encode("utf-8", "surrogateescape"), made
            return
        if text.lstrip(" \t\r")[:1] in _JSON_PUNCTUATION:
            made = []
            yield (
                self._redactor.replaced(text, secrets_in_fragment(text), made).encode("utf-8", "surrogateescape"),
                made,
            )
        made = []
        tag = self._redactor.replaced(text, [Secret(0, len(text), "unparsed")], made).encode("utf-8", "surrogateescape")
        for form in _FORMS if made else (b"%b",):
            yield form % tag, made
        if len(raw) > MAX_READER_JUDGED_BYTES:
            yield tag.ljust(len(raw), b"."), made
        elif is_too_large_to_judge(raw, MAX_READER_JUDGED_BYTES):
            yield tag.ljust(len(tag) + MAX_STRUCTURAL_CHARS + 1, b","), made
        yield tag, made


def _why_unparsed(raw: bytes) -> str:
    if len(raw) > MAX_READER_JUDGED_BYTES:
        return "too large"
    return "nested too deeply" if nesting_depth(raw) > TOO_DEEP else ""
