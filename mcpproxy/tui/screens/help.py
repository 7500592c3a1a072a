"""Help: every key, on one page; those of the screen that it was opened from come first."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from mcpproxy.report.text import Span, cells
from mcpproxy.report.wrapping import wrapped
from mcpproxy.tui.screen_entries import entries
from mcpproxy.tui.widgets.pane import Pane

WIDTH: Final = 104
SHARE: Final = 96
"""The maximum width, in percent of the terminal's."""
BORDERS: Final = 6
"""Cells of the border, the padding and the scroll bar."""
MARGIN: Final = 22
"""Cells of the column with the keys."""
LEAST: Final = 8
"""The least width of the texts, in cells."""

KEYS: Final = (
    ("everywhere", ""),
    ("↑ ↓  j k", "move"),
    ("PgUp PgDn  space", "a screenful"),
    ("g G  Home End", "first, last"),
    ("/", "filter; Enter applies, Esc cancels, Tab completes, ↑ ↓ earlier filters"),
    ("?", "this page"),
    ("ctrl+p", "all commands, and light or dark"),
    ("Esc", "back"),
    ("q", "quit; sessions are not affected"),
    ("sessions", ""),
    ("Enter", "open"),
    ("s", "sort by the next column"),
    ("d", "delete the capture, after a question; never a live one"),
    ("traffic", ""),
    ("Enter  →  l", "detail"),
    ("←  h", "fold; back to the list"),
    ("Tab", "list or detail"),
    ("1 2 3 4 5 6 7", "text, pretty, raw, hex, headers, exchange, findings"),
    ("/  n N", "in the detail: find a text, next and previous match"),
    ("z", "the detail on the whole screen, and back"),
    ("< >", "a smaller or larger detail"),
    ("o", "save an image, a sound or a blob of the row to a new file"),
    ("[ ]", "pages of a long frame"),
    ("p", "from a request to its response, and back"),
    ("f", "follow the end"),
    ("n N", "next and previous match of the filter; without a filter, errors and findings"),
    ("!", "errors only, or no longer only errors"),
    ("+ -", "only rows with a value of this row, only rows without it"),
    ("Esc", "takes back the order, then the filter's last term"),
    ("s", "sort by latency, size, status, time; so does a click on a heading"),
    (":", "go to the frame with a number"),
    ("x", "frames or exchanges"),
    ("b", "messages only, or the records beside them too"),
    ("t", "times: since the start, since the row above (delta), wall clock"),
    ("m M '", "mark, note, next mark"),
    ("c", "copy as JSON, raw text, a line of JSON, or a command that sends it again"),
    ("e", "export the rows shown as JSON lines"),
    ("findings", ""),
    ("Enter", "go to the frame; on a rule: fold"),
    ("← →  h l", "fold and unfold identical findings, and a rule"),
    ("r", "the page of the rule; so in the traffic, for the findings in the row"),
    ("c", "check again, if the process that runs the rules has died"),
    ("timeline", ""),
    ("+ -  ← →", "zoom around the cursor, pan"),
    ("n N", "next and previous server"),
    ("o", "fold or unfold a server; so does a click on its row"),
    ("a", "unfold all servers, or fold all"),
    ("z u 0", "fit the item at the cursor, the start-up, everything"),
    ("Enter", "go to the exchange in the traffic of its capture; on a row of a heat map: to its calls"),
    ("latency, tools", ""),
    ("s", "sort by the next column"),
    ("Enter", "in latency: the traffic of that kind or bucket; in tools: the definition"),
    ("w W  a", "in latency: the slowest call of the row, and of all; one axis for all shapes"),
    ("1 2  /", "in tools: the definition as text or JSON; find in it"),
    ("[ ]  c", "in tools: previous and next definition; the calls"),
    ("peers", ""),
    ("↑ ↓  j k", "read on: what client and server say about themselves"),
    ("stderr", ""),
    ("Enter", "the traffic at that time"),
    ("f t", "follow the end; time"),
    ("sql", ""),
    ("Enter  Ctrl+J", "run; a new line"),
    ("Tab", "complete; then to the rows and back"),
    ("Enter  o", "in the rows: the frame in the traffic; all of the row"),
    ("← →  v", "in the rows: other columns; the tables and views"),
    ("y  e", "copy and export the result as CSV or JSON lines"),
    ("Ctrl+R", "load captures that have grown, and run the query again"),
    ("marks", ""),
    ("◆", "a marked row"),
    ("● ○ ✝ ▲", "live, ended, died, lost records"),
    ("✗ ! ·", "findings: errors, warnings, notes, and how many"),
    ("→ ←", "to the server, to the client; ! breaks a rule, ✗ is not a message"),
)

NAMED: Final = {
    "?": "help",
    "q": "quit",
    "/": "filter",
    "Tab": "panes",
    "p": "pair",
    "f": "follow",
    "n N": "next previous",
    "!": "errors",
    "+ -": "include exclude",
    ":": "go-to",
    "x": "exchanges",
    "b": "beside",
    "t": "times",
    "m M '": "mark note next-mark",
    "e": "export",
    "z": "full",
    "< >": "smaller larger",
    "r": "rule",
    "o": "fold-server",
    "z u 0": "fit startup whole",
}
"""The actions of these keys, by their names in `keys.toml`."""


def in_force(keys: str, keymap: Mapping[str, str]) -> str:
    """The current keys for the actions of some default keys."""
    names = NAMED.get(keys, "").split()
    if not any(name in keymap for name in names):
        return keys
    own = keys.split()
    return " ".join(keymap.get(name, key) for name, key in zip(names, own, strict=True))


def help_of(name: str) -> str:
    """What a key does, by its name in `keys.toml`; empty if this page does not say."""
    keys = next((keys for keys, names in NAMED.items() if name in names.split()), "")
    return next((text for shown, text in KEYS if text and shown == keys), "")


def ordered(word: str) -> list[tuple[str, str]]:
    """The keys, those of a screen first; the screen is given by its word, such as `traffic`."""
    sections: list[list[tuple[str, str]]] = []
    for row in KEYS:
        if not row[1]:
            sections.append([])
        sections[-1].append(row)
    sections.sort(key=lambda section: word not in section[0][0].split(", "))
    return [row for section in sections for row in section]


class HelpScreen(ModalScreen[None]):
    """The keys."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen Pane { width: 104; max-width: 96%; height: 90%; border: round $accent; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "app.pop_screen", "back", id="back"),
    ]

    def __init__(self, word: str) -> None:
        """The page for a screen, given by its word."""
        super().__init__()
        self._word = word

    def compose(self) -> ComposeResult:
        """The page."""
        yield Pane(id="help")

    def on_mount(self) -> None:
        """Focus it, so that it can be read."""
        self.query_one("#help", Pane).focus()

    def on_resize(self, event: events.Resize) -> None:
        """Fill it: long texts are wrapped."""
        keymap: Mapping[str, str] = getattr(getattr(self.app, "keys", None), "keymap", {})
        more = [(keymap.get(entry.word, entry.key), entry.help or entry.word) for entry in entries()]
        own = [(keys, name) for name, keys in keymap.items()]
        rows = [
            *((in_force(keys, keymap) if text else keys, text) for keys, text in ordered(self._word)),
            *([("screens of a capture", "")] if more else []),
            *more,
            *([("your keys, from keys.toml", "")] if own else []),
            *own,
        ]
        room = min(WIDTH, event.size.width * SHARE // 100) - BORDERS
        lines: list[list[Span]] = []
        for keys, text in rows:
            if not text:
                lines += [[Span(line, "accent")] for line in wrapped(keys, max(LEAST, room))]
                continue
            key_lines = list(wrapped(keys, MARGIN - 3))
            for key, line in zip_longest(key_lines, wrapped(text, max(LEAST, room - MARGIN)), fillvalue=""):
                lines.append([Span(f"  {key}{' ' * (MARGIN - 2 - cells(key))}"), Span(line, "dim")])
        self.query_one("#help", Pane).show_lines(lines)
