"""Finds passwords in a text: values after `password:`, `secret=`, `token=` and similar names, and values of cookies.

After a name that announces a password, even a plain word is a password, unless it is prose ("password: the password of
the user"), a placeholder (`password: string`) or code (`password = getpass()`). After other names, such as `token`, the
value must look random, as these names are far more common in prose and code. The time is linear in the text.
"""

import re
from collections.abc import Iterator
from typing import Final

from mcpproxy.sharing.kingfisher import Secret
from mcpproxy.sharing.names import holds_secret, is_harmless
from mcpproxy.sharing.placeholders import is_placeholder
from mcpproxy.sharing.pseudonyms import PSEUDONYM
from mcpproxy.sharing.word_lists import COOKIE_ATTRIBUTES, NON_PASSWORDS, OBJECT_NAMES, PROSE_WORDS

_ASSIGNED: Final = re.compile(
    r"(?P<name>passwd|password|passphrase|passcode|pwd|secret|signature|authorization|credential|token"
    r"|(?:api|access|account|client|master|private|secret|shared|signing|encryption)[ _-]?key"
    r"(?:[ _-]?(?:id|base|data))?)"
    r"[\"']?(?P<operator>[ \t]{0,4}+(?:=>|:=|=|:)[ \t]{0,4}+)(?P<quote>[\"']?)"
    r"(?:(?:bearer|basic|digest|dpop|token)[ \t]{1,4}+)?+(?P<value>(?:[^\s\"'`,;&|<>(){}\[\]\x1f]"
    r"|&(?=[^\s\"'`,;&|<>(){}\[\]\x1f])(?!(?:amp|quot|lt|gt);|[a-z0-9_.%\[\]-]{1,100}+=)){1,4096}+)"
)
"""For text in lower case. `&` ends a value if the next parameter of a form, an HTML entity or a command follows."""
_MARKS: Final = ("pass", "pwd", "secret", "signature", "authorization", "credential", "token", "key")
_PASSWORDS: Final = frozenset({"passwd", "password", "passphrase", "passcode", "pwd", "secret"})
_BEFORE_PASSWORD: Final = re.compile(
    rf"(?:{'|'.join(sorted(_PASSWORDS))})[\"']?[ \t]{{0,4}}(?:=>|:=|=|:)[ \t]{{0,4}}[\"']?\Z"
)
_MAX_NAME_CHARS: Final = 24
_DIRECTORY: Final = re.compile(r"[~/.]|[a-z]:[\\/]").match
"""Matches the beginning of a value of the environment variables PWD and OLDPWD."""
_PUBLIC_KEY: Final = "publickey"
"""A `PublicKeyToken`, which is part of the name of a .NET assembly, is not secret."""
_TOKEN_BEFORE: Final = re.compile(r"(?:^|[\n\"'{\x1f])[ \t]{0,40}|(?:access|api|auth|bearer|bot|refresh|session)[_-]?")
_MAX_QUOTED_CHARS: Final = 200
_MAX_REREAD_CHARS: Final = 200
"""The characters at the end of a value that are searched for further names if the value is not a secret."""
_MIN_PASSWORD_CHARS: Final = 3
_MIN_TOKEN_CHARS: Final = 8
_SENTENCE: Final = re.compile(r"[ \t]{1,4}+(?![a-z_.-]{1,40}[=:])[a-z]")
"""Matches a word after a value. Then both are prose, unless the word is the name of the next value."""
_PHRASE: Final = re.compile(r"[a-z0-9-]{1,30}+(?: [a-z0-9-]{1,30}+){1,24}+(?=[\s\"'\x1f]|$)")
_COOKIE: Final = re.compile(r"(?<![a-z0-9-])(?:set-)?cookie[\"']?[ \t]{0,4}+:[ \t]{0,4}+[\"']?")
_PAIR: Final = re.compile(
    r"(?P<name>[a-z0-9!#$%&*+.^_|~-]{1,200}+)=(?P<value>[^\s;,\"'\\\x1f]{0,4096}+)(?:;[ \t]{0,4}+)?"
)
_WORDS: Final = re.compile(r"[a-z]+")


def assigned_secrets(text: str, lower_text: str) -> Iterator[Secret]:
    """Yields the values that are assigned to names of secrets, and the values of cookies.

    Args:
        text: the text.
        lower_text: the text in lower case, with the same length.
    """
    if any(mark in lower_text for mark in _MARKS):
        position = 0
        while match := _ASSIGNED.search(lower_text, position):
            start, end = match.span("value")
            end_of_secret = _end_of_secret(text, lower_text, match)
            if end_of_secret > start:
                yield Secret(start, end_of_secret, "assigned-secret")
                position = end_of_secret
            else:
                # The value may itself be a name, as in `token: token: …`. To stay linear, only its end is read again.
                position = max(start, end - _MAX_REREAD_CHARS)
    if "cookie" in lower_text:
        yield from _cookie_values(lower_text)


def _end_of_secret(text: str, lower_text: str, match: re.Match[str]) -> int:
    """Returns the end of the secret in an assignment, or the start of its value if that is not a secret."""
    start, end = match.span("value")
    is_directory = match["name"] == "pwd" and _DIRECTORY(match["value"])
    is_public = lower_text.startswith(_PUBLIC_KEY, match.start() - len(_PUBLIC_KEY))
    if is_directory or is_public or _is_code(lower_text, start, end):
        return start
    if is_random(text[start:end]):
        return end
    return _end_of_password(lower_text, match) if match["name"] in _PASSWORDS or match["name"] == "token" else start


def follows_password(text: str, start: int) -> bool:
    """Whether the text before a position announces a password, as `password=` does but `token=` does not."""
    return _BEFORE_PASSWORD.search(text[max(0, start - _MAX_NAME_CHARS) : start].lower()) is not None


def is_random(value: str) -> bool:
    """Whether a word after `token=` can be a secret, and is not prose, a placeholder or a pseudonym."""
    word = value.strip(".,:;!?")
    if len(word) < 6 or word[0] in "$%*." or PSEUDONYM.fullmatch(word) or is_placeholder(word):
        return False
    has_digit = any(char.isdigit() for char in word)
    has_punctuation = any(not char.isalnum() and char not in "._-/" for char in word)
    is_mixed = word.lower() != word and word[1:].lower() != word[1:]
    return has_digit or has_punctuation or (is_mixed and len(word) >= 8)


def _is_code(lower_text: str, start: int, end: int) -> bool:
    """Whether a value is a call, a member of an object, or a word such as `PASSWORD` in a usage text."""
    value = lower_text[start:end]
    if not value.replace(".", "").replace("_", "").isalpha():
        return False
    return lower_text[end : end + 1] == "(" or value.partition(".")[0] in OBJECT_NAMES or value in NON_PASSWORDS


def _end_of_password(lower_text: str, match: re.Match[str]) -> int:
    """Returns the end of a password that may be a plain word, or the start of its value if that is not a password."""
    start, end = match.span("value")
    is_token = match["name"] == "token"
    if is_token and not _is_own_name(lower_text, match.start()):
        return start
    if match["quote"]:
        quote_end = lower_text.find(match["quote"], start, start + _MAX_QUOTED_CHARS)
        value = lower_text[start:quote_end]
        is_prose = "\n" in value or "\x1f" in value or any(word in PROSE_WORDS for word in _WORDS.findall(value))
        return start if quote_end < 0 or is_prose or _is_placeholder(value) else quote_end
    if match["name"] == "passphrase":
        phrase = _PHRASE.match(lower_text, start)
        if phrase is not None and not any(word in PROSE_WORDS for word in phrase[0].split()):
            return phrase.end()
    value = lower_text[start:end].rstrip(".!?:")
    next_char = lower_text[end : end + 1]
    # The value is followed by a call, an index or a type, or is a possessive such as "user's".
    is_code = (
        next_char in ("(", "[", "{", "<")
        or (next_char == "'" and lower_text[end + 1 : end + 2].isalpha())
        or "=>" in match[0]
    )
    is_prose = (
        ("=" not in match["operator"] or " " in match["operator"])
        and value == lower_text[start:end]
        and _SENTENCE.match(lower_text, end) is not None
        and not _is_joined_words(value)
    )
    min_chars = _MIN_TOKEN_CHARS if is_token else _MIN_PASSWORD_CHARS
    return start if len(value) < min_chars or is_code or is_prose or _is_placeholder(value) else start + len(value)


def _is_joined_words(value: str) -> bool:
    """Whether a value is at least three words joined by hyphens, as in a generated password, but not `up-to-date`."""
    words = value.split("-")
    return len(words) > 2 and all(len(word) > 2 and word not in PROSE_WORDS for word in words)


def _is_own_name(lower_text: str, start: int) -> bool:
    """Whether `token` is the name of a setting, and not a word as in "unexpected token: identifier"."""
    prefix = lower_text[max(0, start - 50) : start]
    return any(match.end() == len(prefix) for match in _TOKEN_BEFORE.finditer(prefix))


def _is_placeholder(value: str) -> bool:
    """Whether a value in lower case is a placeholder for a password, or code that reads one."""
    if not value or not any(char.isalnum() for char in value) or value[0] in "$%*.:=/~\\#@&<{":
        return True
    object_name, _, attribute = value.partition(".")
    is_code = bool(attribute) and (object_name in OBJECT_NAMES or "." in attribute)
    last_word = value.replace("-", "_").rpartition("_")[2]
    return value in NON_PASSWORDS or is_code or is_harmless(value) or holds_secret(value) or holds_secret(last_word)


def _cookie_values(lower_text: str) -> Iterator[Secret]:
    position = 0
    while header := _COOKIE.search(lower_text, position):
        position = header.end()
        while pair := _PAIR.match(lower_text, position):
            position = pair.end()
            value = pair["value"]
            if (
                pair["name"] not in COOKIE_ATTRIBUTES
                and len(value) > _MIN_PASSWORD_CHARS
                and not _is_placeholder(value)
            ):
                yield Secret(*pair.span("value"), "assigned-secret")
