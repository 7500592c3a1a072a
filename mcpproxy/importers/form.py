"""Formats of logs that can be imported: each is a module of the package `forms`, found by its name.

The docstring of the module is its page below docs/imports; see the recipe in CONTRIBUTING.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from mcpproxy.importers import forms as package
from mcpproxy.importers.log_items import Item
from mcpproxy.importers.source import Log


@dataclass(frozen=True)
class Form:
    """A format of logs."""

    title: str
    """What such a log is, after "is": `a HAR file`."""
    sniff: Callable[[bytes, str], bool]
    """Whether a log seems to have this form and no other, by at most its first MiB and the last part of its path, which
    is empty on stdin. It reads no further, and raises nothing."""
    read: Callable[[Log], Iterable[Item]]
    """Reads a log in one pass. It raises `InvalidLine` if nothing of the log can be imported."""
    lacks: str = ""
    """A sentence for stderr about what captures of such logs lack, without a full stop; empty if they lack nothing."""
    is_strict: bool = False
    """Whether a log is one conversation, or cases, that a mistake in it spoils; other logs are read around mistakes,
    and a capture ends where the same server is initialized again."""
    is_verbatim: bool = False
    """Whether frames are the bytes that crossed. If not, rules about bytes report nothing."""
    generality: int = 0
    """More than 0 if lines of this form are also in logs of other forms: it fits only if none with a lower number
    does."""


@cache
def forms() -> dict[str, Form]:
    """Returns every form, by its name as `--from` has it, in alphabetical order."""
    names = sorted(module.name for module in iter_modules(package.__path__))
    return {name.replace("_", "-"): form_module(name).FORM for name in names}


def form_module(name: str) -> Any:
    """Returns the module of a form, by its name."""
    module: ModuleType = import_module(f"{package.__name__}.{name.replace('-', '_')}")
    return module


def origin_of(header: Mapping[str, Any]) -> str | None:
    """Returns from what a capture was imported, as in "from a HAR file", by its header; None if it was recorded."""
    name = header.get("imported")
    if name is None:
        return None
    form = forms().get(name) if isinstance(name, str) else None
    return f"from {form.title}" if form is not None else "from a log"


def fitting_forms(log: Log) -> list[str]:
    """Returns the names of the forms that a log seems to have."""
    fitting = [name for name, form in forms().items() if form.sniff(log.head, log.file_name)]
    least = min((forms()[name].generality for name in fitting), default=0)
    return [name for name in fitting if forms()[name].generality == least]
