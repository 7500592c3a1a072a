"""Hidden text: characters that a model reads and people do not see, as far as they serve no script and no emoji.

Invisible characters have honest uses: joiners hold the parts of an emoji together and shape the letters of Arabic and
Indic scripts, tag characters spell the flags of regions, a variation selector chooses between two forms of a character.
These are harmless where they belong, and hidden text anywhere else.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from analysis.protocol.json_pointer import encode_step

MAX_NAMED_CHARACTERS: Final = 5
"""The most different characters that `names_of` names."""
MAX_SPELT_CHARS: Final = 60
"""The most characters of an encoded text that `names_of` quotes."""

_SELECTORS: Final = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_MONGOLIAN_SELECTORS: Final = "\u180b-\u180d\u180f"
_MARKS: Final = "\u200e\u200f\u061c"
_TAGS: Final = "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
_CANDIDATE: Final = re.compile(
    # Controls other than white space; soft hyphen; joiners and fillers without a width; separators of words.
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u115f\u1160\u180e\u200b-\u200d\u3164\uffa0\ufeff"
    # Directions, invisible operators, deprecated format characters, annotations, musical and shorthand format.
    f"{_MARKS}\u202a-\u202e\u2060-\u206f\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    f"{_SELECTORS}{_MONGOLIAN_SELECTORS}{_TAGS}]"
)
_REGION_FLAG: Final = re.compile(
    "\U0001f3f4[\U000e0061-\U000e007a]{2}[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,4}\U000e007f"
)
_RIGHT_TO_LEFT: Final = re.compile(
    "[\u0590-\u060b\u060d-\u061b\u061e-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff]"
)
_EMOJI: Final = re.compile(
    "[\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
_EMOJI_ENDS: Final = "\ufe0f\U000e007f"
"""Characters that may end an emoji: a variation selector, and the end of a flag."""
_JOINING: Final = re.compile(
    "[\u0600-\u07ff\u0840-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\u1a20-\u1aaf\u1b00-\u1bff\ua800-\ua9df\uaa60-\uaadf"
    "\uabc0-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00010fff\U00011000-\U00011fff\U0001e900-\U0001e95f]"
)
"""Letters and signs of scripts whose shapes depend on their neighbours: Arabic, Indic and related ones."""
_UNSPACED: Final = re.compile(
    "[\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\uaa60-\uaadf\u3040-\u30ff\u3400-\u9fff]"
)
"""Letters of scripts that are written without spaces, where a zero-width space permits a line to break."""
_IDEOGRAPH: Final = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_MONGOLIAN: Final = re.compile("[\u1800-\u18af]")
_JAMO: Final = re.compile("[\u1100-\u11ff\ua960-\ua97c\ud7b0-\ud7fb]")
_VARIED_ASCII: Final = "0123456789#*"
"""The ASCII characters that have another form: the keys of a telephone, and the slashed zero."""


class HiddenText(NamedTuple):
    """Hidden text in one string."""

    pointer: str
    """The place of the string: a JSON Pointer; if it is the name of a member, the place of the object."""
    characters: str
    """The hidden characters, in order."""


def hidden_characters(text: str) -> str:
    """Returns the hidden characters of a text, in order; empty if it has none."""
    return "".join(text[index] for index in _hidden_indices(text))


def visible_text(text: str) -> str:
    """Returns a text without its hidden characters."""
    indices = set(_hidden_indices(text))
    return "".join(character for index, character in enumerate(text) if index not in indices) if indices else text


def new_hidden_text(old: Any, new: Any) -> list[HiddenText]:
    """Returns the hidden text in the new value, names of members included, that the old value does not have.

    Text that moved is not new, nor are hidden characters that remain in a text that was reworded around them.

    Args:
        old: a JSON value.
        new: a JSON value.
    """
    hidden_texts = list(_hidden_strings(new))
    if not hidden_texts:
        return []
    unmatched = Counter(text for _, text, _ in _hidden_strings(old))
    added: list[HiddenText] = []
    for pointer, text, characters in hidden_texts:
        if unmatched[text]:
            unmatched[text] -= 1
        else:
            added.append(HiddenText(pointer, characters))
    known = Counter("".join(hidden_characters(text) * times for text, times in unmatched.items()))
    remaining_texts = [HiddenText(text.pointer, _unknown(text.characters, known)) for text in added]
    return [text for text in remaining_texts if text.characters]


def names_of(characters: str) -> str:
    """Returns the code points of hidden characters, with their names, and the text that some of them encode."""
    tags = "".join(character for character in characters if "\U000e0020" <= character <= "\U000e007e")
    selectors = "".join(character for character in characters if _is_selector(character))
    words: list[str] = []
    for encoded, name, spelt in (
        (tags, "tag characters", "".join(chr(ord(character) - 0xE0000) for character in tags)),
        (selectors, "variation selectors", _spelt_by_selectors(selectors)),
    ):
        if len(encoded) > 1 and spelt:
            span = f"U+{ord(min(encoded)):04X} to U+{ord(max(encoded)):04X}"
            quoted = spelt if len(spelt) <= MAX_SPELT_CHARS else f"{spelt[: MAX_SPELT_CHARS - 1]}…"
            words.append(f"{len(encoded):,} {name} ({span}), which spell {quoted!r}")
            characters = characters.translate(dict.fromkeys(map(ord, encoded)))
    different = list(dict.fromkeys(characters))
    words += [_name(character) for character in different[:MAX_NAMED_CHARACTERS]]
    if len(different) > MAX_NAMED_CHARACTERS:
        words.append(f"{len(different) - MAX_NAMED_CHARACTERS} more")
    return ", ".join(words)


def _spelt_by_selectors(selectors: str) -> str:
    """Returns the text whose bytes variation selectors encode, one each, or an empty text if it is none."""
    first, second = ord("\ufe00"), ord("\U000e0100")
    encoded = bytes(
        ord(character) - first if ord(character) < second else ord(character) - second + 16 for character in selectors
    )
    try:
        spelt = encoded.decode()
    except UnicodeDecodeError:
        return ""
    return spelt if spelt.isprintable() else ""


def _hidden_indices(text: str) -> list[int]:
    """Returns where the hidden characters of a text are."""
    if text.isascii() and text.isprintable():
        return []
    candidates = [match.start() for match in _CANDIDATE.finditer(text)]
    if not candidates:
        return []
    in_flags = {index for flag in _REGION_FLAG.finditer(text) for index in range(*flag.span())}
    is_right_to_left = _RIGHT_TO_LEFT.search(text) is not None
    return [
        index
        for index in candidates
        if index not in in_flags and not _is_harmless(text, index, is_right_to_left=is_right_to_left)
    ]


def _name(character: str) -> str:
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()


def _unknown(characters: str, known: Counter[str]) -> str:
    """Returns the characters that are not among the known ones, and removes the others from these."""
    unknown: list[str] = []
    for character in characters:
        if known[character]:
            known[character] -= 1
        else:
            unknown.append(character)
    return "".join(unknown)


def _hidden_strings(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yields the pointer, text and hidden characters of each string with any; a loop, as a peer decides the depth."""
    waiting: list[tuple[Any, _Path]] = [(value, None)]
    while waiting:
        item, path = waiting.pop()
        if isinstance(item, str):
            characters = hidden_characters(item)
            if characters:
                yield _pointer(path), item, characters
        elif isinstance(item, dict):
            for name, member in reversed(item.items()):
                waiting.append((member, (path, name)))
                if not name.isascii() or not name.isprintable():
                    waiting.append((name, path))
        elif isinstance(item, list):
            waiting.extend((element, (path, index)) for index, element in reversed(list(enumerate(item))))


_Path = tuple[Any, str | int] | None
"""The steps to a value: those to what contains it, and the last one."""


def _pointer(path: _Path) -> str:
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(encode_step(str(step)))
    return "".join(f"/{step}" for step in reversed(steps))


def _is_harmless(text: str, index: int, *, is_right_to_left: bool) -> bool:
    """Whether an invisible character belongs where it is."""
    character, before, after = text[index], text[index - 1 : index], text[index + 1 : index + 2]
    if character in "\u200c\u200d":
        if character == "\u200d" and _EMOJI.match(after) and _ends_emoji(text, index):
            return True
        return _JOINING.match(before) is not None and not _CANDIDATE.match(after)
    if "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef":
        return _is_variation(before, character) and not _is_selector(after)
    if character in _MARKS:
        return is_right_to_left and not (_CANDIDATE.match(before) or _CANDIDATE.match(after))
    if character == "\u200b":
        return bool(_UNSPACED.match(before) and _UNSPACED.match(after))
    if character == "\xad":
        return before.isalpha() and after.isalpha()
    if character == "\u034f":
        return bool(before) and unicodedata.category(before).startswith("M")
    if "\u180b" <= character <= "\u180f":
        return _MONGOLIAN.match(before) is not None and not _CANDIDATE.match(before)
    return character in "\u115f\u1160" and bool(_JAMO.match(before) or _JAMO.match(after)) and before != character


def _ends_emoji(text: str, end: int) -> bool:
    """Whether an emoji ends at an index; its last characters may be a selector or the end of a flag."""
    start = end - 1
    if start > 0 and text[start] in _EMOJI_ENDS:
        start -= 1
        while start > 0 and "\U000e0020" <= text[start] <= "\U000e007e":
            start -= 1
            if end - start > 8:  # longer than the longest flag
                return False
    return start >= 0 and _EMOJI.match(text, start) is not None


def _is_selector(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def _is_variation(base: str, selector: str) -> bool:
    """Whether a character can have another form that a variation selector chooses."""
    if not base or _is_selector(base):
        return False
    if base.isascii():
        return base in _VARIED_ASCII and selector in "\ufe00\ufe0e\ufe0f"
    if selector >= "\U000e0100":
        return _IDEOGRAPH.match(base) is not None
    if selector in "\ufe0e\ufe0f":
        return _EMOJI.match(base) is not None or unicodedata.category(base)[0] in "SP"
    return unicodedata.category(base)[0] in "LSNP"
