"""What the user chose for a comparison."""

from typing import NamedTuple

from analysis.comparison.kind import FailOn


class ObserveOptions(NamedTuple):
    """How to read both sides. It can be pickled for other processes."""

    only: str = ""
    """A filter (docs/filter.md) that selects messages and calls; empty for all."""
    ignored_pointers: tuple[str, ...] = ()
    """Pointers of values to ignore, from `--ignore` and from a file that `--learn` wrote; `*` is any step."""
    with_findings: bool = True
    """Whether to check the rules."""


class CompareOptions(NamedTuple):
    """How to judge the differences."""

    fail_on: frozenset[FailOn] = frozenset()
    """The words of `--fail-on` that the user gave."""
    slower_percent: float | None = None
    """The percentage of `--fail-on slower=20%`: a call that is slower by less does not fail; None for any."""
    ignored_pointers: tuple[str, ...] = ()
    """As in `ObserveOptions`: an expectation may have been saved without them."""
