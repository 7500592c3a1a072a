"""An export that a signal ends leaves nothing, however little it has made by then."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.store.open import Source
from analysis.store.table_export import export

DEMO = Path(__file__).parents[2] / "corpus/captures/demo.mcpcap"


@pytest.mark.parametrize("after", [1, 2, 3], ids=["above", "place", "private"])
def test_a_signal_right_behind_a_folder_that_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    made = 0
    real: Callable[..., None] = os.mkdir

    def mkdir(*arguments: Any, **more: Any) -> None:
        nonlocal made
        real(*arguments, **more)
        made += 1
        if made == after:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(KeyboardInterrupt):
        export([Source(DEMO, "0" * 32, None)], "csv", tmp_path / "above" / "out")
    assert made == after
    assert list(tmp_path.iterdir()) == []
