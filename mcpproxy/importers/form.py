"""The forms of logs that can be imported. Each is a module in the package `forms`, found by its name.

The docstring of that module becomes its page in docs/imports; see the recipe in CONTRIBUTING.
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
    """A form of logs: the format of one program or tool."""

    title: str
    """A noun for such a log, with its article: `a HAR file`."""
    sniff: Callable[[bytes, str], bool]
    """Returns whether a log seems to have this form and no other. Its arguments are at most the first MiB of the log,
    and the last part of its path, which is empty for stdin. It must not raise."""
    read: Callable[[Log], Iterable[Item]]
    """Yields the items of a log in one pass. It raises `InvalidLine` if nothing in the log can be imported."""
    limitation: str = ""
    """A sentence for stderr about what such logs do not contain, without a full stop; empty if they lack nothing."""
    is_strict: bool = False
    """Whether a mistake in such a log makes the whole conversation or case useless. In logs of other forms, the import
    skips mistakes, and ends a capture where the same server is initialized again."""
    is_verbatim: bool = False
    """Whether frames are exactly the bytes that were sent. If not, rules about bytes report nothing."""
    generality: int = 0
    """Above 0 if logs of other forms can contain lines of this one: the form fits only if none with a lower number
    does."""


@cache
def forms() -> dict[str, Form]:
    """Returns all forms by name, as in `--from`, in alphabetical order."""
    names = sorted(module.name for module in iter_modules(package.__path__))
    return {name.replace("_", "-"): form_module(name).FORM for name in names}


def form_module(name: str) -> Any:
    """Returns the module of the form with this name."""
    module: ModuleType = import_module(f"{package.__name__}.{name.replace('-', '_')}")
    return module


def origin_of(header: Mapping[str, Any]) -> str | None:
    """Returns the origin of an imported capture, such as "from a HAR file", by its header; None if it was recorded."""
    name = header.get("imported")
    if name is None:
        return None
    form = forms().get(name) if isinstance(name, str) else None
    return f"from {form.title}" if form is not None else "from a log"


def fitting_forms(log: Log) -> list[str]:
    """Returns the names of the forms that a log seems to have."""
    fitting_names = [name for name, form in forms().items() if form.sniff(log.head, log.file_name)]
    lowest_generality = min((forms()[name].generality for name in fitting_names), default=0)
    return [name for name in fitting_names if forms()[name].generality == lowest_generality]
