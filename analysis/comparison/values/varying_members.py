"""Names of members whose values vary by themselves, in any form: ids, times, durations, cursors, `_meta`."""

import re
from collections.abc import Callable
from typing import Final

from analysis.comparison.values.varying_text import Rule

META: Final = "_meta"
"""The member whose values, at any depth, are passed over; its names are not."""

_WORD: Final = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_MAX_NAME_CHARS: Final = 64
"""Longer names are not examined."""
_CURSORS: Final = frozenset(
    {
        "cursor", "nextcursor", "prevcursor", "previouscursor", "startcursor", "endcursor", "pagetoken",
        "nextpagetoken", "continuationtoken",
    }
)  # fmt: skip
_OWNERS_OF_IDS: Final = frozenset(
    {
        "request", "session", "task", "trace", "span", "correlation", "run", "job", "transaction", "operation",
        "execution", "invocation", "connection", "process", "worker", "instance", "subscription", "elicitation", "call",
    }
)  # fmt: skip
"""What has a new id each time. Other ids, such as that of a user, are content unless they look random."""
_OWNERS_OF_TOKENS: Final = frozenset({"progress", "session", "access", "refresh", "csrf"})
_IDS: Final = frozenset({"pid", "nonce", "etag", "traceparent", "tracestate", "uuid", "guid", "ulid"})
_TIMES: Final = frozenset(
    {
        "at", "time", "date", "timestamp", "datetime", "ts", "mtime", "ctime", "atime", "birthtime", "epoch", "now",
        "created", "updated", "modified", "accessed", "expires", "expiry", "since", "until", "iat", "exp", "nbf",
    }
)  # fmt: skip
_UNITS: Final = frozenset(
    {
        "s", "ms", "us", "ns", "sec", "secs", "second", "seconds", "millis", "milliseconds", "micros", "microseconds",
        "nanos", "nanoseconds", "minutes",
    }
)  # fmt: skip
_DURATIONS: Final = frozenset({"duration", "elapsed", "took", "latency", "runtime", "uptime"})
_OWNERS_OF_DURATIONS: Final = frozenset(
    {"execution", "response", "processing", "query", "run", "elapsed", "wall", "cpu", "load", "total"}
)  # fmt: skip

_EPOCHS: Final = tuple((978_307_200 * unit, 4_102_444_800 * unit) for unit in (1, 1_000, 1_000_000, 1_000_000_000))
"""The years 2001 to 2099 in seconds, milliseconds, microseconds and nanoseconds since 1970."""
_DATE: Final = re.compile(r"20[0-9]{2}-[01][0-9]-[0-3][0-9]")
_DIGITS: Final = re.compile(r"[0-9]{10,19}(?:\.[0-9]{1,9})?")
_DURATION: Final = re.compile(
    r"\s*[0-9]{1,15}(?:\.[0-9]{1,15})?\s*[A-Za-zµμ]{0,12}\s*|P(?:[0-9]{1,9}D)?T?(?:[0-9.]{1,20}[HMS]){0,3}"
    r"|[0-9]{1,6}:[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
)


def rule_of_member(name: str) -> Rule | None:
    """Returns the rule for strings and numbers in a member of this name, or None if they need not vary."""
    if name == META:
        return "_meta"
    words = [word.lower() for word in _WORD.findall(name)] if len(name) <= _MAX_NAME_CHARS else []
    if not words:
        return None
    if "".join(words) in _CURSORS:
        return "cursor"
    last, owner = words[-1], words[-2] if len(words) > 1 else ""
    if (
        last in _IDS
        or (last == "id" and owner in _OWNERS_OF_IDS)
        or (last == "token" and owner in _OWNERS_OF_TOKENS)
        or words == ["request", "state"]
        or words in (["requestid"], ["sessionid"], ["taskid"], ["traceid"], ["spanid"])
    ):
        return "id"
    if last in _UNITS and owner:
        last, owner = owner, words[-3] if len(words) > 2 else ""
        return "duration" if _is_duration(last, owner) else None
    if _is_duration(last, owner):
        return "duration"
    return "time" if last in _TIMES else None


def _is_duration(last: str, owner: str) -> bool:
    return last in _DURATIONS or (last == "time" and owner in _OWNERS_OF_DURATIONS)


def is_passed_over(rule: Rule, value: str | float) -> bool:
    """Whether a rule that a member's name implies passes over a string or number.

    An empty string is no id, and a number that is far from today no time.
    """
    return _TESTS[rule](value)


def _is_id(value: str | float) -> bool:
    return value != ""


def _is_time(value: str | float) -> bool:
    if isinstance(value, str):
        if _DATE.fullmatch(value):
            return True
        if not _DIGITS.fullmatch(value):
            return False
        value = float(value)
    return any(begin <= value < end for begin, end in _EPOCHS)


def _is_duration_value(value: str | float) -> bool:
    if isinstance(value, str):
        return value != "" and _DURATION.fullmatch(value) is not None
    return value >= 0


_TESTS: Final[dict[Rule, Callable[[str | float], bool]]] = {
    "id": _is_id,
    "cursor": _is_id,
    "time": _is_time,
    "duration": _is_duration_value,
}
