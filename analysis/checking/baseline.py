"""Baselines: findings that have been reviewed and accepted, so that only new ones count.

A baseline is a file of JSON lines, as `mcpproxy check --update-baseline` writes and `--format json` prints them. A
finding is recognised by its fingerprint: the rule, the method of the message, the place in it and the text, without the
parts that differ between sessions (ids, times, counts, guesses). Records, sessions and captures are not part of it, so
a baseline from yesterday's capture works for today's.
"""

import json
import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, Final

from analysis.checking.old_wording import current_wording
from analysis.rules.finding import GUESS_PREFIX
from analysis.rules.old_ids import current_id

MAX_FINGERPRINTS: Final = 1_000_000
"""The most fingerprints in one baseline."""

# Standalone numbers: not part of a name, a date or a version, and not negative as error codes are.
_NUMBER: Final = re.compile(r"(?<![\w.,-])\d++(?:[.,]\d++)*+(?![\w-])", re.ASCII)
_UUID: Final = re.compile(
    r"(?<![0-9A-Za-z])[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}(?![0-9A-Za-z])", re.ASCII
)


class BaselineError(ValueError):
    """Raised if a line of a baseline is not a finding; the text names the line and says what was expected."""


def fingerprint(rule: str, method: str, pointer: str, message: str) -> str:
    """The part of a finding that is the same in every session.

    Args:
        rule: the id of the rule.
        method: the method of the message, or of the request that it answers; empty if there is none.
        pointer: the place in the message.
        message: the text of the finding.
    """
    text = f"{rule}\0{method}\0{pointer}\0{lasting_words(message)}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def lasting_words(message: str) -> str:
    """Returns the text of a finding without the parts that differ between sessions: `N` for each number, no guess."""
    return _NUMBER.sub("N", _UUID.sub("N", message.partition(GUESS_PREFIX)[0]))


class Baseline:
    """Accepted findings."""

    def __init__(self, accepted: Iterable[str] = ()) -> None:
        """Create a baseline from the fingerprints of the accepted findings."""
        self._accepted = frozenset(accepted)

    def __contains__(self, fingerprint: str) -> bool:
        """Whether a finding with this fingerprint was accepted."""
        return fingerprint in self._accepted

    def __iter__(self) -> Iterator[str]:
        """The fingerprints."""
        return iter(self._accepted)

    def __len__(self) -> int:
        """The number of different fingerprints."""
        return len(self._accepted)


def findings_by_fingerprint(lines: Iterable[bytes]) -> dict[str, dict[str, Any]]:
    """The findings in the lines of a file, by their fingerprints; blank lines are skipped.

    Raises:
        BaselineError: a line is not a finding.
    """
    by_fingerprint: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            key, row = _parse_finding(line, number)
            by_fingerprint.setdefault(key, row)
            if len(by_fingerprint) > MAX_FINGERPRINTS:
                raise BaselineError(f"line {number}: expected at most {MAX_FINGERPRINTS:,} different findings")
    return by_fingerprint


def _parse_finding(line: bytes, number: int) -> tuple[str, dict[str, Any]]:
    try:
        # orjson rejects lone surrogates. A finding may contain one from a peer, and must not invalidate the baseline.
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise BaselineError(f"line {number}: expected JSON, as `check --format json` prints it") from None
    values = row if isinstance(row, dict) else {}
    texts = (values.get("rule"), values.get("method") or "", values.get("pointer") or "", values.get("message"))
    rule, method, pointer, message = (text if isinstance(text, str) else None for text in texts)
    if rule is None or method is None or pointer is None or message is None:
        raise BaselineError(f"line {number}: expected a finding, with `rule` and `message`")
    rule = current_id(rule)
    message = current_wording(rule, message)
    return fingerprint(rule, method, pointer, message), values | {"message": message}
