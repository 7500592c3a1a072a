"""The host: the part of the app that its screens and widgets may use.

Screens and widgets import this module and never the app, which imports them.
"""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from textual.app import App
from textual.screen import Screen

from analysis.rules.finding import Finding
from mcpproxy.sql.client import SqlClient
from mcpproxy.tui.colours.rules import ColourRules
from mcpproxy.tui.data.capture_list import CaptureList
from mcpproxy.tui.data.checking import CaptureChecker
from mcpproxy.tui.data.findings import Findings
from mcpproxy.tui.data.turn_query import TurnQuery
from mcpproxy.tui.keys.bindings import KeyBindings
from mcpproxy.tui.keys.queue import KeyQueue


class Host(App[None]):
    """The app that shows the screens of captures."""

    capture_list: CaptureList
    sql: SqlClient
    keys: KeyBindings
    key_queue: KeyQueue
    colour_rules: ColourRules
    checking: CaptureChecker
    return_crumbs: Sequence[str]
    """The breadcrumb of the screen to return to from another capture, without the list of sessions."""

    @abstractmethod
    def show(
        self, row: int, path: Path | None = None, *, is_detailed: bool = False, finding: Finding | None = None
    ) -> None:
        """Show the traffic with the cursor on an entry of the open capture, or of another capture.

        Args:
            row: the entry.
            path: the capture; None for the open one.
            is_detailed: whether the detail of the entry is open.
            finding: the finding whose place is selected in the detail.
        """

    @abstractmethod
    def show_frame(self, frame: int, path: Path) -> None:
        """Show the traffic of a capture at a record, above the current screen, which must not show another capture."""

    @abstractmethod
    def select(self, text: str, path: Path | None = None) -> None:
        """Show the traffic of the open capture, or of another capture, filtered by an expression."""

    @abstractmethod
    def query_turn(self, query: TurnQuery) -> None:
        """Show the calls of a turn above the list of sessions; `Esc` leads back to the row at the cursor."""

    @abstractmethod
    def leave(self) -> None:
        """Go back to the screen below, or to the capture from which this one was opened."""

    @abstractmethod
    def return_to(self, target: Screen[None]) -> None:
        """Go back to a screen below; if it is on top already, close its detail."""

    @abstractmethod
    def close_capture(self, path: Path) -> None:
        """Stop reading a capture if it is the open one; none of its screens may be shown."""

    @abstractmethod
    def findings(self, path: Path) -> Findings | None:
        """The findings of a capture, or None unless it is the open one."""

    @abstractmethod
    def announce_growth(self) -> None:
        """Tell the current screen, soon, that the open capture has grown, or that its ages have; for any thread."""

    @abstractmethod
    def check_again(self) -> None:
        """Check the open capture again from its beginning, after the worker process has died."""
