"""Palette: every command of the screen, one line each; typing shows only the lines that contain the words."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen

from mcpproxy.tui.host import Host
from mcpproxy.tui.safe_text import SafeText
from mcpproxy.tui.widgets.table import Column, MemoryRows, Table, TableLine
from mcpproxy.tui.widgets.word_box import WordBox
from mcpproxy.wording.spans import Span

COLUMNS: Final = (
    Column("name", "command", 20),
    Column("key", "key", 6),
    Column("what", "", 16, stretch=1, drop=1),
)


class PaletteCommand(NamedTuple):
    """A command of the palette."""

    name: str
    """Its name, which no other command has."""
    key: str
    """The key that does the same; empty if there is none."""
    what: str
    """What it does, in a few words."""
    run: Callable[[], Awaitable[object] | object]
    """Does it; called when the palette is closed."""
    group: str = "general"
    """The heading above it."""

    def rank(self, typed_text: str) -> int | None:
        """How well a text matches, the lowest number the best; None if one of its words is nowhere in the command."""
        if self.key and typed_text.strip() == self.key:
            return -1
        words = typed_text.casefold().split()
        name, text = self.name.casefold(), f"{self.name} {self.key} {self.what}".casefold()
        if not all(word in text for word in words):
            return None
        if not words or name.startswith(words[0]):
            return 0
        return 1 if words[0] in name else 2


class CommandRows(MemoryRows[PaletteCommand | str]):
    """Commands and the headings of their groups as the rows of a table."""

    def line(self, row: int) -> TableLine:
        """The cells of a command, or a heading."""
        command = self.items[row]
        if isinstance(command, str):
            return TableLine({"name": (Span(command, "dim"),)}, wide_column="name")
        return TableLine(
            {"name": (Span(command.name),), "key": (Span(command.key, "accent"),), "what": (Span(command.what, "dim"),)}
        )


class CommandBox(WordBox):
    """The line for words; the keys that show earlier texts elsewhere choose a command here."""

    class Stepped(Message):
        """A key for the next or previous command was pressed."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    def action_earlier(self, by: int) -> None:
        """Choose the previous or next command."""
        self.post_message(self.Stepped(-by))

    def action_complete(self) -> None:
        """Choose the next command."""
        self.post_message(self.Stepped(1))


class PaletteScreen(ModalScreen[None]):
    """The commands, above the screen that they act on."""

    app: Host

    DEFAULT_CSS = """
    PaletteScreen {
        align: center top; background: $background 60%;
        & #palette { width: 96; max-width: 100%; height: 80%; background: $surface; border: round $accent; }
        & CommandBox { display: block; }
        & Table { height: 1fr; }
        & .table--blurred { background: $primary-muted; text-style: bold; }
        & #nothing { display: none; padding: 0 1; }
    }
    """

    def __init__(self, commands: Sequence[PaletteCommand]) -> None:
        """Create the palette.

        Args:
            commands: the commands, those of the screen below first.
        """
        super().__init__()
        self._commands = commands
        self._rows = CommandRows()

    def compose(self) -> ComposeResult:
        """The box and the commands."""
        with Vertical(id="palette"):
            yield CommandBox("what to do: words in command, key, text", id="words")
            yield Table(COLUMNS, id="commands")
            yield SafeText(id="nothing")

    def on_mount(self) -> None:
        """Show all commands, and let the user type."""
        self.table.can_focus = False
        self.table.show(self._rows)
        self.query_one("#nothing", SafeText).show([Span("nothing matches", "dim")])
        self.query_one(CommandBox).edit()
        self._find()

    @property
    def table(self) -> Table:
        """The list of commands."""
        return self.query_one(Table)

    @on(WordBox.WordsChanged)
    def _find(self) -> None:
        """Show the commands that have the words, the best first."""
        typed_text = self.query_one(CommandBox).words
        ranked = [(rank, command) for command in self._commands if (rank := command.rank(typed_text)) is not None]
        found = [command for _, command in sorted(ranked, key=lambda pair: pair[0])]
        self._rows.items = found if typed_text.strip() else list(_with_headings(found))
        self.table.display = bool(ranked)
        self.query_one("#nothing").display = not ranked
        self.table.renew()
        self.table.go(0)
        # The first command, without scrolling the heading above it away, as the table may have no size yet.
        self.table.cursor = 1 if isinstance(self._rows.at(0), str) else 0

    @on(CommandBox.Stepped)
    def _step(self, event: CommandBox.Stepped) -> None:
        self._go(event.by)

    def _go(self, by: int) -> None:
        """Choose a command so many lines below, or above if negative; headings are no commands."""
        rows, start = self._rows, self.table.cursor
        position = max(0, min(start + by, len(rows) - 1))
        step = -1 if by < 0 else 1
        while isinstance(rows.at(position), str) and 0 <= position + step < len(rows):
            position += step
        if isinstance(rows.at(position), str):
            # Above the first heading, which stays in sight, is no command.
            position = start
        self.table.go(max(0, position - 1) if by < 0 else position)
        self.table.go(position)

    def on_key(self, event: events.Key) -> None:
        """Go a page up or down; the box does not use these keys."""
        if event.key in ("pageup", "pagedown"):
            self._go(self.table.page_rows * (1 if event.key == "pagedown" else -1))

    @on(WordBox.Confirmed)
    @on(Table.CellClicked)
    def _run(self) -> None:
        """Close the palette, and do what is chosen."""
        command = self._rows.at(self.table.cursor)
        if isinstance(command, PaletteCommand):
            self.app.pop_screen()
            self.app.call_later(command.run)

    @on(WordBox.Cancelled)
    def _close(self) -> None:
        self.app.pop_screen()


def _with_headings(commands: Iterable[PaletteCommand]) -> Iterator[PaletteCommand | str]:
    """Yields commands, and a heading before each group of them."""
    for group, members in groupby(commands, key=lambda command: command.group):
        yield group
        yield from members
