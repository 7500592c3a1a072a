"""A queue of key presses: each key is passed on once everything that the previous key caused is done.

Textual gives a key to the widget that has the focus when the key arrives. A key that opens a box or a screen does so a
few messages later, and keys typed before that would go to the screen below: the `q` of `/quit` would quit. So after
each key a probe takes the same path, from the focused widget up to the app, and the next key waits until it arrives:
all queues on that path are in order, so everything that the key caused has then been handled.

Keys that only move a cursor do not delay the next key: they come faster than screens are drawn.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from time import monotonic
from typing import Final

from textual import events
from textual.app import App
from textual.message_pump import MessagePump

PROBE_ROUNDS: Final = 3
"""How often the probe takes that path: a key causes a message, which causes another."""
MAX_KEY_WAIT_S: Final = 2.0
"""The longest time that a key waits, so that keys work even if a widget is stuck."""
MOVEMENT_IDS: Final = frozenset(("up", "down", "page-up", "page-down", "first", "last"))
"""The ids of bindings that only move a cursor."""
UNQUEUED_KEY: Final = "ctrl+c"
"""The key that never waits."""


class KeyQueue:
    """Keys and pasted text that have not been passed on yet."""

    def __init__(self, app: App[None], hand_on: Callable[[events.Event], Awaitable[None]]) -> None:
        """Start empty.

        Args:
            app: the app that gets the keys.
            hand_on: gives a key or pasted text to the widget with the focus.
        """
        self._app, self._hand_on = app, hand_on
        self._queued_events: deque[events.Event] = deque()
        self._pending_event: events.Event | None = None
        """The event that was passed on last, while its effects are not complete."""
        self._pending_since_s = 0.0
        self._work: Future[None] | None = None

    def wait_for(self, work: Future[None]) -> None:
        """Pass on no more keys until some work is done, such as opening a box that the next key is meant for."""
        self._work = work

    async def enqueue(self, event: events.Key | events.Paste) -> None:
        """Queue a key or pasted text, and pass it on in its turn."""
        if isinstance(event, events.Key) and event.key == UNQUEUED_KEY:
            self._queued_events.clear()
            await self._hand_on(event)
            return
        self._queued_events.append(event)
        if self._pending_event is None or monotonic() - self._pending_since_s > MAX_KEY_WAIT_S:
            self._pending_event = None
            await self._pass_on_queued()

    async def _pass_on_queued(self) -> None:
        while self._queued_events and self._pending_event is None:
            event = self._queued_events.popleft()
            focused = self._focused_widget()
            if self._only_moves(event):
                await self._hand_on(event)
                continue
            self._pending_event, self._pending_since_s = event, monotonic()
            await self._hand_on(event)
            self._send_probe(event, focused, focused, PROBE_ROUNDS)

    def _focused_widget(self) -> MessagePump:
        return self._app.focused or self._app.screen

    def _only_moves(self, event: events.Event) -> bool:
        if not isinstance(event, events.Key):
            return False
        chain = self._app.screen._modal_binding_chain  # Textual looks keys up in the same chain
        binding = next(
            (candidates[0] for _, bindings in chain if (candidates := bindings.key_to_bindings.get(event.key))), None
        )
        return binding is not None and binding.id in MOVEMENT_IDS

    def _send_probe(self, event: events.Event, focused: MessagePump, widget: MessagePump, rounds: int) -> None:
        """Send the probe up from a widget, after everything queued there; a closing widget is skipped."""
        if widget is self._app or widget._parent is None:
            self._app.call_later(self._on_probe, event, focused, rounds)
        elif not widget.call_later(self._send_probe, event, focused, widget._parent, rounds):
            self._send_probe(event, focused, widget._parent, rounds)

    async def _on_probe(self, event: events.Event, focused: MessagePump, rounds: int) -> None:
        """Handle the arrival of the probe, which has passed all queues on the path."""
        if event is not self._pending_event:
            return
        if rounds > 1:
            self._send_probe(event, focused, focused, rounds - 1)
        elif self._focused_widget() is not focused:
            # The widget with the focus may not be mounted yet.
            focused = self._focused_widget()
            self._send_probe(event, focused, focused, 1)
        elif self._work is not None:
            work, self._work = self._work, None
            work.add_done_callback(lambda _: self._app.call_later(self._on_probe, event, focused, PROBE_ROUNDS))
        else:
            self._pending_event = None
            await self._pass_on_queued()
