"""Where a word ends, and the punctuation of its sentence begins, as in `Write to ann@acme.io. Thanks`."""

from typing import Final

_PUNCTUATION: Final = ".,;:!?…)]}*'\"’”»›`"
"""What may be between the last word of a sentence and the blank after it."""
_CLOSING: Final = frozenset("\"'’”»›`)]}*\x1f,;")
"""What may follow this punctuation, other than a blank."""
_ENCLOSING: Final = frozenset({'""', "''", "``", "‘’", "“”", "„“", "«»", "><"})
"""What is between these characters is all of a value, such as a password that ends with `!`."""


def end_of_word(text: str, start: int, end: int) -> int:
    """Where a word ends without the punctuation of the sentence that ends with it.

    Args:
        text: the text.
        start: where the word starts.
        end: where it ends, perhaps with punctuation.

    Returns:
        Where it ends without; `end` if the punctuation is a part of the word, or if nothing else is in it.
    """
    if text[end - 1] not in _PUNCTUATION:
        return end
    after = text[end : end + 1]
    is_enclosed = start > 0 and text[start - 1] + after in _ENCLOSING
    if is_enclosed or not (after == "" or after.isspace() or after in _CLOSING):
        return end
    return start + len(text[start:end].rstrip(_PUNCTUATION)) or end
