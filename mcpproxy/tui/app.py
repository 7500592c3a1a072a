"""The app: `mcpproxy tui`. It only reads capture files, so it can be opened and killed at any time.

To add a screen, write a module in `mcpproxy/tui/screens/` with a `Screen` and an `ENTRY`; nothing else has to change:

    class FindingsScreen(Screen[None]):
        def __init__(self, capture: OpenCapture) -> None: ...

    ENTRY = ScreenEntry("F", "findings", FindingsScreen, help="violations of the protocol's rules")

The key then appears in the footers, in `?` and in the palette. `capture.reading` has the `index` (the position of each
entry), the `conversation` (its two sides and its losses) and the `calls` (latency and outcome, as columns). A thread
extends it and posts `CaptureGrown` to the screen; a worker process supplies the rest, and `Checked` announces new
findings.
Work of more than a few milliseconds belongs in a thread: `StepThread` runs steps, and `messages.py` has the messages
it posts. `app.show(row)` shows the traffic at a row, and `app.select(text)` shows only the rows that a filter selects.
`host.py` declares everything in the app that screens may use.

Widgets (`Table`, `Pane`, `Reader`, `Split`, the boxes) bind the keys that work only while they have the focus. A screen
binds all other keys in one list, and has a method for each action. The method may delegate to a part of the screen: a
widget, or an object such as `Marking`. A screen creates its parts and passes them everything they need; they are not
base classes.

Text reaches the screen only through `mcpproxy.tui.safe_text` (`SafeText`, `notify`, or `Table` and `Pane` with
`Span`s), which sanitises it; `tests/mcpproxy/tui/test_boundary.py` searches the sources for any other way.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from textual import events
from textual._compositor import CompositorUpdate
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.theme import Theme

from analysis.garbage import make_collections_rare
from analysis.rules.finding import Finding
from captures.errors import CaptureError
from mcpproxy.clients.overview import RoutedServer
from mcpproxy.sql.client import SqlClient
from mcpproxy.tui.colours.depth import colour_depth
from mcpproxy.tui.colours.rules import ColourRules, read_colour_rules
from mcpproxy.tui.colours.terminal import limit_colours
from mcpproxy.tui.colours.themes import DARK, LIGHT, PALETTE_CSS, THEMES, theme_for
from mcpproxy.tui.data.capture_list import CaptureList
from mcpproxy.tui.data.checking import CaptureChecker
from mcpproxy.tui.data.findings import Findings
from mcpproxy.tui.data.reading import Reading
from mcpproxy.tui.data.step_thread import StepThread
from mcpproxy.tui.data.turn_query import TurnQuery
from mcpproxy.tui.drawn_cells import DrawnCells
from mcpproxy.tui.faults import fault_text
from mcpproxy.tui.host import Host
from mcpproxy.tui.keys import bindings
from mcpproxy.tui.keys.command_texts import command_text
from mcpproxy.tui.keys.queue import KeyQueue
from mcpproxy.tui.keys.spelling import key_text, keys_text
from mcpproxy.tui.layout_state import save_theme, saved_theme
from mcpproxy.tui.messages import CaptureGrown, CaptureUnreadable, Checked, OpenRequested
from mcpproxy.tui.news_pace import NewsPace
from mcpproxy.tui.safe_text import notify
from mcpproxy.tui.screen_entries import OpenCapture, entries, word_of
from mcpproxy.tui.screens.help import HelpScreen, help_text, is_known_word
from mcpproxy.tui.screens.list_screen import ListScreen
from mcpproxy.tui.screens.palette import PaletteCommand, PaletteScreen
from mcpproxy.tui.screens.sessions import SessionsScreen
from mcpproxy.tui.screens.sql import SqlScreen
from mcpproxy.tui.screens.timeline import TimelineScreen
from mcpproxy.tui.screens.titled_screen import TitledScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from mcpproxy.tui.suspension import Suspension
from mcpproxy.tui.terminal_input import TerminalDriver
from mcpproxy.tui.toasts import TOAST_CSS
from mcpproxy.tui.widgets.foot import Foot
from mcpproxy.tui.widgets.foot_keys import GENERAL_ACTIONS, rank_of
from mcpproxy.tui.widgets.pane import Pane

MAX_SCREEN_DEPTH: Final = 12
"""The maximum depth of the stack of screens; at this depth, all screens above the list of sessions are closed first."""
UNLISTED_IDS: Final = frozenset({"up", "down", "page-up", "page-down", "first", "last", "interrupt"})
"""The keys that the palette does not list: they move, or do what another one does."""
GLOBAL_ACTION_PREFIXES: Final = ("app.", "palette")
"""Prefixes of the actions that the palette always lists."""
SWITCH_INTERVAL_S: Final = 0.001
"""How long a reading thread may hold the interpreter before the drawing thread gets it."""


def _palette_rank(binding: Binding) -> tuple[bool, bool, int]:
    """Returns where the palette lists a binding: as in the foot, then those that the foot omits, then general ones."""
    return binding.action in GENERAL_ACTIONS, not binding.show, rank_of(binding.action)


class TuiApp(Host):
    """The list of sessions, and the screens of one capture."""

    CSS = PALETTE_CSS + TOAST_CSS
    TITLE = "mcpproxy"
    ENABLE_COMMAND_PALETTE = True
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-high")]  # noqa: RUF012 - Textual declares it for instances
    """Classes of screens by the number of lines: where there are few, the parts below a list are smaller."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "quit", show=False, priority=True, id="interrupt"),
        Binding("ctrl+z", "suspend_process", "suspend", show=False),
        # Where a text is typed, the other key for help is part of the text.
        Binding("f1", "app.help", "help", priority=True),
    ]

    def __init__(
        self,
        find_captures: Callable[[], list[Path]],
        empty_text: str,
        first_path: Path | None = None,
        routed_servers: Callable[[], Sequence[RoutedServer]] | None = None,
    ) -> None:
        """Create the app.

        Args:
            find_captures: returns the captures to list, newest first.
            empty_text: the text to show if there are none.
            first_path: a capture to open at once.
            routed_servers: returns the servers that clients route through mcpproxy; None to ignore them.
        """
        super().__init__(driver_class=TerminalDriver)
        self.capture_list = CaptureList(find_captures, routed_servers)
        self.sql = SqlClient()
        self.keys = bindings.KeyBindings({})
        self.colour_rules = ColourRules()
        self.key_queue = KeyQueue(self, super().on_event)
        self.checking = CaptureChecker(self._report_checked)
        self.news_pace: NewsPace
        """The pace at which screens hear of news about the open capture; exists once the app runs."""
        self._empty_text, self._first_path = empty_text, first_path
        self._drawn_cells = DrawnCells()
        self._suspension = Suspension(self)
        self._opened: tuple[Reading, StepThread] | None = None
        self._announced_rows = 0
        """The number of rows of the open capture when its growth was announced last."""
        self._return_to: tuple[Path, Callable[[OpenCapture], Screen[None]]] | None = None
        """The capture and screen to return to from another capture."""
        self.return_crumbs = ()
        self.fault: str | None = None
        """The error that has ended the app, and where it occurred."""
        self._foot_with_places: Foot | None = None
        """The foot that shows the places until the next key."""
        self.colour_depth = colour_depth(os.environ)
        limit_colours(self, self.colour_depth)
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = theme_for(self.colour_depth, is_light=saved_theme() == LIGHT.name).name

    def on_mount(self) -> None:
        """Show the sessions, or the capture named on the command line."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self.news_pace = NewsPace()
        if not self.is_headless:
            self._suspension.watch()
        make_collections_rare()  # each collection blocks the interpreter, and so the screen
        self.keys = bindings.read_keys()
        self.set_keymap(dict(self.keys.keymap))
        self.colour_rules = read_colour_rules()
        self.push_screen(SessionsScreen(self.capture_list, self._empty_text))
        if self._first_path is not None:
            self.open(self._first_path)
        errors = [*filter(None, [self.keys.errors]), *self.colour_rules.errors]
        if errors:
            notify(self, errors, bad=True)

    # Textual would print a traceback with the values of variables, which can be traffic; the command reports the fault.

    def _handle_exception(self, error: Exception) -> None:
        self.fault = self.fault or fault_text(error)
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()

    def _print_error_renderables(self) -> None:
        if self._exit_renderables:
            self.fault = self.fault or "unknown"
        self._exit_renderables.clear()

    def on_unmount(self) -> None:
        """Stop reading."""
        self._close_open_capture()
        self.news_pace.close()
        self.sql.close()
        self.checking.close()

    # ---- captures

    def on_open_requested(self, event: OpenRequested) -> None:
        """Show the traffic of a capture."""
        self.open(event.path, is_at_longest_wait=event.is_at_longest_wait, filter_text=event.filter_text)

    def open(self, path: Path, *, is_at_longest_wait: bool = False, filter_text: str | None = None) -> None:
        """Show the traffic of a capture; at the call that has waited longest, or filtered, if requested."""
        capture = self.open_capture(path)
        if capture is not None:
            wanted = replace(capture, is_at_longest_wait=is_at_longest_wait, filter_text=filter_text)
            self.push_screen(TrafficScreen(wanted))

    def open_capture(self, path: Path) -> OpenCapture | None:
        """Start reading a capture; returns None, and notifies the user, if it cannot be read."""
        if self._opened is not None and self._opened[0].path == path:
            return OpenCapture(self._opened[0])
        self._close_open_capture()
        try:
            reading = Reading(path)
        except CaptureError as error:
            notify(self, str(error), bad=True)
            return None
        self._opened = (
            reading,
            StepThread(reading.follow, self.announce_growth, lambda reason: self._report_failure(path, reason)),
        )
        self.checking.read(reading)
        return OpenCapture(reading)

    def show(
        self, row: int, path: Path | None = None, *, is_detailed: bool = False, finding: Finding | None = None
    ) -> None:
        """Show the traffic with the cursor on an entry of the open capture, or of another capture."""
        if path is not None and (self._opened is None or self._opened[0].path != path):
            self._show_other(path, lambda reading: OpenCapture(reading, row, is_detailed=is_detailed))
        elif self._opened is not None:
            self._push_traffic(OpenCapture(self._opened[0], row, is_detailed=is_detailed, finding=finding))

    def show_frame(self, frame: int, path: Path) -> None:
        """Show the traffic of a capture at a record, above the current screen, which must not show another capture."""
        capture = self.open_capture(path)
        if capture is not None:
            self._push_traffic(OpenCapture(capture.reading, frame=frame))

    def _show_other(self, path: Path, place_in: Callable[[Reading], OpenCapture]) -> None:
        """Show the traffic of another capture; leaving it leads back to the current screen."""
        return_point, crumbs = (
            self._return_point(),
            self.screen.breadcrumb() if isinstance(self.screen, TitledScreen) else [],
        )
        self._pop_to(SessionsScreen)
        capture = self.open_capture(path)
        if capture is not None:
            self._return_to, self.return_crumbs = (
                return_point,
                [crumb.text for crumb in crumbs[1:]] if return_point is not None else [],
            )
            self.push_screen(TrafficScreen(place_in(capture.reading)))

    def select(self, text: str, path: Path | None = None) -> None:
        """Show the traffic of the open capture, or of another capture, filtered by an expression."""
        if path is not None and (self._opened is None or self._opened[0].path != path):
            self._show_other(path, lambda reading: OpenCapture(reading, filter_text=text))
        elif self._opened is not None:
            self._push_traffic(OpenCapture(self._opened[0], filter_text=text))

    def query_turn(self, query: TurnQuery) -> None:
        """Show the calls of a turn above the list of sessions; `Esc` leads back to the row at the cursor."""
        current = self._open_current()
        crumbs = self.screen.breadcrumb() if isinstance(self.screen, TitledScreen) else []
        self._pop_to(SessionsScreen)
        if current is not None:
            row = current.row
            self._return_to = current.reading.path, lambda capture: TrafficScreen(replace(capture, row=row))
            self.return_crumbs = [crumb.text for crumb in crumbs[1:]]
        self.push_screen(SqlScreen(query.paths, turn=query))

    def leave(self) -> None:
        """Go back to the screen below, or to the capture from which this one was opened."""
        self.pop_screen()
        if self._return_to is not None and isinstance(self.screen, SessionsScreen):
            path, make_screen = self._return_to
            self._return_to, self.return_crumbs = None, ()
            capture = self.open_capture(path)
            if capture is not None:
                self.push_screen(make_screen(capture))

    def return_to(self, target: Screen[None]) -> None:
        """Go back to a screen below; if it is on top already, close its detail."""
        if self.screen is target and isinstance(target, ListScreen):
            target.close_detail()
            target.table.focus()
            target.show_title()
        if isinstance(target, SessionsScreen):
            self._return_to, self.return_crumbs = None, ()
        while target in self.screen_stack and self.screen is not target:
            self.pop_screen()

    def _push_traffic(self, capture: OpenCapture) -> None:
        """Show the traffic above the current screen, so that `Esc` leads back to it."""
        if len(self.screen_stack) >= MAX_SCREEN_DEPTH:
            self._pop_to(SessionsScreen)
        self.push_screen(TrafficScreen(capture))

    def _return_point(self) -> tuple[Path, Callable[[OpenCapture], Screen[None]]] | None:
        """Returns the open capture and how to create the current screen again, or None if only an entry creates it."""
        screen = self.screen
        return (
            (self._opened[0].path, screen.way_back()) if self._opened and isinstance(screen, TimelineScreen) else None
        )

    def _pop_to(self, *kinds: type[Screen[None]]) -> None:
        """Close all screens above the topmost one of these kinds."""
        while not isinstance(self.screen, kinds):
            self.pop_screen()

    def _close_open_capture(self) -> None:
        if self._opened is not None:
            reading, step_thread = self._opened
            self.checking.drop(reading.findings)
            if reading.findings.has_ended:
                self.capture_list.set_tally(reading.path, reading.findings.tally)
            step_thread.stop()
            reading.close()
            self._opened = None

    # Textual draws a lower screen's output over the top screen, so a screen is notified once it is on top.

    def announce_growth(self) -> None:
        """Tell the current screen, soon, that the open capture has grown, or that its ages have; for any thread."""
        count = 0 if self._opened is None else len(self._opened[0].index)
        has_new_rows, self._announced_rows = count != self._announced_rows, count
        self.news_pace.announce(self._post_growth, is_urgent=has_new_rows or not self._is_live)

    @property
    def _is_live(self) -> bool:
        """Whether the open capture may grow for a long time."""
        return self._opened is not None and self._opened[0].is_live

    def _post_growth(self) -> None:
        for screen in self.screen_stack[-1:]:
            screen.post_message(CaptureGrown())

    def _report_checked(self) -> None:
        self.news_pace.announce(self._post_checked, is_urgent=not self._is_live)

    def _post_checked(self) -> None:
        for screen in self.screen_stack[-1:]:
            screen.post_message(Checked())

    def close_capture(self, path: Path) -> None:
        """Stop reading a capture if it is the open one; none of its screens may be shown."""
        if self._opened is not None and self._opened[0].path == path:
            self._close_open_capture()

    def findings(self, path: Path) -> Findings | None:
        """The findings of a capture, or None unless it is the open one."""
        return self._opened[0].findings if self._opened is not None and self._opened[0].path == path else None

    def check_again(self) -> None:
        """Read and check the open capture again from its beginning, after the worker process has died."""
        if self._opened is not None:
            reading = self._opened[0]
            self.checking.drop(reading.findings)
            reading.findings = Findings(reading.index)
            self.checking.read(reading)

    def _report_failure(self, path: Path, reason: str) -> None:
        self.screen.post_message(CaptureUnreadable(path, reason))

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        """Draw an update of Textual's, but only cells that change."""
        is_update = isinstance(renderable, CompositorUpdate)
        super()._display(screen, self._drawn_cells.changes(renderable) if is_update else renderable)  # type: ignore[arg-type] # Textual's types lack it

    # ---- keys

    async def on_event(self, event: events.Event) -> None:
        """Queue keys and pasted text; handle all other events at once."""
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            if not self._hide_places(event):
                await self.key_queue.enqueue(event)
        else:
            await super().on_event(event)

    def action_interrupt(self) -> None:
        """Stop what the screen is doing; quit if it is doing nothing."""
        stop = getattr(self.screen, "interrupt", None)
        if stop is None or not stop():
            self.exit()

    def action_suspend_process(self) -> None:
        """Stop the job until the shell continues it."""
        if not self.is_headless:
            self._suspension.suspend()

    def action_places(self) -> None:
        """Show the places in the foot until the next key, if they have no row of their own."""
        foot = next(iter(self.screen.query(Foot)), None)
        if foot is not None and foot.toggle_places():
            self._foot_with_places = foot

    def _hide_places(self, event: events.Key | events.Paste) -> bool:
        """Show the keys again if the places have replaced them; returns whether a key was pressed only to do this."""
        foot, self._foot_with_places = self._foot_with_places, None
        if foot is None or not foot.is_attached:
            return False
        foot.toggle_places()
        active_binding = self.screen.active_bindings.get(event.key) if isinstance(event, events.Key) else None
        return active_binding is not None and active_binding.binding.id == "places"

    def action_sessions(self) -> None:
        """Go back to the list of sessions."""
        self.return_to(next(screen for screen in self.screen_stack if isinstance(screen, SessionsScreen)))

    def get_key_display(self, binding: Binding) -> str:
        """Returns how the first key of a binding is written."""
        return binding.key_display or key_text(binding.key)

    def action_help(self) -> None:
        """Show every key; those of the place below a prompt first."""
        if not isinstance(self.screen, HelpScreen):
            words = [word_of(screen) for screen in reversed(self.screen_stack)]
            self.push_screen(HelpScreen(next(filter(is_known_word, words), words[0])))

    def clear_notifications(self) -> None:
        """Remove all notifications, and what holds them, which Textual leaves behind and which takes a line each."""
        super().clear_notifications()
        if self.screen_stack:
            self.screen.query("ToastHolder").remove()

    def push_screen(self, *arguments: Any, **options: Any) -> Any:
        """Show a screen, and clear all notifications first: they would cover a prompt for choices."""
        self.clear_notifications()
        return super().push_screen(*arguments, **options)

    def action_enter(self, key: str) -> None:
        """Open a screen for the open capture, or for the one at the cursor."""
        entry = next((candidate for candidate in entries() if candidate.key == key), None)
        if entry is not None and entry.create_for_all is not None and isinstance(self.screen, SessionsScreen):
            self.push_screen(entry.create_for_all([capture.path for capture in self.screen.captures]))
            return
        current = self._open_current()
        if entry is not None and current is not None:
            self.push_screen(entry.create(current))

    def action_switch(self, key: str) -> None:
        """Show another screen of the open capture instead of this one."""
        entry = next((candidate for candidate in entries() if candidate.key == key), None)
        capture = self._open_current()
        if entry is not None and capture is not None:
            self.switch_screen(entry.create(capture))

    def _open_current(self) -> OpenCapture | None:
        screen = self.screen
        if isinstance(screen, SessionsScreen):
            capture = screen.selected
            return self.open_capture(capture.path) if capture is not None else None
        if isinstance(screen, TrafficScreen):
            return screen.capture
        if self._opened is None:
            return None
        below = next((lower for lower in reversed(self.screen_stack) if isinstance(lower, TrafficScreen)), None)
        limit = below.capture.limit if below is not None else ""
        return OpenCapture(self._opened[0], getattr(screen, "entry", None), limit=limit)

    def action_command_palette(self) -> None:
        """Open the palette."""
        if not isinstance(self.screen, PaletteScreen):
            self.push_screen(PaletteScreen(self.palette_commands(self.screen)))

    def palette_commands(self, screen: Screen[object]) -> list[PaletteCommand]:
        """Returns the palette's commands: those of a screen, then the others. None of their text is from a capture."""
        commands: dict[str, PaletteCommand] = {}
        for command in (*self._screen_commands(screen), *self._general_commands()):
            name = command.name if command.name not in commands else f"{command.name}: {command.key}"
            commands.setdefault(name, command._replace(name=name))
        return list(commands.values())

    def _screen_commands(self, screen: Screen[object]) -> Iterator[PaletteCommand]:
        word, listed_actions = word_of(screen), set[str]()
        active_bindings = screen.active_bindings.values()
        for node, binding, is_enabled, _ in sorted(active_bindings, key=lambda active: _palette_rank(active.binding)):
            if is_enabled and binding.id and binding.id not in UNLISTED_IDS and binding.action not in listed_actions:
                listed_actions.add(binding.action)
                is_fold_of_nothing = "fold" in binding.id and isinstance(node, Pane) and node.folding_tree is None
                if not binding.action.startswith(GLOBAL_ACTION_PREFIXES) and not is_fold_of_nothing:
                    is_view = binding.id.startswith("view-")
                    yield PaletteCommand(
                        f"{'view: ' if is_view else ''}{binding.description}".capitalize(),
                        self.get_key_display(binding),
                        command_text(binding, word) or help_text(binding.id, word, binding.key),
                        partial(self.run_action, binding.action, node),
                        "this screen",
                    )

    def _general_commands(self) -> Iterator[PaletteCommand]:
        def key_of(name: str, key: str) -> str:
            return keys_text(self.keys.keymap.get(name, key))

        for entry in entries():
            yield PaletteCommand(
                "SQL" if entry.word == "sql" else entry.word.capitalize(),
                key_of(entry.word, entry.key),
                entry.help.removeprefix(f"{entry.word}: "),
                partial(self.action_enter, entry.key),
                "places",
            )
        yield PaletteCommand(
            "Sessions", key_of("sessions", "H"), "back to the list of sessions", self.action_sessions, "places"
        )
        yield PaletteCommand("Help", key_of("help", "?"), "all keys, and the filter language", self.action_help)
        yield PaletteCommand("Light theme", "", "dark text on light", partial(self._set_theme, LIGHT))
        yield PaletteCommand("Dark theme", "", "light text on dark", partial(self._set_theme, DARK))
        yield PaletteCommand("Quit", key_of("quit", "q"), "sessions go on", self.exit)

    def _set_theme(self, theme: Theme) -> None:
        self.theme = theme_for(self.colour_depth, is_light=theme is LIGHT).name
        self.run_worker(partial(save_theme, theme.name), thread=True)
