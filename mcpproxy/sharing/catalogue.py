"""Kingfisher's catalogue of secrets: the tokens, keys and passwords of hundreds of services, by the form that each has.

Its engine takes linear time whatever the text, opens no connection while it scans, and looks into base64 as well. The
rules are compiled once (some 4 s) and then read from our cache directory (0.3 s).
"""

from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from kingfisher_sdk import Rules, Scanner

from captures.places import cache_directory

_FOLDER: Final = "secret-rules"


SCAN_S: Final = 10.0
"""How long a text is searched at most; 16 MiB of ordinary text take a twentieth of a second."""


class TooMuch(ValueError):
    """A text takes too long to search, or holds too many secrets, to be redacted piece by piece."""


class Secret(NamedTuple):
    """A stretch of a text that is, or may be, a secret."""

    start: int
    end: int
    kind: str
    """What it is, in a few words joined by hyphens."""


@cache
def catalogue() -> "Catalogue":
    """The compiled rules, loaded once."""
    return Catalogue()


class Catalogue:
    """The compiled rules."""

    def __init__(self) -> None:
        below = cache_directory()
        folder = Path(below, _FOLDER) if below is not None else None
        # Rules of low confidence, too: a false alarm costs little here, and a shared secret cannot be recalled.
        rules = Rules(confidence="low", cache_dir=folder, cache=folder is not None)
        self._scanner = Scanner(rules)

    def secrets(self, text: str) -> list[Secret]:
        """The secrets in a text, in no particular order; they may overlap.

        Raises:
            TooMuch: the search takes too long.
        """
        raw = text.encode("utf-8", "replace")  # a lone surrogate takes one place here and there
        try:
            findings = self._scanner.scan(raw, timeout=SCAN_S)
        except TimeoutError as error:
            raise TooMuch(f"it takes more than {SCAN_S:.0f} s to search") from error
        if not findings:
            return []
        is_ascii = len(raw) == len(text)
        secrets = []
        for finding in findings:
            start, end = finding.location["start_offset"], finding.location["end_offset"]
            if not is_ascii:
                start, end = len(raw[:start].decode("utf-8", "replace")), len(raw[:end].decode("utf-8", "replace"))
            secrets.append(Secret(start, end, finding.rule_id.rpartition(".")[2]))
        return secrets
