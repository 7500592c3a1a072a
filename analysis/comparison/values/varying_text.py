"""Finds the parts of texts that vary by themselves: ids, times, durations, paths of the machine, ports, redaction tags.

Each part is replaced by the name of its kind, such as `⟨time⟩`; the words around it stay. What is replaced differs
between two recordings of the same thing, and a value of one kind equals any other value of that kind.
"""

import re
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from captures.redact import PREFIX

Rule: TypeAlias = Literal["id", "time", "duration", "path", "loopback port", "redaction tag", "cursor", "_meta"]
"""The built-in rules of the normaliser. The last two depend on the names of members only."""

MAX_TEXT_CHARS: Final = 1 << 20
"""Longer texts are compared as they are."""
TAG_IN_BASE64: Final = "aG1hYz"
"""How the base64 of a redaction tag begins, which stands for binary content in a redacted copy."""
_MAX_ID_CHARS: Final = 128
"""A longer token is content, such as an image in base64, and not an id."""
_MIN_MIXED_CHANGES: Final = 0.42
"""How often, for each character, a random token changes between upper case, lower case and digits; names rarely do."""
_MIN_ONE_CASE_CHANGES: Final = 0.25
"""The same for a token without lower case or without upper case, which must have several digits."""
_MIN_ONE_CASE_DIGITS: Final = 3

_UNIT: Final = r"(?:ns|µs|μs|us|ms|s|secs?|(?:milli|micro)?seconds?|mins?|minutes?|hours?|h|m)(?![0-9A-Za-z])"
_DAY: Final = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_CLOCK: Final = r"[0-2]?[0-9]:[0-5][0-9]"
_SECONDS: Final = r"(?::[0-6][0-9](?:[.,][0-9]{1,9})?)"
_ZONE: Final = r"(?:\ ?(?:Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2})(?![0-9A-Za-z]))?"
_PATH_CHARS: Final = r"[^\s\"'`<>|*?:;,(){}\[\]⟨⟩]"

# Each alternative of `_VARYING` needs one of these two. They begin with one character, so that most texts fail at once.
_has_varying_digit: Final = re.compile(
    r"[0-9](?:[\w-]{7}|:[0-9d]| ?(?:(?:[nmuµμ]?s|[hm])\b|sec|milli|micro|min|hour)|T[0-9]{6}|(?<=[\w-]{8}[0-9])"
    r"|(?<=2[45][0-9])\.|(?<=XX0)|(?<=hmac:[0-9]))",
    re.ASCII,
).search
_has_local_path: Final = re.compile(r"/(?:home|Users|root|tmp|var|private)/|[/\\]Users[/\\]|file:/").search
_LOOPBACK: Final = ("localhost:", "127.0.0.1:", "[::1]:")

_VARYING: Final = re.compile(
    rf"""
    (?<![0-9A-Za-z])(?=[0-9A-Za-z(/\[])(?:
    (?P<tag>{PREFIX}[0-9a-f]{{16}}(?![0-9a-f])
      |{TAG_IN_BASE64}[op][0-9A-Za-z+/]{{21}}(?![0-9A-Za-z+/=])
      |\b(?:user-[0-9a-f]{{8}}(?:@host-[0-9a-f]{{8}}\.invalid)?|host-[0-9a-f]{{8}}\.invalid)\b
      |(?<![\w.])2(?:4[0-9]|5[0-5])(?:\.[0-9]{{1,3}}){{3}}(?![\w.])
      |(?<![\w:])2001:db8(?::[0-9a-f]{{1,4}}){{6}}(?![\w:])
      |(?<![\w:])02(?P<separator>[:-]?)00(?P=separator)5e(?:(?P=separator)[0-9a-f]{{2}}){{3}}(?![\w:])
      |\bXX00[0-9 ]{{8,34}})
    |(?P<path>(?:\bfile://(?:localhost)?
        |(?<![\w./\\-])(?=/(?:home|Users|root|tmp|var/tmp|var/folders|private)/)
        |(?<![\w./\\-])[A-Za-z]:(?=[\\/]Users[\\/]))
      {_PATH_CHARS}+)
    |(?P<host>(?:\blocalhost|(?<![\w.])127\.0\.0\.1|\[::1\]):)(?P<port>[0-9]{{2,5}})(?![0-9])
    |(?P<time>(?<![0-9A-Za-z.:])(?:
        20[0-9]{{2}}[-/][01][0-9][-/][0-3][0-9](?:[T ]|\ at\ ){_CLOCK}{_SECONDS}?{_ZONE}
        |20[0-9]{{2}}[01][0-9][0-3][0-9]T[0-9]{{6}}Z?
        |{_DAY},?\ (?:[0-3]?[0-9]\ {_MONTH}\ 20[0-9]{{2}}|{_MONTH}\ {{1,2}}[0-3]?[0-9](?:,?\ 20[0-9]{{2}})?)
          ,?\ {_CLOCK}{_SECONDS}?(?:\ (?:20[0-9]{{2}}|UTC|[A-Z]{{1,2}}[SD]?T)){{0,3}}(?:\ ?[+-][0-9]{{4}})?
          (?:\ \([\w ]{{1,40}}\))?
        |[0-3]?[0-9][/.][0-3]?[0-9][/.]20[0-9]{{2}},?\ {_CLOCK}{_SECONDS}?(?:\ ?[AaPp]M)?
        |[0-3][0-9]/{_MONTH}/20[0-9]{{2}}:{_CLOCK}{_SECONDS}(?:\ [+-][0-9]{{4}})?
        |{_CLOCK}{_SECONDS}(?:\ ?[AaPp]M)?{_ZONE})(?![0-9A-Za-z]|:[0-9]))
    |(?P<lead>\b(?:took|taken|elapsed|duration|latency|runtime|uptime
        |(?:finished|completed|done|ready|built|ran|executed|processed|returned|responded|fetched|loaded|generated
          |rows?|results?|items?|files?)\ in)(?:\ time)?[:=]?\ ?
        |\((?=[0-9.,]{{1,20}}\ ?(?:[nuµμm]?s|secs?|seconds?|milliseconds?)\)))
      (?P<duration>[0-9]{{1,12}}(?:[.,][0-9]{{1,12}})?\ ?{_UNIT}(?:\ [0-9]{{1,4}}(?:\.[0-9]{{1,9}})?\ ?{_UNIT}){{0,3}})
    |(?P<id>(?<![0-9A-Za-z])[0-9A-Fa-f]{{8}}-(?:[0-9A-Fa-f]{{4}}-){{3}}[0-9A-Fa-f]{{12}}(?![0-9A-Za-z])
      |(?<![0-9A-Za-z])[0-7][0-9A-HJKMNP-TV-Z]{{25}}(?![0-9A-Za-z])
      |\beyJ[\w-]{{10,4000}}\.[\w-]{{10,4000}}\.[\w-]{{0,4000}})
    |(?P<token>[0-9A-Za-z_-]{{16,}}+)
    )""",
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
_TOKEN: Final = re.compile(r"(?<![0-9A-Za-z])[0-9A-Za-z][0-9A-Za-z_-]{15,}+")
_ID_IN_TOKEN: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:(?P<uuid>[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}(?![0-9A-Za-z]))|[0-9A-Za-z]{16,}+)"
)
"""An id with a prefix, such as `req_` or `chatcmpl-`."""
_HEX: Final = re.compile(r"[0-9a-f]{16,}|[0-9A-F]{16,}")
_CLASS_CHANGE: Final = re.compile(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[a-z0-9]|(?<=[0-9])[A-Za-z]")
_DIGIT: Final = re.compile("[0-9]")
_KEPT_FILE: Final = re.compile(r"(?!tmp)[A-Za-z][A-Za-z_.-]{0,60}\.[A-Za-z][A-Za-z0-9]{0,7}")
"""The name of a file that was not made up: it has an extension and, apart from that, no digits."""
_TRAILING: Final = ".!,"


def placeholder(rule: str, type_: str = "string") -> str:
    """Returns what stands for a value that a rule passes over; values of other types than string have another one."""
    return f"⟨{rule}⟩" if type_ == "string" else f"⟨{rule}: {type_}⟩"


_TIME: Final = placeholder("time")
_ID: Final = placeholder("id")
_TAG: Final = placeholder("redaction tag")
REDACTED_EMAIL: Final = placeholder("redacted e-mail address")
REDACTED_USER: Final = placeholder("redacted user")
REDACTED_HOST: Final = placeholder("redacted host")
REDACTED_IP: Final = placeholder("redacted IP address")
REDACTED_MAC: Final = placeholder("redacted MAC address")
REDACTED_ACCOUNT: Final = placeholder("redacted account")
_KINDS_OF_TAGS: Final = tuple(
    (re.compile(start, re.IGNORECASE).match, kind)
    for start, kind in (
        ("user-.*@", REDACTED_EMAIL),
        ("user-", REDACTED_USER),
        ("host-", REDACTED_HOST),
        ("2[45]|2001:", REDACTED_IP),
        ("02", REDACTED_MAC),
        ("XX00", REDACTED_ACCOUNT),
    )
)
_DURATION: Final = placeholder("duration")
_PORT: Final = placeholder("loopback port")
_PATH: Final = placeholder("path")


def normalised_text(text: str, note: Callable[[Rule, str], None]) -> str:
    """Returns a text with its varying parts replaced by their kinds.

    Args:
        text: any text; the time is linear in its length.
        note: called with the rule and the text of each part that is replaced.
    """
    if not _may_vary(text) or len(text) > MAX_TEXT_CHARS:
        return text

    def replacement(match: re.Match[str]) -> str:
        group = match.lastgroup
        whole = match[0]
        if group == "time":
            note("time", whole)
            return _TIME
        if group == "id":
            note("id", whole)
            return _ID
        if group == "token":
            return _normalised_token(whole, note)
        if group == "tag":
            note("redaction tag", whole)
            return _tag(whole)
        if group == "duration":
            note("duration", match["duration"])
            return f"{match['lead']}{_DURATION}"
        if group == "port":
            note("loopback port", match["port"])
            return f"{match['host']}{_PORT}"
        return _normalised_path(whole, note) if group == "path" else whole

    return _VARYING.sub(replacement, text)


def _tag(text: str) -> str:
    """Returns the kind of what a redaction tag stands for, as far as its form shows it."""
    return next((kind for start, kind in _KINDS_OF_TAGS if start(text)), _TAG)


def _may_vary(text: str) -> bool:
    if _has_varying_digit(text) is not None:
        return True
    return (("/" in text or "\\" in text) and _has_local_path(text) is not None) or (
        ":" in text and any(host in text for host in _LOOPBACK)
    )


def is_random(token: str) -> bool:
    """Whether a token of letters and digits looks random, as a digest or an id does, and not like a name."""
    if len(token) > _MAX_ID_CHARS:
        return False
    letters_and_digits = token.replace("-", "").replace("_", "")
    digits = len(_DIGIT.findall(letters_and_digits))
    if not 0 < digits < len(letters_and_digits):
        return False
    if _HEX.fullmatch(letters_and_digits):
        return True
    has_one_case = letters_and_digits.islower() or letters_and_digits.isupper()
    if has_one_case and digits < _MIN_ONE_CASE_DIGITS:
        return False
    changes = len(_CLASS_CHANGE.findall(letters_and_digits))
    return changes >= (_MIN_ONE_CASE_CHANGES if has_one_case else _MIN_MIXED_CHANGES) * len(letters_and_digits)


def _normalised_token(token: str, note: Callable[[Rule, str], None]) -> str:
    """Returns a token with the ids in it replaced; the words before and after them stay."""

    def replacement(match: re.Match[str]) -> str:
        if match.lastgroup == "uuid" or is_random(match[0]):
            note("id", match[0])
            return _ID
        return match[0]

    # What is left between two ids may be an id, too.
    return _TOKEN.sub(replacement, _ID_IN_TOKEN.sub(replacement, token))


def _normalised_path(path: str, note: Callable[[Rule, str], None]) -> str:
    """Returns the kind of a path; if it ends with the name of a file that was not made up, with that name."""
    bare = path.rstrip(_TRAILING)
    folder, separator, name = _split_path(bare)
    kept = f"{separator}{name}" if _KEPT_FILE.fullmatch(name) else ""
    note("path", folder if kept else bare)
    return f"{_PATH}{kept}{path[len(bare) :]}"


def _split_path(path: str) -> tuple[str, str, str]:
    separator = "\\" if "\\" in path else "/"
    return path.rpartition(separator)
