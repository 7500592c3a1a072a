"""What each test costs: CPU time of the test and its children, listed at the end of a run and never judged.

Elapsed time says nothing on a machine that others use, too, and even CPU time differs from machine to machine, so no
test fails for it. The list shows where a suite gets slow: in a run of unit tests, all cases above `UNIT_S`, otherwise
the most expensive ones, and those above `REASON_S` that give no reason with `@pytest.mark.costly("reason")`.
`pytest --costs FILE` writes one JSON object per case: `test`, `processor_s`, `wall_s`.
"""

import json
import os
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

UNIT_S = 0.05
REASON_S = 1.0
LISTED = 20
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def processor_s() -> float:
    """CPU time, in seconds, of this process, its children, and the processes that its children have waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system + sum(map(_of, _children()))


def _children() -> list[str]:
    with suppress(OSError):
        return Path("/proc/thread-self/children").read_text().split()
    return []


def _of(pid: str) -> float:
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return sum(map(int, fields[11:15])) * _TICK_S
    return 0.0


class Costs:
    """A plugin that measures in the process that runs a case, and prints the list in the one that the user started."""

    def __init__(self, file: str | None, unit: bool) -> None:
        self.file = file
        self.unit = unit
        self.spent: list[tuple[float, float, str, str]] = []
        """For each test: CPU time, elapsed time, its name, and the reason for its cost."""
        self._began = (0.0, 0.0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._began = (processor_s(), time.monotonic())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        report = yield
        if report.when == "teardown":
            marker = item.get_closest_marker("costly")
            report.cost = (
                processor_s() - self._began[0],
                time.monotonic() - self._began[1],
                str(marker.args[0]) if marker else "",
            )
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            processor, wall, reason = getattr(report, "cost", (0.0, 0.0, ""))
            self.spent.append((processor, wall, report.nodeid, reason))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.file:
            with open(self.file, "w") as out:
                for processor, wall, name, _ in self.spent:
                    told = {"test": name, "processor_s": round(processor, 3), "wall_s": round(wall, 3)}
                    out.write(json.dumps(told) + "\n")
        self.spent.sort(reverse=True)
        terminalreporter.write_line(
            f"{sum(cost for cost, *_ in self.spent):.0f} s of CPU time in {len(self.spent)} tests, excluding collection"
        )
        if self.unit:
            listed, what = [row for row in self.spent if row[0] > UNIT_S], f"unit tests above {UNIT_S * 1000:.0f} ms"
        else:
            listed, what = self.spent[:LISTED], "the most expensive tests"
            listed += [row for row in self.spent[LISTED:] if row[0] > REASON_S and not row[3]]
        if listed:
            terminalreporter.section(f"{what}: CPU time, reason")
        for processor, _, name, reason in listed:
            why = reason or ("" if self.unit or processor <= REASON_S else "no reason given")
            terminalreporter.write_line(f"{processor:7.2f} s  {name}  {why}".rstrip())
