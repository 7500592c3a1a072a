"""Finds out whether values in a message were replaced by pseudonyms, as in a redacted copy."""

from typing import Final

from captures.pseudonyms import PSEUDONYM

_MAX_BYTES: Final = 1 << 20
"""How much of a message is searched."""


def has_pseudonym(raw: bytes) -> bool:
    """Whether a message has a pseudonym in it, as far as pseudonyms differ from other values."""
    from analysis.comparison.values.varying_text import normalised_text  # 15 ms, for redacted copies only

    text = raw[:_MAX_BYTES].decode("utf-8", "replace")
    if PSEUDONYM.search(text):
        return True
    rules: set[str] = set()
    normalised_text(text, lambda rule, _text: rules.add(rule))
    return "redaction tag" in rules
