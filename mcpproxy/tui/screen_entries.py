"""Entries: how each screen is opened: its name, its key, and the capture that it shows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Final, Literal, TypeAlias

from textual.binding import Binding, BindingsMap
from textual.screen import Screen

from analysis.rules.finding import Finding
from mcpproxy.tui.data.reading import Reading

Opener: TypeAlias = Literal["sessions", "traffic", "both"]
_PLACES: Final = "LTOFECQ"
"""The keys of the places, in the order in which they are listed."""


@dataclass(frozen=True)
class OpenCapture:
    """A capture that is open, and where the user is in it."""

    reading: Reading
    """The reading of the capture. A thread continues it while the capture is open; screens must not close it."""
    row: int | None = None
    """The entry at the cursor."""
    filter_text: str | None = None
    """The filter with which the traffic is opened."""
    frame: int | None = None
    """The number of the record to go to, if its entry is not known yet."""
    is_detailed: bool = False
    """Whether the detail is opened at once."""
    finding: Finding | None = None
    """The finding in the row; its place is selected when the detail is opened."""
    limit: str = ""
    """The filter of the traffic from which a screen is opened: figures are limited to the calls that it selects."""
    is_at_longest_wait: bool = False
    """Whether to go to the call that has waited longest, with its exchange open."""

    @property
    def entry(self) -> int | None:
        """The entry to go to, or None if there is none or the record has not been read yet."""
        if self.row is None and self.frame is not None:
            return self.reading.index.entry_of_seq(self.frame)
        return self.row


@dataclass(frozen=True)
class ScreenEntry:
    """A screen that can be opened from another one."""

    key: str
    """The key that opens it; a capital letter if the screen is about a whole capture."""
    word: str
    """Its name in the footer and the palette."""
    create: Callable[[OpenCapture], Screen[None]]
    """Creates the screen. From the list of sessions, the capture at the cursor is passed."""
    opener: Opener = "both"
    """The main screens from which it opens."""
    help: str = ""
    """One line for `?`."""
    create_for_all: Callable[[Sequence[Path]], Screen[None]] | None = None
    """Creates the screen for all listed captures; None if the screen can show only one."""


@cache
def entries() -> tuple[ScreenEntry, ...]:
    """The entries of all modules in `mcpproxy.tui.screens`, always in the same order."""
    return tuple(sorted(_defined_entries(), key=lambda entry: (_PLACES + entry.key).find(entry.key)))


def places() -> Sequence[ScreenEntry]:
    """Returns the entries of the places: the screens about a whole capture, to which keys lead from everywhere."""
    return [entry for entry in entries() if entry.key in _PLACES]


def word_of(screen: Screen[Any]) -> str:
    """The word of a screen, such as `traffic` or `findings`; the name of its module if it has no entry."""
    module = type(screen).__module__
    word = module.rpartition(".")[2].replace("_", " ")
    return next((entry.word for entry in entries() if entry.create.__module__ == module), word)


def _defined_entries() -> Iterator[ScreenEntry]:
    package = import_module("mcpproxy.tui.screens")
    for module in iter_modules(package.__path__):
        entry = getattr(import_module(f"{package.__name__}.{module.name}"), "ENTRY", None)
        if isinstance(entry, ScreenEntry):
            yield entry


def entries_of(opener: Opener) -> Iterator[ScreenEntry]:
    """The entries of the screens that can be opened from a main screen."""
    return (entry for entry in entries() if entry.opener in (opener, "both"))


def bind_screens(bindings: BindingsMap, opener: Opener) -> None:
    """Add the keys that open screens."""
    _bind(bindings, entries_of(opener), "enter")


def bind_switches(bindings: BindingsMap, word: str) -> None:
    """Add the keys that lead from a screen, which `word` names, to the other screens of its capture."""
    _bind(bindings, (entry for entry in entries_of("traffic") if entry.word != word), "switch")


def _bind(bindings: BindingsMap, screen_entries: Iterable[ScreenEntry], action: str) -> None:
    for entry in screen_entries:
        bindings.key_to_bindings[entry.key] = [
            Binding(entry.key, f"app.{action}('{entry.key}')", entry.word, id=entry.word)
        ]
