"""Every capture of the corpus, compared with itself and with itself in another order: nothing changed."""

from pathlib import Path
from typing import Final

from analysis.comparison.compare import compare
from analysis.comparison.expectation import load, save
from analysis.comparison.options import CompareOptions
from analysis.comparison.side import Side
from captures.errors import CaptureError
from tests.analysis.comparison.permuted import write_permuted
from tests.analysis.comparison.sides import observed
from tests.rows import row

CORPUS: Final = Path(__file__).parents[2] / "corpus" / "captures"
UNREADABLE: Final = {"empty", "newer-format", "not-a-capture"}


def _assert_equal(old: Side, new: Side) -> None:
    comparison = compare(old, new, CompareOptions())
    assert comparison.changes == ()
    assert [gap for gap in comparison.gaps if gap.is_failure] == []
    assert [name for name, *counts in comparison.compared if counts[0] != counts[1]] == []


def test_a_capture_equals_itself_in_any_order_and_its_own_expectation(tmp_path: Path) -> None:
    permuted_frames, readable = 0, 0
    for path in sorted(CORPUS.glob("*.mcpcap")):
        with row(path.stem):
            try:
                side = observed(path)
            except CaptureError:
                assert path.stem in UNREADABLE
                continue
            assert path.stem not in UNREADABLE
            readable += 1
            _assert_equal(side, observed(path))
            permuted_frames += write_permuted(path, tmp_path, len(path.stem))
            _assert_equal(side, observed(tmp_path / path.name))
            save(side, tmp_path / path.stem)
            loaded = load(path.stem, tmp_path / path.stem)
            assert loaded is not None
            _assert_equal(loaded, side)
    assert readable >= 25
    assert permuted_frames >= 100
