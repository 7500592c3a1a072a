"""Runs the rules over items that a test makes: complete frames, records, damage."""

from collections import Counter
from collections.abc import Iterable

from analysis.checking.checker import RuleSelection
from analysis.conversation.fold import Fold
from analysis.reading import End, Item, Reading, Step
from analysis.rules.base import Rule
from analysis.rules.finding import Finding
from captures.frame import Frame


def step(reading: Reading, item: Item) -> Step:
    """Feed an item to a reading; returns its step."""
    return reading._step(None, item) if isinstance(item, Frame) else reading.feed(item)


class Judged:
    """A conversation, and the findings of the rules in it."""

    def __init__(self, picked: Iterable[type[Rule]] | None = None) -> None:
        """Run the rules `picked`, or all if None."""
        self.reading = Reading(rules=RuleSelection(picked))

    @property
    def fold(self) -> Fold:
        """The state of the conversation."""
        return self.reading.fold

    @property
    def faults(self) -> dict[str, str]:
        """The rules that failed, and their errors."""
        return self.reading.faults

    @property
    def counts(self) -> Counter[tuple[str, int, str]]:
        """The number of violations of each rule that reports only the first."""
        return self.reading.counts

    @property
    def followers(self) -> Counter[tuple[str, int, str]]:
        """The number of findings that were counted under their causes."""
        return self.reading.followers

    def advance(self, t_ns: int) -> list[Finding]:
        """Advance the clock; returns the findings that are due by then."""
        checker = self.reading._checker
        assert checker is not None
        return checker.advance(t_ns)

    def feed(self, item: Item) -> list[Finding]:
        """Feed the next item; returns its findings."""
        return [*step(self.reading, item).findings]

    def finish(self, reason: End = "closed") -> list[Finding]:
        """End the conversation; returns the findings that appear only at the end."""
        return [finding for each in self.reading.finish(reason) for finding in each.findings]
