"""Side: everything that a comparison needs of its old or new side."""

from typing import Any, NamedTuple

from analysis.comparison.change import SideSummary
from analysis.comparison.kind import AspectName


class Side(NamedTuple):
    """One side, observed from captures or loaded from an expectation."""

    summary: SideSummary
    records: dict[AspectName, Any]
    """What each aspect observed. An aspect is missing if it was not observed, such as the findings without rules."""
