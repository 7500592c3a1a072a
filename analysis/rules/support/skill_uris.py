"""URIs of skills: a skill is a directory, and the URI of its `SKILL.md` identifies it.

Two URIs that differ only in the case of the scheme, in needless percent-encoding or in dot segments mean the same, so
they are compared in a common form. The case of the authority counts, because it is a segment like any other. All URIs
are untrusted; nothing here opens one.
"""

import re
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

SKILL_FILE: Final = "SKILL.md"
MAX_URI_CHARS: Final = 2_000
"""The most characters of a URI that is remembered."""
MAX_PARENTS: Final = 32
"""The most directories around a file that are examined."""
MAX_NAME_CHARS: Final = 64
"""The most characters of a skill's name."""

_split: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/?#]*))?([^?#]*)(.*)", re.DOTALL).fullmatch
# The format can be read to allow lower-case letters of any script, so only ASCII is judged strictly.
_is_usual_name: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*").fullmatch
_ENCODED_CHARACTER: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_is_unreserved: Final = re.compile(r"[A-Za-z0-9._~-]").fullmatch


def common_form(uri: str) -> str:
    """Returns the form of a URI that all its spellings share, without a slash at the end; other text as it is."""
    return _known_form(uri) if len(uri) <= MAX_URI_CHARS else _form(uri)


def _form(uri: str) -> str:
    parts = _split(uri)
    if parts is None:
        return uri
    scheme, authority, path, rest = parts.groups()
    segments: list[str] = []
    for segment in _decoded(path).split("/"):
        if segment == "..":
            del segments[max(1, len(segments) - 1) :]
        elif segment != ".":
            segments.append(segment)
    start = f"{scheme.lower()}:" + ("" if authority is None else f"//{_decoded(authority)}")
    return (start + "/".join(segments)).rstrip("/") + rest


# Several rules need the form of each URI of a result.
_known_form: Final = lru_cache(maxsize=4_096)(_form)


def skill_root(uri: str) -> str | None:
    """Returns the directory of the skill with a URI, in the common form, or None if it does not end with `/SKILL.md`.

    A query or fragment is ignored.
    """
    form = re.split(r"[?#]", common_form(uri), maxsplit=1)[0]
    return form.removesuffix(f"/{SKILL_FILE}") if form.endswith(f"/{SKILL_FILE}") else None


def last_segment(root: str) -> str:
    """Returns the last segment of a directory, decoded, which must be the skill's name; empty if it has none."""
    return unquote(_without_scheme(root).rpartition("/")[2])


def parent_directories(form: str) -> list[str]:
    """Returns up to `MAX_PARENTS` directories around a file or directory, innermost first, all in the common form."""
    directories: list[str] = []
    while len(directories) < MAX_PARENTS and "/" in _without_scheme(form):
        form = form.rpartition("/")[0]
        directories.append(form)
    return directories


def name_fault(name: str) -> str | None:
    """Returns what is wrong with a skill's name, or None if it is valid or may be."""
    if not name:
        return "is empty"
    if len(name) > MAX_NAME_CHARS:
        return f"has {len(name)} characters, more than {MAX_NAME_CHARS}"
    if _is_usual_name(name):
        return None
    if name.startswith("-") or name.endswith("-"):
        return "begins or ends with a hyphen"
    if "--" in name:
        return "has two hyphens in a row"
    is_allowed = all(character == "-" or (character.isalnum() and character == character.lower()) for character in name)
    return None if is_allowed else "has characters other than lower-case letters, digits and hyphens"


def is_path_segment(authority: str) -> bool:
    """Whether the authority of a URI is a plain segment: without a user name, a port or an address in brackets."""
    return not {"@", ":", "["} & {*authority}


def authority_of(uri: str) -> str:
    """Returns the authority of a URI; empty if it has none."""
    parts = _split(uri)
    return "" if parts is None or parts[2] is None else parts[2]


def _without_scheme(form: str) -> str:
    scheme, colon, rest = form.partition(":")
    return (rest if colon else scheme).strip("/")


def _decoded(text: str) -> str:
    """Returns text without the percent-encoding of characters that never need it."""
    return _ENCODED_CHARACTER.sub(_decoded_character, text) if "%" in text else text


def _decoded_character(match: re.Match[str]) -> str:
    character = chr(int(match[1], 16))
    return character if _is_unreserved(character) else match[0].upper()
