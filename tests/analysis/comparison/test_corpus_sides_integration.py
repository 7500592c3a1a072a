"""Every capture of the corpus, compared with itself and with itself in another order: nothing changed."""

from pathlib import Path
from typing import Final

import pytest

from analysis.comparison.compare import compare
from analysis.comparison.expectation import load, save
from analysis.comparison.options import CompareOptions
from analysis.comparison.side import Side
from captures.errors import CaptureError
from tests.analysis.comparison.permuted import write_permuted
from tests.analysis.comparison.sides import observed
from tests.analysis.traces import CORPUS, read
from tests.rows import row

CAPTURES: Final = Path(__file__).parents[2] / "corpus" / "captures"
UNREADABLE: Final = {"empty", "newer-format", "not-a-capture"}
WITHOUT_CALLS: Final = {"wrong-types"}
"""Their frames are no messages and break no rule, so there is nothing to compare."""
ABOUT_ORDER: Final = {"order-changed"}
"""The order of tools is what it is about."""


def _assert_equal(old: Side, new: Side, failures: list[str]) -> None:
    comparison = compare(old, new, CompareOptions())
    assert comparison.changes == ()
    assert [gap.what for gap in comparison.gaps if gap.is_failure] == failures
    assert [name for name, *counts in comparison.compared if counts[0] != counts[1]] == []


def test_a_capture_equals_itself_in_any_order_and_its_own_expectation(tmp_path: Path) -> None:
    permuted_frames, readable = 0, 0
    for path in sorted(CAPTURES.glob("*.mcpcap")):
        with row(path.stem):
            try:
                side = observed(path)
            except CaptureError:
                assert path.stem in UNREADABLE
                continue
            assert path.stem not in UNREADABLE
            readable += 1
            failures = ["all of the old side", "all of the new side"] if side.summary.has_failed else []
            failures += ["everything"] if path.stem in WITHOUT_CALLS else []
            _assert_equal(side, observed(path), failures)
            permuted_frames += write_permuted(path, tmp_path, len(path.stem))
            _assert_equal(side, observed(tmp_path / path.name), failures)
            save(side, tmp_path / path.stem)
            loaded = load(path.stem, tmp_path / path.stem)
            assert loaded is not None
            _assert_equal(loaded, side, failures)
    assert readable >= 25
    assert permuted_frames >= 100


def _conversations_with_changes(folder: Path, every: int) -> list[str]:
    """Returns the names of those conversations of the corpus that differ from themselves in another order."""
    (folder / "permuted").mkdir()
    path, names, count = folder / "case.mcpcap", [], 0
    for cases in sorted(CORPUS.glob("*.ndjson")):
        for case in read(cases)[::every]:
            path.write_bytes(b"".join(line.rstrip(b"\n") + b"\n" for _, line in case.records()))
            count += write_permuted(path, folder / "permuted", 3)
            sides = observed(path), observed(folder / "permuted" / path.name)
            names += [case.name] if compare(*sides, CompareOptions()).changes else []
    assert count > 5_000 / every
    return names


def test_a_conversation_in_another_order_is_the_same_conversation(tmp_path: Path) -> None:
    assert {*_conversations_with_changes(tmp_path, 50)} <= ABOUT_ORDER


@pytest.mark.soak
def test_every_conversation_in_another_order_is_the_same_conversation(tmp_path: Path) -> None:
    assert {*_conversations_with_changes(tmp_path, 1)} == ABOUT_ORDER
