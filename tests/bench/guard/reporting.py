"""A pytest plugin that writes the result and cost of each test, and which fixtures it shares with others.

It is copied into the environment of a scratch tree, so it uses nothing of this repository. It also stops the run once
the tests have used up their CPU time, and informs the tracer, if there is one, which test is running.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Generator
from typing import Any

import pytest

_BUDGET_S = float(os.environ.get("GUARD_BUDGET_S", "1e9"))
_FOLDER = os.environ.get("GUARD_REPORT", "")
_failed: dict[str, str] = {}
_shared_s = [0.0]
"""CPU time used by the set-up of shared fixtures."""


def _used_s() -> float:
    """CPU time of this process, of its running and reaped children, and of the descendants that they have reaped."""
    each = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    ticks = 0
    for other in os.listdir("/proc") if os.path.exists("/proc/self/stat") else ():
        if other.isdigit():
            try:
                with open(f"/proc/{other}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                ticks += sum(map(int, fields[11:15]))
    return sum(usage.ru_utime + usage.ru_stime for usage in each) + ticks / os.sysconf("SC_CLK_TCK")


def _write(**row: Any) -> None:
    with open(f"{_FOLDER}/{os.getpid()}.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def _name(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def _enter(context: str) -> None:
    """Attribute what runs from now on to a test or a fixture, in this process and in those that it starts."""
    os.environ["GUARD_TEST"] = context
    if (traced := sys.modules.get("guard_traced")) is not None:
        traced.enter(context)


def _shared(item: Any) -> list[str]:
    """The fixtures that a test shares with others."""
    found = []
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        if definitions and definitions[-1].scope != "function":
            found.append(_context_of(definitions[-1]))
    return found


def _context_of(definition: Any) -> str:
    return f"{definition.baseid}@{definition.argname}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: Any) -> Generator[None, Any, Any]:
    """Measure a test, and write its result."""
    name = _name(item.nodeid)
    _enter(name)
    _shared_s[0] = 0.0
    used, began = _used_s(), time.monotonic()
    result = yield
    _write(
        test=name,
        failed=_failed.pop(item.nodeid, None),
        processor_s=round(_used_s() - used - _shared_s[0], 4),
        wall_s=round(time.monotonic() - began, 4),
        shared=_shared(item),
    )
    if _used_s() > _BUDGET_S:
        item.session.shouldstop = "the CPU time is used up"
    return result


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Generator[None, Any, Any]:
    """Attribute the set-up of a shared fixture to all tests that use it."""
    if fixturedef.scope == "function":
        return (yield)
    before, used = os.environ.get("GUARD_TEST", ""), _used_s()
    _enter(_context_of(fixturedef))
    try:
        return (yield)
    finally:
        _enter(before)
        cost = _used_s() - used
        _shared_s[0] += cost
        _write(fixture=_context_of(fixturedef), processor_s=round(cost, 4))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: Any) -> Generator[None, Any, Any]:
    """Keep the first line of each error."""
    report = yield
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        text = str(report.longrepr) if crash is None else crash.message
        _failed.setdefault(item.nodeid, (text.strip().splitlines() or ["?"])[0][:300])
    return report


def pytest_collectreport(report: Any) -> None:
    """Report modules that cannot be collected."""
    if report.failed and not os.environ.get("PYTEST_XDIST_WORKER"):
        lines = [line for line in str(report.longrepr).splitlines() if line.startswith("E ")]
        _write(test=_name(report.nodeid), failed=f"not collected: {(lines or ['?'])[-1]}"[:300], processor_s=0.0)


def pytest_sessionfinish() -> None:
    """Write what was traced: a worker of pytest-xdist exits without running exit handlers."""
    if (traced := sys.modules.get("guard_traced")) is not None:
        traced.save()
