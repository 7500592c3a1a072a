"""Every screen looks as in its approved picture: at 80x24 and at 140x40 or 160x50, empty, huge, torn, gapped and live.

`pytest --snapshot-update` takes new pictures; look at each of them before you commit it.
"""

import asyncio
import difflib
import html
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_textual_snapshot import SVGImageExtension
from syrupy.assertion import SnapshotAssertion

from tests.mcpproxy.tui.scenes import SCENES, app_of, freeze, shared
from tests.mcpproxy.tui.stage import on_stage

SVGImageExtension.file_extension = "svg"  # the plugin sets it by a name that syrupy no longer reads


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    freeze(monkeypatch.setattr)
    yield
    os.environ.pop("TZ")
    time.tzset()


def words(svg: str) -> list[str]:
    """The texts in a picture."""
    return html.unescape(re.sub(r"<[^>]*>", "", "\n".join(re.findall(r"<text .*?</text>", svg)))).splitlines()


@pytest.mark.costly("each scene is read, judged and drawn in two sizes; one has 10,000 frames")
@pytest.mark.parametrize("first", shared())
def test_it_looks_as_it_did(first: str, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    pictures: dict[tuple[str, int, int], str] = {}
    with app_of(SCENES[first], tmp_path) as app:

        async def draw() -> None:
            async with on_stage(app, sizes_of(first)[0]) as stage:
                for name in shared()[first]:
                    await stage.resize(sizes_of(name)[0])
                    await SCENES[name].act(stage)
                    for size in sizes_of(name):
                        await stage.pilot.resize_terminal(*size)
                        await stage.settled()
                        pictures[name, *size] = app.export_screenshot(title=app.title, simplify=True)
                    await stage.back()

        asyncio.run(draw())
    wrong: list[str] = []
    for (name, columns, rows), svg in pictures.items():
        known = snapshot(name=f"{name}-{columns}x{rows}", extension_class=SVGImageExtension)
        if known != svg:
            made = tmp_path / f"{name}-{columns}x{rows}.svg"
            made.write_text(svg)
            changes = difflib.unified_diff(words(str(known)), words(svg), "as it did", "as it does", lineterm="", n=1)
            wrong += [f"{name} looks different at {columns}x{rows}: {made}", *changes]
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def sizes_of(name: str) -> tuple[tuple[int, int], ...]:
    """Every other scene begins large, so that first drawings and resized ones are tested in both sizes."""
    sizes = SCENES[name].sizes
    return sizes if list(SCENES).index(name) % 2 else sizes[::-1]
