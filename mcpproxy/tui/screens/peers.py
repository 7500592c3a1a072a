"""Peers: what client and server say about themselves: names, revision, capabilities, instructions."""

from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from mcpproxy.tui.data.peers import PeerInfo, introductions
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.messages import CaptureGrown, PeersRead
from mcpproxy.tui.rows.peer_lines import PeerPage, peer_page
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screen_entries import OpenCapture, ScreenEntry, bind_switches
from mcpproxy.tui.screens.row_actions import RowActions
from mcpproxy.tui.screens.titled_screen import TitledScreen
from mcpproxy.tui.widgets.clickable_line import ClickableLine
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.wording.names import revisions_text
from mcpproxy.wording.spans import Span

MIN_WIDE_WIDTH: Final = 120
"""The width of the terminal, in cells, from which client and server are next to each other."""


class PeersScreen(TitledScreen):
    """The client and the server of one capture."""

    DEFAULT_CSS = """
    PeersScreen {
        & #peers { height: 1fr; padding: 0 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "open", priority=True, id="open"),
        Binding("tab", "mark(1)", "next message", priority=True, id="panes"),
        Binding("c", "copy", "copy", id="copy"),
        Binding("escape", "app.pop_screen", "back", id="back"),
        Binding("q", "app.quit", "quit", id="quit"),
        Binding("question_mark", "app.help", "help", id="help"),
    ]

    def __init__(self, capture: OpenCapture) -> None:
        """Create the screen of a capture.

        Args:
            capture: the capture; of several handshakes, the screen shows the last one before the row at the cursor.
        """
        super().__init__()
        self.reading, self.entry = capture.reading, capture.row
        self._peers: list[PeerInfo] = []
        self._settled_when_read = -1
        """The number of settled calls when the introductions were last read."""
        self._page = PeerPage([], ())
        self._marked = 0
        """The number of the introduction whose frame the keys open and copy."""
        self._thread = ThreadPoolExecutor(1, "peers")
        self._row_actions = RowActions(self, self.reading, lambda: self.marked_row)
        bind_switches(self._bindings, "peers")

    @property
    def subject(self) -> Reading:
        """The capture."""
        return self.reading

    @property
    def marked_row(self) -> int | None:
        """The row of the marked introduction."""
        marked_peers = self._peers[self._marked : self._marked + 1]
        return self.reading.index.entry_of_seq(marked_peers[0].frame) if marked_peers else None

    def compose(self) -> ComposeResult:
        """The title and the text."""
        yield ClickableLine(id="title")
        yield Pane(id="peers")
        yield Foot()

    def on_mount(self) -> None:
        """Start reading."""
        self.query_one(Pane).focus()
        self._read()

    def on_unmount(self) -> None:
        """Stop reading."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._row_actions.close()

    @on(CaptureGrown)
    @on(events.ScreenResume)
    def _read(self) -> None:
        """Read the introductions in a thread, unless they are complete or there is nothing new to read."""
        self.show_title()
        settled_count = len(self.reading.calls.settled)
        is_complete = any(peer.side == "server" for peer in self._peers)
        if settled_count == self._settled_when_read or (is_complete and self.entry is not None):
            return
        self._settled_when_read = settled_count

        def read_introductions() -> None:
            self.post_message(PeersRead(introductions(self.reading, self.entry)))

        self.app.key_queue.wait_for(self._thread.submit(read_introductions))

    @on(PeersRead)
    def _peers_read(self, event: PeersRead) -> None:
        peers = [introduction for introduction in event.introductions if isinstance(introduction, PeerInfo)]
        if peers != self._peers:
            self._peers = peers
        self._draw()

    def on_resize(self) -> None:
        """Wrap lines for the new width."""
        self.show_title()
        self._draw()

    def _draw(self) -> None:
        empty_text = (
            "neither side has said anything about itself yet"
            if not self.reading.has_ended
            else "neither side says anything about itself"
        )
        is_wide = self.size.width >= MIN_WIDE_WIDTH
        self._page = peer_page(self._peers, self.size.width - 4, is_wide=is_wide, marked=self._marked)
        self.query_one(Pane).renew_lines(self._page.lines or [[Span(empty_text, "dim")]])

    # ---- keys and clicks

    def action_mark(self, by: int) -> None:
        """Mark another introduction; after the last comes the first."""
        if self._peers:
            self._mark((self._marked + by) % len(self._peers))

    def _mark(self, number: int) -> None:
        self._marked = number
        self._draw()
        self.query_one(Pane).show_line(self._page.places[number].line)

    def action_open(self) -> None:
        """Go to the frame of the marked introduction."""
        row = self.marked_row
        if row is None:
            notify(self.app, "nothing is selected")
        else:
            self.app.show(row)

    def action_copy(self) -> None:
        """Copy the frame of the marked introduction, in a chosen form."""
        self._row_actions.copy()

    def on_click(self, event: events.Click) -> None:
        """Mark the introduction; another click on it goes to its frame."""
        pane = self.query_one(Pane)
        offset = event.get_content_offset(pane) if event.widget is pane else None
        number = self._page.introduction_at(int(pane.scroll_y) + offset.y, offset.x) if offset is not None else None
        if number is None:
            return
        if number == self._marked and event.chain > 1:
            self.action_open()
        else:
            self._mark(number)

    def show_title(self) -> None:
        """Update the title to match the screen."""
        revisions = revisions_text(self.reading.conversation.capture.revisions)
        spans = list[Span]()
        if revisions:
            spans.append(Span(f"  {revisions} in use", "dim"))
        if not self.reading.has_ended and not self.reading.is_live:
            spans.append(
                Span(f"  {100 * self.reading.interpreted_count // max(1, len(self.reading.index))}% …", "accent")
            )
        self.set_title(spans)


ENTRY: Final = ScreenEntry("C", "peers", PeersScreen, help="peers: what client and server say")
