"""Sides that the tests of comparisons observe, from captures that they write."""

from collections.abc import Callable
from pathlib import Path

from analysis.comparison.change import Comparison
from analysis.comparison.compare import compare
from analysis.comparison.observe import observe
from analysis.comparison.options import CompareOptions, ObserveOptions
from analysis.comparison.side import Side
from tests.analysis.store.capture_writer import CaptureWriter

Fill = Callable[[CaptureWriter], object]


def written(folder: Path, name: str, fill: Fill) -> Path:
    """Write a capture with a handshake, and what `fill` adds after 100 ms; returns its path."""
    writer = CaptureWriter(folder / f"{name}.mcpcap", "weather")
    writer.handshake()
    fill(writer)
    return writer.close()


def observed(path: Path, only: str = "", *, with_findings: bool = True) -> Side:
    """Returns the side of one capture."""
    return observe(path.name, [(path.name, path)], ObserveOptions(only, with_findings=with_findings))


def compared(folder: Path, old: Fill, new: Fill, only: str = "", *, with_findings: bool = False) -> Comparison:
    """Returns the comparison of two captures, each with a handshake and what the functions add."""
    sides = [
        observed(written(folder, name, fill), only, with_findings=with_findings)
        for name, fill in (("old", old), ("new", new))
    ]
    return compare(sides[0], sides[1], CompareOptions())


def kinds(comparison: Comparison, group: str = "") -> list[str]:
    """Returns the ids of the kinds of the changes, in their order, of all groups or of one."""
    return [change.kind.id for change in comparison.changes if group in ("", change.kind.id.partition("/")[0])]
