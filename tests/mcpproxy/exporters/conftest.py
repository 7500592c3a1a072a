"""The recordings that all test modules export: one over stdio, one over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Place
from tests.mcpproxy.exporters.recorded import demo, over_http


@pytest.fixture(scope="session")
def stdio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="session")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = Place(tmp_path_factory.mktemp("http"))
    yield over_http(place)
    assert not place.clear()
