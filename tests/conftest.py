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
from hypothesis import settings

from tests import rules
from tests.costs import Costs
from tests.examples import PROFILES, keep_the_same
from tests.harness import Place
from tests.unit import Watch, is_unit

for _profile_name, _profile in PROFILES.items():
    settings.register_profile(_profile_name, _profile)
settings.load_profile("suite")

# A shell that runs the suite in the background has it ignore Ctrl-C and Ctrl-\, `nohup` has it ignore a hang-up, and
# all its child processes inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _signum in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP):
    if signal.getsignal(_signum) == signal.SIG_IGN:
        signal.signal(_signum, signal.SIG_DFL)

# Collection creates no garbage before it ends, and looking for some would take a sixth of its time.
gc.disable()

# Keep the user's captures and configuration out of the tests, and those of the tests out of the user's home.
OWN_HOME = tempfile.TemporaryDirectory(prefix="mcpproxy-tests-")
atexit.register(OWN_HOME.cleanup)
os.environ.setdefault("NPM_CONFIG_USERCONFIG", os.path.expanduser("~/.npmrc"))  # names the registry
for _name in [name for name in os.environ if name.startswith(("XDG_", "MCPPROXY_"))]:
    del os.environ[_name]
os.environ["HOME"] = OWN_HOME.name

# If the shell forbids bytecode, each of the suite's hundreds of processes compiles the program again and takes three
# times as long to start, and every run rewrites and compiles the assertions of every test module again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--unit` collects unit tests only; `--costs FILE` keeps the cost of each case."""
    parser.addoption("--unit", action="store_true", help="collect unit tests only, see tests/unit.py")
    parser.addoption("--costs", metavar="FILE", help="write what each case has cost, see tests/costs.py")


def pytest_configure(config: pytest.Config) -> None:
    """Measure every case, watch over the unit tests, and keep the examples of property tests the same."""
    if config.getoption("hypothesis_profile") in (None, "suite"):
        keep_the_same()
    is_worker = hasattr(config, "workerinput")
    config.pluginmanager.register(Costs(None if is_worker else config.getoption("costs"), config.getoption("unit")))
    config.pluginmanager.register(Watch())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Under `--unit`, import only files with unit tests."""
    if config.getoption("unit") and collection_path.is_file() and not is_unit(collection_path):
        return True
    return None


def pytest_collection_finish() -> None:
    """Exempt what was collected from garbage collection, which would otherwise take half of the suite's time."""
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()
    # DuckDB complains about objects that still exist at the end. Not earlier: pytest collects garbage twice before.
    atexit.register(gc.unfreeze)


@pytest.fixture(scope="session")
def secret_rules() -> None:
    """Load the rules for tests that redact in this process."""
    rules.load()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A capture directory and configuration for this test alone; fails the test if it leaves processes behind."""
    made = Place(tmp_path)
    yield made
    left = made.clear()
    assert not left, f"the test left processes behind: {left}"
