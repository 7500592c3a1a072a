"""Help: all keys on one page, in columns; those of the screen from which it was opened come first."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from analysis.filter import KEYS
from analysis.protocol.revisions import LAST_HANDSHAKE_REVISION
from captures.paths import config_directory
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.host import Host
from mcpproxy.tui.keys.spelling import keys_text
from mcpproxy.tui.rows.help_page import HelpSection, page_lines
from mcpproxy.tui.safe_text import SafeText
from mcpproxy.tui.screen_entries import places
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.tui.widgets.word_box import WordBox
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Span

FRAME_CELLS: Final = 5
"""The cells of a line of the page that are not text: its frame, its padding and its scroll bar."""


class HelpRow(NamedTuple):
    """A row of the page."""

    keys: str
    """The default keys, or the heading of a section."""
    text: str = ""
    """What the keys do; empty for a heading."""
    names: str = ""
    """The names of these actions in `keys.toml`, in the same order; empty if the row is also about other actions."""


ROWS: Final = (
    HelpRow("sessions"),
    HelpRow("Enter", "open"),
    HelpRow("s", "sort by the next column"),
    HelpRow("/", "filter by words as you type"),
    HelpRow("=", "mark; on another: compare", "compare"),
    HelpRow("= =", "compare with the previous one"),
    HelpRow("!", "what failed in it, or waits"),
    HelpRow("w", "the call that has waited longest"),
    HelpRow("S", "search all sessions for a text", "search"),
    HelpRow("e", "export the capture, or a report"),
    HelpRow("d", "delete, after confirmation", "delete"),
    HelpRow("Esc", "undo mark, filter"),
    HelpRow("traffic"),
    HelpRow("Enter  →  l", "open the detail"),
    HelpRow("!", "what failed or waits, or all", "errors"),
    HelpRow("w", "the longest wait, and why", "waiting"),
    HelpRow("s", "sort: latency, size, status"),
    HelpRow("p", "to the answer, and back", "pair"),
    HelpRow("/", "filter by an expression"),
    HelpRow("Ctrl+S", "in the filter: save it; @name", "save-filter"),
    HelpRow("+ -", "only rows like this, or unlike", "include exclude"),
    HelpRow("n N", "next, previous match or error", "next previous"),
    HelpRow("=", "mark; on another row: compare"),
    HelpRow("= =", "compare with the previous call"),
    HelpRow("f", "follow the end", "follow"),
    HelpRow("x", "one row for each exchange", "exchanges"),
    HelpRow("b", "only messages, or all records", "beside"),
    HelpRow("t", "times: start, delta, clock", "times"),
    HelpRow(":", "go to a frame by number", "go-to"),
    HelpRow("P", "calls of this prompt, in SQL", "turn"),
    HelpRow("m M '", "mark, note, next mark", "mark note next-mark"),
    HelpRow("c", "copy as JSON, text, command"),
    HelpRow("e", "export the listed or marked rows", "export"),
    HelpRow("Ctrl+T", "in that prompt: the other rows", "other-rows"),
    HelpRow("R", "the raw bytes of both sides"),
    HelpRow("→ ←", "unfold, fold a login or stderr", "unfold-login fold-login"),
    HelpRow("Esc", "undo mark, order, filter"),
    HelpRow("traffic: detail"),
    HelpRow("1 2 3 4", "text, pretty, raw, hex"),
    HelpRow("5 6 7", "headers, exchange, findings"),
    HelpRow("Tab", "between list and detail", "panes"),
    HelpRow("←  h", "fold; back to the list"),
    HelpRow("/  n N", "find text; next, previous match"),
    HelpRow("z", "full screen, and back", "full"),
    HelpRow("< >", "smaller, larger", "smaller larger"),
    HelpRow("[ ]", "page of a long frame"),
    HelpRow("o", "save an image, sound or blob", "save"),
    HelpRow("r", "pages of the row's rules"),
    HelpRow("findings"),
    HelpRow("Enter", "to the frame; on a rule: fold"),
    HelpRow("← →  h l", "fold, unfold"),
    HelpRow("r", "the page of the rule", "rule"),
    HelpRow("/", "filter by words; a rule as id/*"),
    HelpRow("c", "check again, if the worker died"),
    HelpRow("page"),
    HelpRow("↑ ↓  j k", "scroll"),
    HelpRow("Esc  r", "back"),
    HelpRow("comparison"),
    HelpRow("Enter  o", "frame: new side, old side"),
    HelpRow("1 2 3", "changes, not compared, latency"),
    HelpRow("4 5", "sizes, ignored values"),
    HelpRow("x", "swap the sides", "swap"),
    HelpRow("r", "the page of the kind of change"),
    HelpRow("/  n N", "find text in the detail"),
    HelpRow("z", "detail on the full screen"),
    HelpRow("c", "compare again"),
    HelpRow("row comparison"),
    HelpRow("n N", "next, previous difference"),
    HelpRow("Enter  o", "row: new side, old side"),
    HelpRow("x", "swap the sides"),
    HelpRow("/", "find text"),
    HelpRow("latency"),
    HelpRow("Enter", "calls of the kind or bucket"),
    HelpRow("w W", "slowest call: here, of all", "slowest slowest-of-all"),
    HelpRow("s", "sort by the next column"),
    HelpRow("Tab", "to the histogram, and back"),
    HelpRow("A", "all calls, or the filtered ones", "limit"),
    HelpRow("a", "own axis for each shape", "axis"),
    HelpRow("timeline"),
    HelpRow("Enter", "the exchange in the traffic"),
    HelpRow("+ -  ← →", "zoom around the cursor, pan"),
    HelpRow("z u 0", "fit: this, start-up, all", "fit startup whole"),
    HelpRow("n N", "next, previous server"),
    HelpRow("o", "fold a server; or click its row", "fold-server"),
    HelpRow("a", "fold or unfold all servers"),
    HelpRow("A", "all calls, or the filtered ones"),
    HelpRow("f", "follow the end"),
    HelpRow("tools"),
    HelpRow("Enter", "the definition"),
    HelpRow("1 2", "as text, as JSON"),
    HelpRow("[ ]", "previous, next version"),
    HelpRow("c", "the calls of the tool"),
    HelpRow("A", "all calls, or the filtered ones"),
    HelpRow("s", "sort by the next column"),
    HelpRow("/  n N", "find text in the definition"),
    HelpRow("stderr"),
    HelpRow("Enter", "the traffic at that time"),
    HelpRow("f t", "follow the end; change the times"),
    HelpRow("peers"),
    HelpRow("↑ ↓  j k", "scroll"),
    HelpRow("Tab", "mark the next message (▸)"),
    HelpRow("Enter", "go to the marked message"),
    HelpRow("c", "copy the marked message"),
    HelpRow("stream"),
    HelpRow("d", "both sides, client, server", "direction"),
    HelpRow("s", "HTTP exchange, or session", "scope"),
    HelpRow("/  n N", "find text; next, previous match"),
    HelpRow("[ ]", "previous, next page"),
    HelpRow("Enter", "to the frame of the top line"),
    HelpRow("f t", "follow the end; show or hide times"),
    HelpRow("e o", "write the bytes to a file"),
    HelpRow("sql"),
    HelpRow("Enter  Ctrl+J", "run; new line"),
    HelpRow("Tab", "complete; to the rows, back"),
    HelpRow("/ i", "back to the box"),
    HelpRow("Enter  o", "rows: the frame; whole row"),
    HelpRow("← →  v", "other columns; tables and views"),
    HelpRow("Enter  ← →", "tree: insert; fold, unfold"),
    HelpRow("y  e", "copy, export the result"),
    HelpRow("Ctrl+R", "reload, and run again"),
    HelpRow("everywhere"),
    HelpRow("↑ ↓  j k", "move"),
    HelpRow("PgUp PgDn", "page up, page down (space)"),
    HelpRow("g G  Home End", "first row, last row"),
    HelpRow("/", "filter; Tab completes", "filter"),
    HelpRow("|", "choose the columns", "columns"),
    HelpRow("?", "this help", "help"),
    HelpRow("F1", "the same, also while you type"),
    HelpRow("Ctrl+P", "all commands; themes"),
    HelpRow("Esc", "back"),
    HelpRow("q", "quit; sessions go on", "quit"),
    HelpRow("column choice"),
    HelpRow("Space", "show or hide the column", "show-column"),
    HelpRow("J K r", "down, up; the default columns", "column-down column-up usual-columns"),
    HelpRow("Enter", "keep the choice"),
    HelpRow("mouse"),
    HelpRow("wheel", "scroll what is under the pointer"),
    HelpRow("click", "row, heading, key, view, fold"),
    HelpRow("double-click", "open the row"),
    HelpRow("drag", "border of detail, scroll bar"),
    HelpRow("signs"),
    HelpRow("● ○ ✝ ▲", "live, ended, died, lost records"),
    HelpRow("✗ ! ·", "findings: errors, warnings, notes"),
    HelpRow("→ ←", "to the server, to the client"),
    HelpRow("←! ←✗", "breaks a rule; is not a message"),
    HelpRow("◆", "a marked row"),
)
PLACE_ROWS: Final = (
    HelpRow("H", "the list of sessions", "sessions"),
    HelpRow(".", "show these in a small terminal", "places"),
)
FILTER_HEADING: Final = "filter language"
MAX_EXAMPLE_CELLS: Final = 20
"""The maximum width of the examples of the filter language, in cells."""
_OPERATOR_ROWS: Final = (
    ("a b", "both"),
    ("a or b", "either, or both"),
    ("not (a or b)", "neither"),
    ("word", "this text; or in quotes"),
)
_WORDS_SCREEN: Final = "sessions"
_WORD_ROWS: Final = (
    ("live cursor", "sessions with both words"),
    ("live ended died", "the state"),
    ("stdio http", "the transport"),
    (LAST_HANDSHAKE_REVISION, "the revision, or part of it"),
    ("exit 1", "how it ended"),
)
_FILE_ROWS: Final = (
    ("colours.toml", "colours of rows, by filters, such as:"),
    ("", "[colours]"),
    ("", '"latency>1s" = "yellow bold"'),
    ("keys.toml", "keys of your own, such as:"),
    ("", "[keys]"),
    ("", 'pair = "P"'),
)
_SIGNS: Final = {"escape": "Esc", "enter": "Enter", "left": "←", "right": "→", "tab": "Tab", "slash": "/"}
"""The names on this page of keys that bindings call something else."""


def current_keys(row: HelpRow, keymap: Mapping[str, str]) -> str:
    """The current keys for the actions of a row."""
    names = row.names.split()
    if not any(name in keymap for name in names):
        return row.keys
    return " ".join(
        keys_text(keymap[name]) if name in keymap else key for name, key in zip(names, row.keys.split(), strict=True)
    )


def help_text(name: str, word: str = "", keys: str = "") -> str:
    """Returns what an action does, or an empty text if this page does not say.

    What the section of the screen says comes first: a key may do the same thing to something else on another screen.

    Args:
        name: its name in `keys.toml`.
        word: the screen that it belongs to, such as `traffic`.
        keys: its default keys as bindings name them, such as `c` or `right,l`.
    """
    own_rows = [row for section in _sections() if _is_about(section, word) for row in section]
    key_names = {_SIGNS.get(key, key) for key in keys.split(",")}
    rows = (
        *(row for row in own_rows if name in row.names.split()),
        *(row for row in own_rows if not row.names and key_names & set(row.keys.split())),
        *(row for row in (*ROWS, *PLACE_ROWS) if name in row.names.split()),
    )
    return rows[0].text if rows else ""


def help_sections(word: str, keymap: Mapping[str, str]) -> list[HelpSection]:
    """The sections of the page: those about a screen first, then the filter language, the places, and the others.

    Args:
        word: the screen, such as `traffic`.
        keymap: the user's keys, by the names of their actions.
    """
    sections = [
        HelpSection(rows[0].keys, [(current_keys(row, keymap), row.text) for row in rows[1:]]) for rows in _sections()
    ]
    own_count = sum(_is_about(rows, word) for rows in _sections())
    sections.sort(key=lambda section: not _is_about([HelpRow(section.heading)], word))
    filter_rows = [(key.example, key.meaning) for key in KEYS.values()]
    filter_section = HelpSection(FILTER_HEADING, [*_OPERATOR_ROWS, *filter_rows], MAX_EXAMPLE_CELLS)
    # The list of sessions has only words to filter by.
    by_words = word == _WORDS_SCREEN
    word_section = HelpSection("words of its filter", list(_WORD_ROWS), MAX_EXAMPLE_CELLS)
    folder = sanitise(str(config_directory() or "~/.config/mcpproxy"))
    file_section = HelpSection("your files", [("folder", folder), *_FILE_ROWS])
    place_rows = [
        *((keys_text(keymap.get(entry.word, entry.key)), entry.help or entry.word) for entry in places()),
        *((current_keys(row, keymap), row.text) for row in PLACE_ROWS),
    ]
    user_rows = [(keys_text(keys), name) for name, keys in keymap.items()]
    return [
        *sections[:own_count],
        *([HelpSection("your keys, from keys.toml", user_rows)] if user_rows else []),
        word_section if by_words else filter_section,
        HelpSection("places", place_rows),
        *sections[own_count:],
        *([filter_section] if by_words else []),
        file_section,
    ]


def is_known_word(word: str) -> bool:
    """Whether the page has a section about a screen."""
    return any(_is_about(section, word) for section in _sections())


def _sections() -> list[list[HelpRow]]:
    """The rows, section by section; each begins with its heading."""
    sections: list[list[HelpRow]] = []
    for row in ROWS:
        if not row.text:
            sections.append([])
        sections[-1].append(row)
    return sections


def _is_about(section: Sequence[HelpRow], word: str) -> bool:
    return section[0].keys.partition(":")[0] == word


class HelpScreen(ModalScreen[None]):
    """The page with all keys."""

    app: Host

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen #page {
        width: 100%; height: 100%; background: $surface; border: round $accent; padding: 0 0 0 1;
        & #heading { height: 1; }
        & Pane { height: 1fr; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "find", "find", id="filter"),
        Binding("escape,q,question_mark", "back", "back", id="back"),
    ]

    def __init__(self, word: str) -> None:
        """Create the page for the screen that `word` names."""
        super().__init__()
        self._word = word
        self._found_count = 0

    def compose(self) -> ComposeResult:
        """The page."""
        with Vertical(id="page"):
            yield SafeText(id="heading")
            yield Pane(id="help")
            yield WordBox("words in key, text, heading", id="find")

    def on_mount(self) -> None:
        """Focus the page, so that keys scroll it; the first line says how much of it is in sight."""
        pane = self.query_one(Pane)
        pane.focus()
        for name in ("scroll_y", "size"):
            self.watch(pane, name, self._show_heading, init=False)

    @on(events.Resize)
    @on(WordBox.WordsChanged)
    def _fill(self) -> None:
        """Fill the page with the rows that contain the words."""
        words, width = self.query_one(WordBox).words, self.app.size.width - FRAME_CELLS
        lines, count = page_lines(help_sections(self._word, self.app.keys.keymap), words, width)
        self._found_count = count
        self.query_one(Pane).show_lines(lines)
        self._show_heading()

    def _show_heading(self) -> None:
        """Show the keys, and which lines are in sight if there are more."""
        words, pane = self.query_one(WordBox).words, self.query_one(Pane)
        found = Span(f"  find: {words} ({self._found_count:,})", "accent") if words else Span("  / find")
        spans = [Span(f"help: {self._word}", "accent"), found, Span("  ↑ ↓ scroll  Esc back", "dim")]
        top, height = int(pane.scroll_y), pane.scrollable_content_region.height
        if 0 < height < len(pane):
            position = f"  {top + 1:,}–{min(top + height, len(pane)):,} of {len(pane):,}"
            room = self.app.size.width - FRAME_CELLS - sum(cells(span.text) for span in spans)
            spans.append(Span(f"{position:>{max(0, room)}}", "dim"))
        self.query_one("#heading", SafeText).show(spans)

    def action_find(self) -> None:
        """Let the user type words that the rows must contain."""
        self.query_one(WordBox).edit()

    @on(WordBox.Cancelled)
    @on(WordBox.Confirmed)
    def _leave_box(self) -> None:
        self.query_one(WordBox).display = False
        self.query_one(Pane).focus()

    def action_back(self) -> None:
        """Show all rows again, or else close the page."""
        if not self.query_one(WordBox).clear_words():
            self.app.pop_screen()
