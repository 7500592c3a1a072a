"""Every screen looks as somebody has seen it: at 80x24 and at 140x40, empty, huge, torn, gapped and live.

`pytest --snapshot-update` takes new pictures; look at each of them before you commit it.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_textual_snapshot import SVGImageExtension
from textual.pilot import Pilot

from tests.mcpproxy.tui.scenes import SCENES, SIZES, app_of, freeze
from tests.mcpproxy.tui.stage import Stage

SVGImageExtension.file_extension = "svg"  # the plugin sets it by a name that syrupy does not read any more


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    freeze(monkeypatch.setattr)
    yield
    os.environ.pop("TZ")
    time.tzset()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCENES)
def test_it_looks_as_it_did(
    name: str, size: tuple[int, int], tmp_path: Path, snap_compare: Callable[..., bool]
) -> None:
    with app_of(SCENES[name], tmp_path) as app:

        async def act(pilot: Pilot[Any]) -> None:
            await SCENES[name].act(Stage(app, pilot))

        assert snap_compare(app, terminal_size=size, run_before=act)
