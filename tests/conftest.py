"""Fixtures that tests of any part may use."""

import atexit
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.harness import Place

# How long an example takes says nothing on a machine that others use, too; `bench/` measures.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# A shell that runs the suite behind the scenes has it ignore Ctrl-C and Ctrl-\, `nohup` has it ignore a hang-up, and
# whatever it starts inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _signum in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP):
    if signal.getsignal(_signum) == signal.SIG_IGN:
        signal.signal(_signum, signal.SIG_DFL)

# What the user has recorded and configured is none of the tests' business, nor is theirs the user's.
OWN_HOME = tempfile.TemporaryDirectory(prefix="mcpproxy-tests-")
atexit.register(OWN_HOME.cleanup)
os.environ.setdefault("NPM_CONFIG_USERCONFIG", os.path.expanduser("~/.npmrc"))  # which registry there is
for _name in [name for name in os.environ if name.startswith(("XDG_", "MCPPROXY_"))]:
    del os.environ[_name]
os.environ["HOME"] = OWN_HOME.name

# If the shell forbids bytecode, each of the suite's hundreds of processes compiles the program again and takes three
# times as long to start, and every run rewrites and compiles the assertions of every test module again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


SLOW = tuple((Path(__file__).parent / "slow.txt").read_text("utf-8").split())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test-fast` leaves out."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker("slow")


def pytest_collection_finish() -> None:
    """Exempt what was collected from garbage collection, which would otherwise take half of the suite's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def pytest_unconfigure() -> None:
    """Undo that, as DuckDB complains about objects that still exist at the end."""
    gc.unfreeze()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A capture directory and configuration for this test alone; whatever it starts must be gone at its end."""
    made = Place(tmp_path)
    yield made
    left = made.clear()
    assert not left, f"the test left processes behind: {left}"
