"""Redacts the bytes of frames and of stderr without changing the verdicts of the frames.

JSON is edited in place. Text that cannot be parsed is replaced whole, because any part of it may be secret. If the user
keeps such text, it is searched as plain text.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from captures.envelope import MAX_READER_JUDGED_BYTES, judge
from captures.exact_judge import is_too_large_to_judge, nesting_depth
from captures.limits import MAX_JUDGED_DEPTH, MAX_STRUCTURAL_CHARS
from captures.verdict import UNJUDGED, Direction, Unit
from mcpproxy.sharing.fragments import secrets_in_fragment
from mcpproxy.sharing.json_places import NotJson
from mcpproxy.sharing.kingfisher import SearchLimitReached, Secret
from mcpproxy.sharing.redaction import Redactor, Replacement

BOM: Final = "\ufeff"
_HARMLESS_LINE: Final = re.compile(
    r"[ \t\r\n\v\f]*|[ \t]*content-length:[ \t]*[0-9]{1,15}[ \t\r;,]*"
    r"|content-type: ?application/vscode-jsonrpc;? ?charset=utf-?8\r*",
    re.IGNORECASE,
).fullmatch
"""Matches blank lines, and headers of the Language Server Protocol."""
_JSON_PUNCTUATION: Final = frozenset('{}[]",')
_PROBLEM_FORMATS: Final = (b"%b", b"\xef\xbb\xbf%b", b"\xff%b", b'{"%b', b"[" * (MAX_JUDGED_DEPTH + 1) + b"%b")
"""Formats for a pseudonym, one for each problem to keep: not JSON, a byte order mark, not UTF-8, torn, and too deep."""


class RedactedBytes(NamedTuple):
    """Redacted bytes."""

    raw: bytes
    replacements: list[Replacement]
    unparsed_reason: str = ""
    """The reason why all bytes were replaced, or searched as plain text; empty if they were parsed."""
    is_same: bool = True
    """Whether the frame's own verdict is unchanged: the same kind, error code and problem."""


class FrameRedactor:
    """Redacts frames for one share."""

    def __init__(self, redactor: Redactor, *, keep_unparsed: bool) -> None:
        self._redactor = redactor
        self._keeps_unparsed = keep_unparsed

    def redact_frame(
        self,
        raw: bytes,
        direction: Direction,
        unit: Unit,
        *,
        whole: bool,
        is_partial: bool = False,
        event: str | None = None,
    ) -> RedactedBytes:
        """Redact a frame; see `captures.frame.Frame` for the meaning of the arguments."""

        def verdict(raw: bytes) -> object:
            if event:
                return UNJUDGED.kind
            envelope = judge(raw, direction, unit, whole=whole, limit=MAX_READER_JUDGED_BYTES)
            return envelope.kind, envelope.code, envelope.problem

        if not raw:
            return RedactedBytes(raw, [])
        original_verdict = verdict(raw)
        reason = "parts of it are missing" if is_partial else _why_unparsed(raw)
        replacements: list[Replacement] = []
        if not reason:
            try:
                text = raw.decode()
                start = len(BOM) if text.startswith(BOM) else 0
                new_raw = (text[:start] + self._redactor.redact_document(text[start:], replacements)).encode(
                    "utf-8", "surrogatepass"
                )
                return RedactedBytes(new_raw, replacements, is_same=verdict(new_raw) == original_verdict)
            except (NotJson, UnicodeError):
                reason = "not JSON"
            except SearchLimitReached as error:
                reason = str(error)
        new_raw, replacements = raw, []
        for new_raw, replacements in self._unparsed_candidates(raw):
            if verdict(new_raw) == original_verdict:
                return RedactedBytes(new_raw, replacements, reason)
        return RedactedBytes(new_raw, replacements, reason, is_same=False)

    def redact_line(self, raw: bytes) -> RedactedBytes:
        """Redact a line of stderr, or a part of a frame, without parsing it."""
        return RedactedBytes(*list(self._unparsed_candidates(raw))[-1], "stderr")

    def _unparsed_candidates(self, raw: bytes) -> Iterator[tuple[bytes, list[Replacement]]]:
        """Yields candidates to replace bytes that were not parsed, from the most informative to the most general."""
        text = raw.decode("utf-8", "surrogateescape")
        if _HARMLESS_LINE(text):
            yield raw, []
            return
        if self._keeps_unparsed:
            replacements: list[Replacement] = []
            yield self._redactor.redact_text(text, replacements).encode("utf-8", "surrogateescape"), replacements
            return
        if text.lstrip(" \t\r")[:1] in _JSON_PUNCTUATION:
            replacements = []
            yield (
                self._redactor.replace_secrets(text, secrets_in_fragment(text), replacements).encode(
                    "utf-8", "surrogateescape"
                ),
                replacements,
            )
        replacements = []
        pseudonym = self._redactor.replace_secrets(text, [Secret(0, len(text), "unparsed")], replacements).encode(
            "utf-8", "surrogateescape"
        )
        for template in _PROBLEM_FORMATS if replacements else (b"%b",):
            yield template % pseudonym, replacements
        if len(raw) > MAX_READER_JUDGED_BYTES:
            yield pseudonym.ljust(len(raw), b"."), replacements
        elif is_too_large_to_judge(raw, MAX_READER_JUDGED_BYTES):
            yield pseudonym.ljust(len(pseudonym) + MAX_STRUCTURAL_CHARS + 1, b","), replacements
        yield pseudonym, replacements


def _why_unparsed(raw: bytes) -> str:
    if len(raw) > MAX_READER_JUDGED_BYTES:
        return "too large"
    return "nested too deeply" if nesting_depth(raw) > MAX_JUDGED_DEPTH else ""
