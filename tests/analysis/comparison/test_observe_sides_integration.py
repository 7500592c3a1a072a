"""Both sides observed at the same time, in two processes, give what one process gives."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from analysis.comparison import observe_sides as module
from analysis.comparison.compare import compare
from analysis.comparison.observe_sides import SideSource, observe_sides
from analysis.comparison.observe_worker import ObserveWorker
from analysis.comparison.options import CompareOptions, ObserveOptions
from analysis.filter import FilterError
from captures.errors import CaptureError

CORPUS = Path(__file__).parents[2] / "corpus" / "captures"
OPTIONS = ObserveOptions("method:tools/call or kind:notification")


class _DyingWorker(ObserveWorker):
    """A worker that is killed as soon as it has started."""

    def __init__(self, name: str, captures: Sequence[tuple[str, Path]], options: ObserveOptions) -> None:
        super().__init__(name, captures, options)
        self.kill()


def _sources(*names: str) -> list[SideSource]:
    return [SideSource(name, [(name, CORPUS / f"{name}.mcpcap")]) for name in names]


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORTH", 0)
    monkeypatch.setattr(module, "usable_processors", lambda: 2)


@pytest.mark.usefixtures("two_processes")
def test_two_processes_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = _sources("good", "demo")
    together = observe_sides(old, new, OPTIONS)
    monkeypatch.setattr(module, "usable_processors", lambda: 1)
    assert together == observe_sides(old, new, OPTIONS)
    assert compare(*together, CompareOptions()).changes


@pytest.mark.usefixtures("two_processes")
def test_an_unreadable_side_is_an_error_whichever_it_is() -> None:
    good, unreadable, missing = _sources("good", "not-a-capture", "missing")
    for old, new in ((unreadable, good), (good, unreadable), (missing, good)):
        with pytest.raises(CaptureError, match="cannot read"):
            observe_sides(old, new, OPTIONS)


@pytest.mark.usefixtures("two_processes")
def test_a_worker_that_dies_costs_only_time(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = _sources("good", "demo")
    monkeypatch.setattr(module, "ObserveWorker", _DyingWorker)
    sides = observe_sides(old, new, OPTIONS)
    assert [side.summary.name for side in sides] == ["good", "demo"]


def test_an_invalid_filter_is_refused_before_anything_is_read() -> None:
    (missing,) = _sources("missing")
    for text in ("method:", "rule:id/*", "has:mark"):
        with pytest.raises(FilterError):
            observe_sides(missing, missing, ObserveOptions(text))
