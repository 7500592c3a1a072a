"""Fixtures that tests of any part may use."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.harness import Place

# How long an example takes says nothing on a machine that others use, too; `bench/` measures.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# A shell that runs the suite behind the scenes has it ignore Ctrl-C, and whatever it starts inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A capture directory and configuration for this test alone; whatever it starts must be gone at its end."""
    made = Place(tmp_path)
    yield made
    left = made.clear()
    assert not left, f"the test left processes behind: {left}"
