"""Separates a word from the punctuation of its sentence, as in `Write to ann@acme.io. Thanks`."""

from typing import Final

_PUNCTUATION: Final = ".,;:!?…)]}*'\"’”»›`"
"""Characters that may come between the last word of a sentence and the blank after it."""
_AFTER_PUNCTUATION: Final = frozenset("\"'’”»›`)]}*\x1f,;")
"""Characters, other than a blank, that may follow this punctuation."""
_ENCLOSING_PAIRS: Final = frozenset({'""', "''", "``", "‘’", "“”", "„“", "«»", "><"})
"""Pairs of characters around a whole value, such as a password that ends with `!`."""


def end_of_word(text: str, start: int, end: int) -> int:
    """Returns the end of a word without the punctuation of a sentence that ends with it.

    Args:
        text: the text.
        start: the start of the word.
        end: the end of the word, perhaps with punctuation.

    Returns:
        The end without punctuation; `end` if the punctuation is a part of the word, or there is nothing else.
    """
    if text[end - 1] not in _PUNCTUATION:
        return end
    next_char = text[end : end + 1]
    is_enclosed = start > 0 and text[start - 1] + next_char in _ENCLOSING_PAIRS
    if is_enclosed or not (next_char == "" or next_char.isspace() or next_char in _AFTER_PUNCTUATION):
        return end
    return start + len(text[start:end].rstrip(_PUNCTUATION)) or end
