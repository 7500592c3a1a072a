"""Recognises placeholders for secrets, such as `YOUR_API_KEY`, `<token>`, `${TOKEN}` and `sk-xxxx`."""

import re
from typing import Final

from mcpproxy.sharing.word_lists import PLACEHOLDER_NOUNS, PLACEHOLDER_VERBS, PLACEHOLDERS

_MAX_CHARS: Final = 100
_FORM: Final = re.compile(
    r"(?i)[*•.x\s]*"
    r"|[a-z\s]{0,20}(?:redacted|hidden|masked)[a-z\s]{0,20}"
    r"|[<\[{$%]{1,3}[a-z_\s.-]{0,60}[>\]}%]{0,3}"
    r"|(?:[a-z]{1,12}[_-]){0,4}(?:[x*•._-]{4,}|\.{2,}|…)|[a-z]{0,8}x{8,}"
).fullmatch
_WORDS: Final = re.compile(r"[a-z]{1,30}(?:[_ -][a-z]{1,30}){0,5}").fullmatch


def is_placeholder(value: str) -> bool:
    """Whether a value is a placeholder for a secret that was removed, or has yet to be filled in."""
    if len(value) > _MAX_CHARS:
        return not value.strip("xX*•. \t\r\n")
    lower_value = value.lower()
    if lower_value in PLACEHOLDERS or _FORM(value) is not None:
        return True
    if not _WORDS(lower_value):
        return False
    words = re.split("[_ -]", lower_value)
    # `your-acme-api-key`, `xoxb-your-token-here`, `insert_client_secret`, `replace-with-token`
    return words[-1] in PLACEHOLDER_NOUNS and ("your" in words[:2] or words[0] in PLACEHOLDER_VERBS)
