"""The list of findings of a closed capture: what all rules find in it, determined once.

Loading a capture for SQL and opening it in the screens both need all findings, and running the rules takes most of
their time. Whichever of them is first keeps the list in the cache (`analysis.output_cache`), and the other uses it. It
is valid as long as the capture and the modules that judge it are unchanged, and is deleted with the capture.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from analysis.cached import modules_hash
from analysis.child_process import as_json, from_json
from analysis.output_cache import OutputCache
from analysis.reading import Reading, Step
from analysis.rules.finding import Finding, Level
from analysis.store.values import MAX_BIGINT
from captures.damage import Damage
from captures.errors import CaptureError
from captures.file import is_live
from captures.listing import segments, total_size

MIN_CAPTURE_BYTES: Final = 1 << 20
"""The smallest capture whose list is kept, in bytes; the rules judge a smaller one in less than half a second."""
_PRODUCERS: Final = ("analysis/store/finding_list.py",)
"""The modules that a list depends on, apart from those that read and judge."""


class Conclusion(NamedTuple):
    """What is known when all rules have judged a capture to its end."""

    entry_count: int
    """The number of records and damaged places that were judged."""
    faults: list[str]
    """The rules that failed, which is a bug in them."""
    forgotten: list[str]
    """Sentences about what had to be forgotten, as there was too much of it at once."""


class FindingList:
    """Collects the findings of a capture, and keeps them."""

    def __init__(self, path: Path) -> None:
        """Remember the current state of the capture; nothing is kept if it is small or live."""
        self._output = _output_of(path)
        self._entry_count = 0

    def on_step(self, step: Step) -> None:
        """Collect what is found in the next step of the reading."""
        item = step.item
        self._entry_count += item is not None
        if item is not None and not isinstance(item, Damage) and max(item.seq, item.t_ns) > MAX_BIGINT:
            self.abandon()
        if self._output is not None:
            for finding in step.findings:
                self._output.add(as_json(finding))

    def abandon(self) -> None:
        """Keep nothing, as SQL leaves out a record with a number that no column can hold, and the screens do not."""
        self._output = None

    def save(self, reading: Reading) -> None:
        """Keep the list, after the last step of the reading."""
        if self._output is not None:
            self._output.add(as_json({"conclusion": conclusion_of(reading, self._entry_count)}))
            self._output.save()


def conclusion_of(reading: Reading, entry_count: int) -> Conclusion:
    """Returns what is known about a capture at the end of its reading."""
    return Conclusion(entry_count, sorted(reading.faults), [loss.text for loss in reading.forgotten])


def listed_findings(path: Path) -> Iterator[Finding | Conclusion] | None:
    """Returns the findings of a capture in the order in which the rules report them, and then the conclusion.

    Returns:
        None if there is no list for the capture as it is now.

    Raises:
        LookupError, TypeError, ValueError, zlib.error: the list was forged; raised while it is read.
    """
    output = _output_of(path)
    messages = None if output is None else output.cached()
    return None if messages is None else map(_entry_of, messages)


def _output_of(path: Path) -> OutputCache | None:
    try:
        files = segments(path)
        is_kept = not is_live(files[-1]) and total_size(files) >= MIN_CAPTURE_BYTES
    except (CaptureError, OSError):
        return None
    return OutputCache(path, "findings", modules_hash(_PRODUCERS)) if is_kept else None


def _entry_of(message: bytes) -> Finding | Conclusion:
    entry = from_json(message)
    if isinstance(entry, dict):
        return Conclusion(*entry["conclusion"])
    finding = Finding(*entry)
    return finding._replace(level=Level(finding.level), related=tuple(finding.related))
