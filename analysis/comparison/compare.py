"""Compares two sides, aspect by aspect."""

from analysis.comparison.change import Comparison
from analysis.comparison.options import CompareOptions
from analysis.comparison.side import Side


def compare(old: Side, new: Side, options: CompareOptions) -> Comparison:
    """Compare two sides.

    Args:
        old: the side that was relied on.
        new: the side that is to be judged.
        options: what the user chose.

    Returns:
        The changes, worst first, and what could not be compared. If `gaps` has failures, it must not be read as clean.
    """
    raise NotImplementedError
