"""A test is a unit test if the name of its file does not end in `_integration.py`. This plugin enforces its limits.

A unit test starts no process, thread pool or app, and never sleeps, so that hundreds of them take a second.
A test that does any of these is an integration test. `make test-fast` runs the unit tests only. In every run, a unit
test fails if its main thread starts a process, makes a thread pool or an app, or calls `time.sleep`; what other threads
and `asyncio.sleep` do is not watched.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from pathlib import Path
from typing import Any, Final

import pytest

INTEGRATION: Final = "_integration"
_STARTS: Final = ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system")
"""The functions of `os` that start a process, in addition to `subprocess.Popen`. (An audit hook would be called for
them, too, but also for each `id()` and `open()`, which made the tests of screens a tenth slower.)"""


def is_unit(path: Path) -> bool:
    """Whether a test file holds unit tests."""
    return not path.stem.endswith(INTEGRATION)


def _in_main_thread() -> bool:
    """Whether this is the main thread; an earlier test may have left others running."""
    return threading.current_thread() is threading.main_thread()


class Watch:
    """A plugin that fails a unit test that starts something, or sleeps."""

    def __init__(self) -> None:
        self._did: list[str] | None = None
        """The forbidden things that the current unit test has done; None while none runs."""
        self._tell_of(subprocess.Popen, "__init__", "starts a process")
        for name in _STARTS:
            self._tell_of(os, name, f"starts a process (os.{name})")
        self._tell_of(ThreadPoolExecutor, "__init__", "makes a pool of threads")
        self._tell_of(time, "sleep", "sleeps")

    def _tell_of(self, owner: Any, name: str, does: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        @wraps(real)
        def told(*arguments: Any, **named: Any) -> Any:
            if self._did is not None and _in_main_thread():
                self._did.append(does)
            return real(*arguments, **named)

        setattr(owner, name, told)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._did = [] if is_unit(item.path) else None
        if "textual.app" in sys.modules and not hasattr(sys.modules["textual.app"].App, "told"):
            app = sys.modules["textual.app"].App
            self._tell_of(app, "__init__", "opens an app")
            app.told = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        report = yield
        if self._did:
            report.outcome = "failed"
            report.longrepr = (
                f"{item.nodeid} is a unit test, but {', '.join(dict.fromkeys(self._did))}; move it to "
                f"{item.path.stem.removesuffix(INTEGRATION)}{INTEGRATION}.py"
            )
            self._did = []
        if report.when == "teardown":
            self._did = None
        return report
