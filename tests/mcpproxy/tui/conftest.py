"""Gives each test its own cache, keys and history, and does once per process what every app does in the same way."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any

import pytest
from textual import _callback
from textual._compositor import Compositor
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

from analysis import child_process
from mcpproxy.tui.keys import queue as key_queue
from tests.mcpproxy.tui.stage import DEADLINE_S, render_later
from tests.mcpproxy.tui.warm_workers import CAN_ADOPT, Forked


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLORTERM", "truecolor")


@pytest.fixture(autouse=True)
def patient_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each key wait until everything that the previous key caused is done, which takes long on a busy machine."""
    monkeypatch.setattr(key_queue, "MAX_KEY_WAIT_S", DEADLINE_S)


@pytest.fixture(autouse=True, scope="package")
def cheaper(request: pytest.FixtureRequest) -> Iterator[None]:
    """Reduce the cost of a run of the app to a third: workers are forked, style sheets and signatures are read once.

    A screen is drawn when a test looks at it; in soak, also whenever something changes, as on a terminal.
    """
    with pytest.MonkeyPatch.context() as patch:
        if CAN_ADOPT:
            process = SimpleNamespace(Popen=Forked, PIPE=subprocess.PIPE, DEVNULL=subprocess.DEVNULL)
            patch.setattr(child_process, "subprocess", process)
        if request.config.getoption("markexpr") != "soak":
            patch.setattr(Compositor, "render_update", render_later)
        _share_styles(patch)
        _count_parameters_once(patch)
        yield


def _share_styles(patch: pytest.MonkeyPatch) -> None:
    """Make all apps share parsed style sheets, by the variables of their themes."""
    known: dict[tuple[tuple[str, str], ...], dict[tuple[Any, ...], list[RuleSet]]] = {}

    def begin(self: Stylesheet, *, variables: dict[str, str] | None = None) -> None:
        first_begin(self, variables=variables)
        share(self)

    def set_variables(self: Stylesheet, variables: dict[str, str]) -> None:
        self._parse_cache = {}  # type: ignore[assignment]
        first_set_variables(self, variables)
        share(self)

    def share(self: Stylesheet) -> None:
        self._parse_cache = known.setdefault(tuple(sorted(self._variables.items())), {})  # type: ignore[assignment]

    first_begin, first_set_variables = Stylesheet.__init__, Stylesheet.set_variables
    patch.setattr(Stylesheet, "__init__", begin)
    patch.setattr(Stylesheet, "set_variables", set_variables)


def _count_parameters_once(patch: pytest.MonkeyPatch) -> None:
    """Make Textual read the signature of each function once, not once for each closure and partial of it."""
    known: dict[tuple[CodeType, bool], int] = {}

    def count(function: Callable[..., object]) -> int:
        plain = getattr(function, "__func__", function)
        if not isinstance(plain, FunctionType) or hasattr(plain, "__wrapped__"):
            return first_count(function)
        key = plain.__code__, plain is function
        if key not in known:
            known[key] = first_count(function)
        return known[key]

    first_count = _callback._count_parameters
    patch.setattr(_callback, "_count_parameters", count)
