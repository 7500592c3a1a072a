"""Baseline: findings that were looked at and accepted, so that only new ones count.

A file of JSON lines, as `mcpproxy check --update-baseline` writes and `--format json` prints them. A finding is known
again by its fingerprint: the rule, the method of the message, the place in it and the words, without what differs from
session to session (ids, times, counts, guesses). Records, sessions and captures are no part of it, so a baseline of
yesterday's capture serves today's.
"""

import json
import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final

from analysis.rules.catalogue import today
from analysis.rules.finding import GUESS

MOST: Final = 1_000_000
"""Fingerprints that one baseline holds."""

# Numbers that stand alone: neither a part of a name, a date or a version, nor negative, as the codes of errors are.
_NUMBER: Final = re.compile(r"(?<![\w.,-])\d++(?:[.,]\d++)*+(?![\w-])", re.ASCII)
_UUID: Final = re.compile(
    r"(?<![0-9A-Za-z])[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}(?![0-9A-Za-z])", re.ASCII
)


class BaselineError(ValueError):
    """A line that is no finding; the text says which, and what was expected."""


def fingerprint(rule: str, method: str, pointer: str, message: str) -> str:
    """What a finding has in common with the same one of another session.

    Args:
        rule: its id.
        method: of the message; of an answer, that of its request; empty where there is none.
        pointer: the place in the message.
        message: the words of the finding.
    """
    words = _NUMBER.sub("N", _UUID.sub("N", message.partition(GUESS)[0]))
    text = f"{rule}\0{method}\0{pointer}\0{words}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class Baseline:
    """Findings that were accepted."""

    def __init__(self, accepted: Iterable[str] = ()) -> None:
        """`accepted`: their fingerprints."""
        self._accepted = frozenset(accepted)

    def __contains__(self, fingerprint: str) -> bool:
        """Whether a finding with this fingerprint was accepted."""
        return fingerprint in self._accepted

    def __len__(self) -> int:
        """How many different ones there are."""
        return len(self._accepted)


def entries(lines: Iterable[bytes]) -> dict[str, dict[str, Any]]:
    """The findings in the lines of a file, by their fingerprints; blank lines are passed over.

    Raises:
        BaselineError: one is no finding.
    """
    found: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            mark, row = _entry(line, number)
            found.setdefault(mark, row)
            if len(found) > MOST:
                raise BaselineError(f"line {number}: expected at most {MOST:,} different findings")
    return found


def _entry(line: bytes, number: int) -> tuple[str, dict[str, Any]]:
    try:
        # Not by orjson: a peer's half of a surrogate pair may stand in a finding, and must not spoil the others.
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise BaselineError(f"line {number}: expected JSON, as `check --format json` prints it") from None
    values = row if isinstance(row, dict) else {}
    texts = (values.get("rule"), values.get("method") or "", values.get("pointer") or "", values.get("message"))
    rule, method, pointer, message = (text if isinstance(text, str) else None for text in texts)
    if rule is None or method is None or pointer is None or message is None:
        raise BaselineError(f"line {number}: expected a finding, with `rule` and `message`")
    return fingerprint(today(rule), method, pointer, message), values
