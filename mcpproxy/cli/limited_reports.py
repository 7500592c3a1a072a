"""Reports of many similar problems: the first few one by one, the rest as a count."""

from collections.abc import Callable
from typing import Final

MAX_REPORTS: Final = 3
"""How many problems are reported one by one: a log of another format has one on every line, and a full disk one for
every capture.
"""


class LimitedReports:
    """Reports the first few problems of one kind as they come, and counts all of them."""

    def __init__(self, report: Callable[[str], object]) -> None:
        """`report` shows one problem to the user."""
        self._report = report
        self.count = 0

    def report_or_count(self, problem: str) -> None:
        """Count a problem; reports it if it is among the first few."""
        self.count += 1
        if self.count <= MAX_REPORTS:
            self._report(problem)

    @property
    def unreported_count(self) -> int:
        """The number of problems that were only counted."""
        return max(0, self.count - MAX_REPORTS)
