"""Fixtures that tests of any part may use."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A capture directory and configuration for this test alone; whatever it starts must be gone at its end."""
    made = Place(tmp_path)
    yield made
    left = made.clear()
    assert not left, f"the test left processes behind: {left}"
