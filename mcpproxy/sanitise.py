r"""Makes untrusted text safe to show on a screen.

Everything that mcpproxy shows but did not write itself goes through here: payloads, stderr of a server, file names,
errors. The promise: the result moves the cursor only forward, sets no title, colour or clipboard, hides nothing,
reverses nothing, and encodes to UTF-8. Anything that could do so becomes a visible escape: `\x1b`, `\n`, `\u202e`,
`\U000e0041`.

A backslash itself stays as it is, so that paths and JSON remain readable. The four characters `\x1b` in a payload
therefore look like an escaped ESC: the result is for people to read, and the exact bytes are in the capture.

`mcpproxy run` loads this module when it starts, so `unicodedata` is loaded only for text that is not ASCII.
"""

from __future__ import annotations

from collections.abc import Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MAX_CELL_CHARS: Final = 1024
"""The maximum number of characters of an untrusted text that one cell, line or message shows."""
MAX_EMOJI_JOINERS: Final = 3
"""The maximum number of emoji that are joined to another, as in a family of four; no line is broken between them."""
MAX_COMBINING_MARKS: Final = 8
"""The maximum number of combining marks on one character; ten thousand would paint over the lines above."""

_SHORT_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

# str.isprintable() refuses Cc, Cf, Co, Cs, Cn, Zl and Zp: controls, format characters (bidi, zero-width, tags), private
# use, surrogates, unassigned, line separators. It lets these pass, although they show nothing
# (Default_Ignorable_Code_Point, and the blank Braille pattern).
_INVISIBLE_CHARS: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    "\ufe00\ufe01\ufe02\ufe03\ufe04\ufe05\ufe06\ufe07\ufe08\ufe09\ufe0a\ufe0b\ufe0c\ufe0d"
)
_SELECTORS: Final = ("\U000e0100", "\U000e01ef")
# Selectors of text or emoji presentation: one is ordinary after a symbol, but anywhere else they can hide text.
_PRESENTATION_SELECTORS: Final = frozenset("\ufe0e\ufe0f")
EMOJI_JOINER: Final = "\u200d"
"""Stays as it is between two emoji, of which it makes one; anywhere else, it could hide text."""
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
    # Each character yields at least one, so at most limit + 1 of them matter.
    head = text if limit is None or len(text) <= limit else text[: limit + 1]
    if head.isascii() and head.isprintable():
        return head if limit is None or len(head) <= limit else head[: limit - 1] + "…"
    return _clipped(_pieces(head), limit)


def sanitise_bytes(raw: bytes, limit: int | None = MAX_CELL_CHARS) -> str:
    r"""Does for bytes what `sanitise` does for text; each byte that is not UTF-8 becomes `\xNN`."""
    # A character has at most four bytes, so a character that this cut splits is beyond the limit anyway.
    head = raw if limit is None else raw[: 4 * limit + 4]
    return sanitise(head.decode("utf-8", "backslashreplace"), limit)


def escape(char: str) -> str:
    """Returns one character as a visible escape."""
    code = ord(char)
    if code < 0x100:
        return _SHORT_ESCAPES.get(char) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _clipped(pieces: Sequence[str], limit: int | None) -> str:
    """Join all pieces, or as many whole ones as leave room for a `…`: an escape is never cut in two."""
    full_text = "".join(pieces)
    if limit is None or len(full_text) <= limit:
        return full_text
    size = 0
    for number, piece in enumerate(pieces):
        size += len(piece)
        if size > limit - 1:
            # An emoji that was cut off leaves no joiner behind.
            return "".join(pieces[:number]).rstrip(EMOJI_JOINER) + "…"
    return full_text


def _pieces(text: str) -> list[str]:
    """Each character of `text`, or the escape that is shown for it."""
    pieces: list[str] = []
    # The number of marks that may still join the previous character: none at the start; none after a space, because a
    # line may begin after it; and none after an escape, because its last digit would carry them.
    marks_left = 0
    joiners_left = MAX_EMOJI_JOINERS
    previous_char = ""
    for index, char in enumerate(text):
        if (
            joiners_left
            and char == EMOJI_JOINER
            and _is_emoji(previous_char)
            and _is_emoji(text[index + 1 : index + 2])
        ):
            marks_left, joiners_left, piece = 0, joiners_left - 1, char
        elif not _is_visible(char):
            marks_left, piece = 0, escape(char)
        elif char in _PRESENTATION_SELECTORS:
            is_ordinary = marks_left == MAX_COMBINING_MARKS and _has_presentations(previous_char)
            marks_left, piece = (marks_left - 1, char) if is_ordinary else (0, escape(char))
        elif _is_mark(char):
            marks_left, piece = (marks_left - 1, char) if marks_left else (0, escape(char))
        else:
            marks_left, piece = 0 if char == " " or char in _SPACES else MAX_COMBINING_MARKS, char
        if (
            joiners_left < MAX_EMOJI_JOINERS
            and EMOJI_JOINER not in (piece, previous_char)
            and not _modifies_emoji(char)
        ):
            joiners_left = MAX_EMOJI_JOINERS
        pieces.append(piece)
        # After an emoji, a selector belongs to it.
        if char != "\ufe0f" or not marks_left:
            previous_char = char
    return pieces


def _is_emoji(char: str) -> bool:
    """Whether `char` is an emoji, or a symbol that a selector makes one; an empty text is none."""
    return "\u2190" <= char <= "\u2bff" or "\U0001f000" <= char <= "\U0001faff"


def _modifies_emoji(char: str) -> bool:
    """Whether `char` changes the emoji before it: its skin tone, or its presentation."""
    return "\U0001f3fb" <= char <= "\U0001f3ff" or char in _PRESENTATION_SELECTORS


def _is_visible(char: str) -> bool:
    if not char.isprintable():
        return char in _SPACES
    return char not in _INVISIBLE_CHARS and not _SELECTORS[0] <= char <= _SELECTORS[1]


def _has_presentations(char: str) -> bool:
    """Whether `char` can be presented as text and as an emoji. After a letter, a selector would be a hidden bit."""
    return char in "#*0123456789ℹ" or not (char.isascii() or char.isalpha())


def _is_mark(char: str) -> bool:
    """Whether a terminal draws `char` onto the previous one, as with combining marks and jamo that end a syllable."""
    if char.isascii():
        return False
    from unicodedata import category

    return category(char)[0] == "M" or "\u1160" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7ff"
