"""Help: every key on one page; the keys of the screen from which it was opened come first."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import ClassVar, Final, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from mcpproxy.tui.host import Host
from mcpproxy.tui.screen_entries import entries
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Span
from mcpproxy.wording.wrapping import wrapped

MAX_WIDTH: Final = 104
"""The maximum width of the page, in cells."""
MAX_WIDTH_PERCENT: Final = 96
"""The maximum width of the page, in percent of the terminal's width."""
BORDERS_WIDTH: Final = 6
"""The width of the border, the padding and the scroll bar, in cells."""
KEYS_WIDTH: Final = 22
"""The width of the column with the keys, in cells."""
MIN_TEXT_WIDTH: Final = 8
"""The minimum width of the texts, in cells."""


class HelpRow(NamedTuple):
    """A row of the page."""

    keys: str
    """The default keys, or the heading of a section."""
    text: str = ""
    """What the keys do; empty for a heading."""
    names: str = ""
    """The names of these actions in `keys.toml`, in the same order; empty if the row is also about other actions."""


ROWS: Final = (
    HelpRow("everywhere"),
    HelpRow("↑ ↓  j k", "move"),
    HelpRow("PgUp PgDn  space", "page up, page down"),
    HelpRow("g G  Home End", "first row, last row"),
    HelpRow("/", "filter; Enter applies, Esc cancels, Tab completes, ↑ ↓ recall earlier filters", "filter"),
    HelpRow("?", "this help", "help"),
    HelpRow("ctrl+p", "all commands; light or dark theme"),
    HelpRow("Esc", "back"),
    HelpRow("H", "back to the list of sessions", "sessions"),
    HelpRow(".", "show the keys of all places, if the last line does not", "places"),
    HelpRow("q", "quit; sessions are not affected", "quit"),
    HelpRow("|", "choose the columns of this list", "columns"),
    HelpRow(
        "Space J K r", "there: show or hide, down, up, usual ones", "show-column column-down column-up usual-columns"
    ),
    HelpRow("sessions"),
    HelpRow("Enter", "open"),
    HelpRow("s", "sort by the next column"),
    HelpRow("w", "go to the call that waits longest"),
    HelpRow("=", "mark the capture; on another, compare both; again, compare with the one before", "compare"),
    HelpRow("e", "export the capture, or a report of it"),
    HelpRow("d", "delete the capture, after confirmation; never a live one", "delete"),
    HelpRow("traffic"),
    HelpRow("Enter  →  l", "open the detail"),
    HelpRow("←  h", "fold; back to the list"),
    HelpRow("→ ←", "unfold and fold the requests of a login; or click ▸ or ▾", "unfold-login fold-login"),
    HelpRow("Tab", "switch between list and detail", "panes"),
    HelpRow("1 2 3 4 5 6 7", "text, pretty, raw, hex, headers, exchange, findings"),
    HelpRow("/  n N", "in the detail: find text, go to the next and previous match"),
    HelpRow("z", "show the detail on the full screen, and back", "full"),
    HelpRow("< >", "make the detail smaller or larger", "smaller larger"),
    HelpRow("o", "save an image, sound or blob of the row to a new file", "save"),
    HelpRow("[ ]", "previous and next page of a long frame"),
    HelpRow("p", "go from a request to its response, and back", "pair"),
    HelpRow("P", "all calls that the same prompt caused, in SQL", "turn"),
    HelpRow("f", "follow the end", "follow"),
    HelpRow("n N", "next and previous match; without a filter, next and previous error or finding", "next previous"),
    HelpRow("!", "show only errors and requests without a response, or all rows again", "errors"),
    HelpRow("w", "the longest wait, and why; again: next", "waiting"),
    HelpRow("+ -", "show only rows that share a value with this row, or only those that do not", "include exclude"),
    HelpRow("Esc", "undo the sort order, then the filter's last term"),
    HelpRow("s", "sort by latency, size, status or time; or click a heading"),
    HelpRow(":", "go to a frame by its number", "go-to"),
    HelpRow("x", "switch between frames and exchanges", "exchanges"),
    HelpRow("b", "show only messages, or all records", "beside"),
    HelpRow("t", "times: since the start, since the row above (delta), wall clock", "times"),
    HelpRow("=", "mark the row; on another, compare both; again: with the call before"),
    HelpRow("m M '", "mark the row, add a note, go to the next mark", "mark note next-mark"),
    HelpRow("c", "copy as JSON, raw text, a JSON line, or a command that sends it again"),
    HelpRow("e", "export the listed or the marked rows", "export"),
    HelpRow("ctrl+t  Tab", "at its prompt: marked rows; complete"),
    HelpRow("findings"),
    HelpRow("Enter", "go to the frame; on a rule: fold or unfold it"),
    HelpRow("← →  h l", "fold and unfold a rule, or identical findings"),
    HelpRow("r", "show the rule's page; in the traffic, one page per rule with findings in the row", "rule"),
    HelpRow("c", "check again, if the process that reads captures has died"),
    HelpRow("comparison"),
    HelpRow("Enter  o", "go to the frame of the new side, of the old side"),
    HelpRow("1 2 3 4 5", "changes, not compared, latency, sizes, ignored values"),
    HelpRow("x", "swap the sides: compare the other way round", "swap"),
    HelpRow("r", "show the page of the kind of change"),
    HelpRow("/  n N", "in the detail: find text, go to the next and previous match"),
    HelpRow("z", "show the detail on the full screen, and back"),
    HelpRow("c", "compare again, up to the present ends of the captures"),
    HelpRow("row comparison"),
    HelpRow("n N", "next and previous difference"),
    HelpRow("Enter  o", "go to the frame of the new side, of the old side"),
    HelpRow("x", "swap the sides"),
    HelpRow("/", "find text"),
    HelpRow("timeline"),
    HelpRow("+ -  ← →", "zoom around the cursor, pan"),
    HelpRow("n N", "next and previous server"),
    HelpRow("o", "fold or unfold a server; or click its row", "fold-server"),
    HelpRow("a", "unfold or fold all servers"),
    HelpRow("z u 0", "fit the item at the cursor, the start-up, or everything", "fit startup whole"),
    HelpRow("Enter", "show the exchange in the traffic; on a row of a heat map: its calls"),
    HelpRow("latency, tools"),
    HelpRow("A", "figures of all calls, or of the filter", "limit"),
    HelpRow("s", "sort by the next column"),
    HelpRow("Enter", "in latency: show the traffic of that kind or bucket; in tools: the definition"),
    HelpRow(
        "w W  a",
        "in latency: go to the slowest call of the row, of all rows; one axis for all shapes",
        "slowest slowest-of-all axis",
    ),
    HelpRow("1 2  /", "in tools: show the definition as text or JSON; find text in it"),
    HelpRow("[ ]  c", "in tools: previous and next version; show the calls"),
    HelpRow("peers"),
    HelpRow("↑ ↓  j k", "scroll what client and server say about themselves"),
    HelpRow("stderr"),
    HelpRow("Enter", "show the traffic at that time"),
    HelpRow("f t", "follow the end; change the times"),
    HelpRow("stream"),
    HelpRow("d", "both directions, the client's, the server's", "direction"),
    HelpRow("s", "the HTTP exchange, or the session", "scope"),
    HelpRow("/  n N", "find text; next and previous match"),
    HelpRow("[ ]", "previous and next page"),
    HelpRow("Enter", "go to the frame at the top, or of the match"),
    HelpRow("f t", "follow the end; show or hide times"),
    HelpRow("e o", "write the bytes to a file"),
    HelpRow("sql"),
    HelpRow("Enter  Ctrl+J", "run the query; begin a new line"),
    HelpRow("Tab", "complete a name; go to the rows, and back"),
    HelpRow("/ i", "go back to the box"),
    HelpRow("Enter  o", "in the rows: the frame; all of the row"),
    HelpRow("← →  v", "other columns; the tables and views"),
    HelpRow("Enter  ← →", "in the tree: insert the name; fold, unfold"),
    HelpRow("y  e", "copy or export the result as CSV or JSON lines"),
    HelpRow("Ctrl+R", "reload captures that have grown, and run the query again"),
    HelpRow("mouse"),
    HelpRow("wheel", "scroll what is under the pointer"),
    HelpRow("click", "a row, a heading, a key, a view, a fold, a place in the title; double-click a row to open it"),
    HelpRow("drag", "the border of the detail, a scroll bar"),
    HelpRow("marks"),
    HelpRow("◆", "a marked row"),
    HelpRow("● ○ ✝ ▲", "live, ended, died, lost records"),
    HelpRow("✗ ! ·", "number of findings: errors, warnings, notes"),
    HelpRow("→ ←", "to the server, to the client; ! breaks a rule, ✗ is not a message"),
)
_SIGNS: Final = {"escape": "Esc", "enter": "Enter", "left": "←", "right": "→", "tab": "Tab"}
"""The names on this page of keys that bindings call something else."""


def current_keys(row: HelpRow, keymap: Mapping[str, str]) -> str:
    """The current keys for the actions of a row."""
    names = row.names.split()
    if not any(name in keymap for name in names):
        return row.keys
    return " ".join(keymap.get(name, key) for name, key in zip(names, row.keys.split(), strict=True))


def help_text(name: str, word: str = "", keys: str = "") -> str:
    """What an action does, or an empty text if this page does not say.

    Args:
        name: its name in `keys.toml`.
        word: the screen that it belongs to, such as `traffic`.
        keys: its default keys as bindings name them, such as `c` or `right,l`.
    """
    by_name = next((row.text for row in ROWS if name in row.names.split()), "")
    if by_name or not keys:
        return by_name
    key_names = {_SIGNS.get(key, key) for key in keys.split(",")}
    own_rows = (row for section in _sections() if _is_about(section, word) for row in section)
    return next((row.text for row in own_rows if not row.names and key_names & set(row.keys.split())), "")


def ordered_rows(word: str) -> list[HelpRow]:
    """All rows; the sections about the screen that `word` names, such as `traffic`, come first."""
    sections = sorted(_sections(), key=lambda section: not _is_about(section, word))
    return [row for section in sections for row in section]


def _sections() -> list[list[HelpRow]]:
    """The rows, section by section; each begins with its heading."""
    sections: list[list[HelpRow]] = []
    for row in ROWS:
        if not row.text:
            sections.append([])
        sections[-1].append(row)
    return sections


def _is_about(section: Sequence[HelpRow], word: str) -> bool:
    return word in section[0].keys.split(", ")


class HelpScreen(ModalScreen[None]):
    """The page with all keys."""

    app: Host

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen Pane { width: 104; max-width: 96%; height: 90%; border: round $accent; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "app.pop_screen", "back", id="back"),
    ]

    def __init__(self, word: str) -> None:
        """Create the page for the screen that `word` names."""
        super().__init__()
        self._word = word

    def compose(self) -> ComposeResult:
        """The page."""
        yield Pane(id="help")

    def on_mount(self) -> None:
        """Focus the page, so that keys scroll it."""
        self.query_one("#help", Pane).focus()

    def on_resize(self, event: events.Resize) -> None:
        """Fill the page, and wrap long texts."""
        keymap: Mapping[str, str] = self.app.keys.keymap
        screen_rows = [(keymap.get(entry.word, entry.key), entry.help or entry.word) for entry in entries()]
        custom_keys = [(keys, name) for name, keys in keymap.items()]
        rows = [
            *((current_keys(row, keymap), row.text) for row in ordered_rows(self._word)),
            *([("screens of a capture", "")] if screen_rows else []),
            *screen_rows,
            *([("your keys, from keys.toml", "")] if custom_keys else []),
            *custom_keys,
        ]
        width = min(MAX_WIDTH, event.size.width * MAX_WIDTH_PERCENT // 100) - BORDERS_WIDTH
        lines: list[list[Span]] = []
        for keys, text in rows:
            if not text:
                lines += [[Span(line, "accent")] for line in wrapped(keys, max(MIN_TEXT_WIDTH, width))]
                continue
            key_lines = list(wrapped(keys, KEYS_WIDTH - 3))
            for key, line in zip_longest(
                key_lines, wrapped(text, max(MIN_TEXT_WIDTH, width - KEYS_WIDTH)), fillvalue=""
            ):
                lines.append([Span(f"  {key}{' ' * (KEYS_WIDTH - 2 - cells(key))}"), Span(line, "dim")])
        self.query_one("#help", Pane).show_lines(lines)
