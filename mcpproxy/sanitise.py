r"""Makes untrusted text safe to show on a screen.

Everything that mcpproxy shows but did not write itself goes through here: payloads, stderr of a server, file names,
errors. The promise: the result moves the cursor only forward, sets no title, colour or clipboard, hides nothing,
reverses nothing, and encodes to UTF-8. Anything that could do so becomes a visible escape: `\x1b`, `\n`, `\u202e`,
`\U000e0041`.

A backslash itself stays as it is, so that paths and JSON remain readable; so the four characters `\x1b` in a payload
look like an escaped ESC. This is for the eye; the exact bytes are in the capture.

On the path of `mcpproxy run`: `unicodedata` is loaded only for text that is not ASCII.
"""

from __future__ import annotations

from collections.abc import Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MAX_CELL_CHARS: Final = 1024
"""How many characters of an untrusted text one cell, line or message shows."""
MARKS_IN_A_ROW: Final = 8
"""Combining marks allowed on one character; ten thousand of them would paint over the lines above."""

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

# str.isprintable() refuses Cc, Cf, Co, Cs, Cn, Zl and Zp: controls, format characters (bidi, zero-width, tags), private
# use, surrogates, unassigned, line separators. It lets these pass, although they show nothing
# (Default_Ignorable_Code_Point, and the blank Braille pattern).
_INVISIBLE: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    "\ufe00\ufe01\ufe02\ufe03\ufe04\ufe05\ufe06\ufe07\ufe08\ufe09\ufe0a\ufe0b\ufe0c\ufe0d"
)
_SELECTORS: Final = ("\U000e0100", "\U000e01ef")
# Selectors of text or emoji presentation: ordinary once after a symbol, a hidden alphabet anywhere else.
_PRESENTATION: Final = frozenset("\ufe0e\ufe0f")
# Spaces (Zs) that isprintable() refuses although they are only blank.
_SPACES: Final = frozenset(
    "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
)


def sanitise(text: str, limit: int | None = MAX_CELL_CHARS) -> str:
    """Returns `text` with everything that is not plainly visible replaced by escapes.

    Args:
        text: any string, lone surrogates included.
        limit: characters of the result, at least 1, counting the `…` in place of the text that was cut off; None for
            all. It bounds the cost, not the length of the text.
    """
    # Each character gives at least one, so no more than limit + 1 of them can matter.
    head = text if limit is None or len(text) <= limit else text[: limit + 1]
    if head.isascii() and head.isprintable():
        return head if limit is None or len(head) <= limit else head[: limit - 1] + "…"
    return _clipped(_pieces(head), limit)


def sanitise_bytes(raw: bytes, limit: int | None = MAX_CELL_CHARS) -> str:
    r"""The same for bytes that should be UTF-8; each byte that is not becomes `\xNN`."""
    # A character takes four bytes at most; a piece of one after the cut lies after the limit, too.
    head = raw if limit is None else raw[: 4 * limit + 4]
    return sanitise(head.decode("utf-8", "backslashreplace"), limit)


def escape(char: str) -> str:
    """One character as a visible escape."""
    code = ord(char)
    if code < 0x100:
        return _SHORT.get(char) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _clipped(pieces: Sequence[str], limit: int | None) -> str:
    """All pieces, or as many whole ones as leave room for a `…`: an escape is never cut in two."""
    whole = "".join(pieces)
    if limit is None or len(whole) <= limit:
        return whole
    size = 0
    for number, piece in enumerate(pieces):
        size += len(piece)
        if size > limit - 1:
            return "".join(pieces[:number]) + "…"
    return whole


def _pieces(text: str) -> list[str]:
    """Each character of `text`, or the escape that is shown for it."""
    pieces: list[str] = []
    # How many marks may still join the previous character: none at the start; none after a space, because a line may
    # begin after it; and none after an escape, because its last digit would carry them.
    room = 0
    before = ""
    for char in text:
        if not _is_visible(char):
            room, shown = 0, escape(char)
        elif char in _PRESENTATION:
            fits = room == MARKS_IN_A_ROW and _has_presentations(before)
            room, shown = (room - 1, char) if fits else (0, escape(char))
        elif _is_mark(char):
            room, shown = (room - 1, char) if room else (0, escape(char))
        else:
            room, shown = 0 if char == " " or char in _SPACES else MARKS_IN_A_ROW, char
        pieces.append(shown)
        before = char
    return pieces


def _is_visible(char: str) -> bool:
    if not char.isprintable():
        return char in _SPACES
    return char not in _INVISIBLE and not _SELECTORS[0] <= char <= _SELECTORS[1]


def _has_presentations(char: str) -> bool:
    """Whether `char` may come as text and as emoji. After a letter a selector would be a hidden bit."""
    return char in "#*0123456789ℹ" or not (char.isascii() or char.isalpha())


def _is_mark(char: str) -> bool:
    """Whether a terminal draws `char` onto the one before: combining marks, and jamo that end a Hangul syllable."""
    if char.isascii():
        return False
    from unicodedata import category

    return category(char)[0] == "M" or "\u1160" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7ff"
