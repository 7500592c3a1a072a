"""Peers: what client and server say about themselves: names, revision, capabilities, instructions."""

from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from mcpproxy.tui.data.peers import PeerInfo, introductions
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.messages import CaptureGrown, PeersRead
from mcpproxy.tui.rows.peer_lines import Lines, peer_lines
from mcpproxy.tui.screen_entries import OpenCapture, ScreenEntry, bind_switches
from mcpproxy.tui.screens.titled_screen import TitledScreen
from mcpproxy.tui.widgets.clickable_line import ClickableLine
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.pane import Pane
from mcpproxy.wording.names import revisions_text
from mcpproxy.wording.spans import Span


class PeersScreen(TitledScreen):
    """The client and the server of one capture."""

    DEFAULT_CSS = """
    PeersScreen {
        & #peers { height: 1fr; padding: 0 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
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
        self._thread = ThreadPoolExecutor(1, "peers")
        bind_switches(self._bindings, "peers")

    @property
    def subject(self) -> Reading:
        """The capture."""
        return self.reading

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
        lines: Lines = peer_lines(self._peers, self.size.width - 4)
        self.query_one(Pane).renew_lines(lines or [[Span(empty_text, "dim")]])

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
