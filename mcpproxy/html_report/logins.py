"""The logins of a report: how many there were, and why some did not succeed."""

from typing import Any, Final, NamedTuple

from analysis.conversation.logins import Logins
from mcpproxy.html_report import limits
from mcpproxy.wording.logins import LoginSummary, summary_of
from mcpproxy.wording.units import duration

_UNCOUNTED_OUTCOMES: Final = frozenset({"unneeded", "revoked"})
"""Outcomes of requests around a login, which are not logins themselves."""


class _Failure(NamedTuple):
    """A reason why logins did not succeed, with the first of them."""

    capture: int
    first: LoginSummary
    times: int


class ReportLogins:
    """The logins of all captures."""

    def __init__(self) -> None:
        """Start without logins."""
        self.count = self.failed_count = 0
        self._failures: dict[str, _Failure] = {}

    def add_capture(self, capture: int, logins: Logins) -> None:
        """Count the logins of the next capture, when it has been read to its end."""
        self.count += logins.forgotten_count
        for login in logins.all():
            self.count += login.outcome not in _UNCOUNTED_OUTCOMES
            summary = summary_of(login)
            if not summary.is_bad:
                continue
            self.failed_count += 1
            known = self._failures.get(summary.outcome)
            if known is not None:
                self._failures[summary.outcome] = known._replace(times=known.times + 1)
            elif len(self._failures) < limits.MAX_FAILED_LOGIN_KINDS:
                self._failures[summary.outcome] = _Failure(capture, summary, 1)

    def figures(self) -> list[dict[str, Any]]:
        """Returns the figure of the overview; none if there were no logins."""
        if not self.count:
            return []
        failed_text = f"{self.failed_count:,} unsuccessful" if self.failed_count else ""
        return [{"name": "logins", "value": f"{self.count:,}", "more": failed_text, "is_bad": self.failed_count > 0}]

    def failures(self) -> dict[str, Any]:
        """Returns the members of the overview about logins that did not succeed: the most frequent reasons first."""
        ranked = sorted(self._failures.values(), key=lambda failure: -failure.times)
        return {
            "failed_logins": self.failed_count,
            "login_failures": [_failure(failure) for failure in ranked[: limits.MAX_FIRST_ROWS]],
            "more_login_failures": max(0, len(ranked) - limits.MAX_FIRST_ROWS),
        }


def _failure(failure: _Failure) -> dict[str, Any]:
    login = failure.first
    failed_leg = next((leg for leg in login.legs if leg.has_failed), login.legs[-1])
    return {
        "what": login.outcome.removeprefix("failed at "),
        "times": failure.times,
        "capture": failure.capture,
        "frame": failed_leg.seq,
        "took": duration(login.took_ns),
        "more": " · ".join(filter(None, (login.explanation, login.client))),
    }
