"""Whether two captures are equal under the normaliser, as `mcpproxy compare` says it, and if not, why."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from analysis.comparison.change import Comparison
from analysis.comparison.compare import compare
from analysis.comparison.observe import observe
from analysis.comparison.options import CompareOptions, ObserveOptions

_OF_TIME = "latency/"


class Verdict(NamedTuple):
    """What the comparison of two captures says."""

    changes: tuple[str, ...]
    """The kinds of the changes, sorted; how long calls took does not count."""
    failures: tuple[str, ...]
    """What could not be compared, and why."""
    sentences: tuple[str, ...]
    """The changes in words."""

    @property
    def is_equal(self) -> bool:
        """Whether the comparison has no change and did not fail."""
        return not self.changes and not self.failures


def compared(old: Path, new: Path, *, with_findings: bool = True) -> Verdict:
    """Returns the verdict on two captures.

    Raises:
        CaptureError: one cannot be read.
    """
    return compared_sets([old], [new], with_findings=with_findings)


def compared_sets(old: Sequence[Path], new: Sequence[Path], *, with_findings: bool = True) -> Verdict:
    """Returns the verdict on two sets of captures, each as one side.

    Raises:
        CaptureError: one cannot be read.
    """
    options = ObserveOptions(with_findings=with_findings)
    old_side, new_side = (observe("", [(path.name, path) for path in paths], options) for paths in (old, new))
    return verdict_of(compare(old_side, new_side, CompareOptions()))


def verdict_of(comparison: Comparison) -> Verdict:
    """Returns the verdict of a comparison."""
    changes = [change for change in comparison.changes if not change.kind.id.startswith(_OF_TIME)]
    return Verdict(
        tuple(sorted(change.kind.id for change in changes)),
        tuple(f"{gap.what}: {gap.reason}" for gap in comparison.gaps if gap.is_failure),
        tuple(f"{change.kind.id} {change.subject} {change.pointer}: {change.message}" for change in changes),
    )


def reason_of(verdict: Verdict) -> str:
    """Returns a short reason by which verdicts can be counted; empty for an equal one."""
    parts = [*dict.fromkeys(verdict.changes), *dict.fromkeys(re.sub(r"\d+", "N", text) for text in verdict.failures)]
    return ", ".join(parts)
