"""The stage for the tests of the screens: captures, a running app, and the text on its screen."""

import asyncio
import sys
import threading
import time
import traceback
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable, Sequence
from concurrent.futures import thread as futures_thread
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from textual import events
from textual._compositor import Compositor
from textual._queue import Queue
from textual.keys import REPLACED_KEYS, _character_to_key, _get_unicode_name_from_key
from textual.message_pump import MessagePump
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input, TextArea

from analysis.child_process import _MessageReader
from captures.record import members, seal, stderr_members
from captures.verdict import Direction
from mcpproxy.clients.overview import RoutedServer
from mcpproxy.tui.app import TuiApp
from mcpproxy.tui.data.step_thread import StepThread
from mcpproxy.tui.screens.comparison import ComparisonScreen
from mcpproxy.tui.screens.sessions import SessionsScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from tests.captures.samples import frame, header, lines

DEADLINE_S = 400.0
NOTHING = "Nothing recorded yet. Put this in front\n\n    mcpproxy run --\n"

INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
    b'"clientInfo":{"name":"Cursor","version":"2.1"}}}'
)
INITIALIZED = (
    b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},'
    b'"serverInfo":{"name":"library","version":"0.6"}}}'
)
CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search","arguments":{"n":%d}}}'
FINE = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"found %d"}]}}'
WRONG = b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32602,"message":"no such page"}}'

UNKNOWN = b'{"jsonrpc":"2.0","id":4711,"result":{}}'
NOISE = b"Loaded 3 plugins"
FLOAT = b'{"jsonrpc":"2.0","id":7.0,"method":"ping"}'

Middles = list[tuple[str, bytes]]


def frame_record(direction: Direction, raw: bytes) -> tuple[str, bytes]:
    """One frame."""
    return "frame", frame(direction, raw)


def conversation(calls: int = 6, name: str = "library") -> Middles:
    """A handshake, calls of which every third fails, a line of stderr, and a call without a response."""
    made = [("header", header(name=name)), frame_record("c2s", INITIALIZE), frame_record("s2c", INITIALIZED)]
    made.append(frame_record("c2s", b'{"jsonrpc":"2.0","method":"notifications/initialized"}'))
    for n in range(1, calls + 1):
        made.append(frame_record("c2s", CALL % (n, n)))
        made.append(frame_record("s2c", WRONG % n if n % 3 == 0 else FINE % (n, n)))
    made += [("stderr", stderr_members(b"warning: low on shelves")), frame_record("c2s", CALL % (99, 99))]
    return made


END = ("close", members(ending="server", status=0, totals={}))


def record(path: Path, middles: Sequence[tuple[str, bytes]]) -> Path:
    """Write a capture from records."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines(middles)))
    return path


def lossy(path: Path, middles: Sequence[tuple[str, bytes]], count: int, **more: object) -> Path:
    """Write a capture of these records, a gap for `count` lost ones, and an end."""
    first, after = len(middles), len(middles) + count
    gap = ("gap", members(first=first, last=after - 1, **more, reason="ENOSPC"))
    made = lines([*middles, *[END] * count, gap, END])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(made[:first] + made[after:]))
    return path


def captured(folder: Path, name: str = "library", calls: int = 6, stamp: str = "20261121T101502Z-4f2a") -> Path:
    """The capture of a conversation."""
    return record(folder / name / f"{stamp}.mcpcap", [*conversation(calls, name), END])


def wrong(folder: Path, noise: int = 1) -> Path:
    """A capture with errors of two rules, and a note: noise from row 4 on, an unrequested response, an odd id."""
    middles = [
        *conversation(0, "wrong"),
        *[frame_record("s2c", NOISE)] * noise,
        frame_record("s2c", UNKNOWN),
        frame_record("c2s", FLOAT),
        END,
    ]
    return record(folder / "wrong" / "20261121T101502Z-0001.mcpcap", middles)


def timed(path: Path, middles: Middles, stamps_ms: list[int]) -> Path:
    """A capture whose records have given times."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = zip([*middles, END], [*stamps_ms, stamps_ms[-1]], strict=True)
    path.write_bytes(b"".join(seal(seq, ms * 10**6, *middle) for seq, (middle, ms) in enumerate(records)))
    return path


def _pressed(key: str) -> events.Key:
    """The event for a key, as Textual makes it from terminal input."""
    name = _character_to_key(key) if len(key) == 1 and not key.isalnum() else key
    try:
        character = unicodedata.lookup(_get_unicode_name_from_key(REPLACED_KEYS.get(name, name)))
    except KeyError:
        character = None
    return events.Key(name, character)


async def _pause(end: float) -> None:
    """Wait before the next check, longer each time: the awaited work may need the processor."""
    waited_s = max(0.0, time.monotonic() - end + DEADLINE_S)
    await asyncio.sleep(min(0.002 + waited_s / 10, 0.05))


def _waits(pump: MessagePump) -> bool:
    """Whether a widget, a screen or the app has nothing to do but wait for its next message."""
    queue: Queue[Any] = pump._message_queue
    waiters: Iterable[asyncio.Future[bool]] = queue.ready_event._waiters
    waits = any(not waiter.done() for waiter in waiters)
    return waits and queue.empty() and not pump._next_callbacks


_render_now = Compositor.render_update


def render_later(
    compositor: Compositor, full: bool = False, screen_stack: list[Screen[Any]] | None = None, simplify: bool = False
) -> Any:
    """Replaces Textual's method: leaves drawing to `Stage.text`, unless a picture of the whole screen is wanted."""
    return _render_now(compositor, full, screen_stack, simplify) if full else None


OURS = {"captures", "analysis", "mcpproxy", "tests"}
"""The packages whose code a thread of the app may run; some of it calls functions of a test."""


def working_threads(earlier: Container[threading.Thread]) -> list[str]:
    """Where each busy thread of the app is, that is, one that does not wait for work, for output or for its next poll.

    Args:
        earlier: threads that ran before the app did, and so belong to another test.
    """
    threads = {thread.ident: thread for thread in threading.enumerate() if thread not in earlier}
    found = []
    for ident, running in sys._current_frames().items():
        if ident not in threads or threads[ident] is threading.main_thread():
            continue
        stack = [one for one, _ in traceback.walk_stack(running)]
        ours = [one for one in stack if one.f_globals.get("__name__", "").partition(".")[0] in OURS]
        if not _rests(stack, ours):
            at = (ours or stack)[0]
            found.append(f"thread {threads[ident].name} at {at.f_code.co_filename}:{at.f_lineno} {at.f_code.co_name}")
    return found


def _rests(stack: list[FrameType], ours: list[FrameType]) -> bool:
    """Whether a thread does not belong to the app, or has nothing to do.

    Args:
        stack: its frames, the innermost first.
        ours: those of the frames that belong to `OURS`.
    """
    inner = stack[0]
    pools = [one for one in stack if one.f_code is futures_thread._worker.__code__]
    if pools and not ours:
        known = pools[0].f_locals
        return inner is pools[0] and known.get("work_item") is None and known["work_queue"].empty()
    if not ours or ours[-1].f_globals["__name__"].startswith("tests."):
        return True
    at = ours[0].f_code
    if at is StepThread._run.__code__:
        return inner.f_globals.get("__name__") == "threading"
    return at is _MessageReader.read_messages.__code__ and inner is ours[0]


def _last_looks(earlier: Container[threading.Thread]) -> list[tuple[float, float]]:
    """For each thread that polls for work: when it last began to poll, and when it last reported any work.

    Args:
        earlier: threads that ran before the app did.
    """
    ours = {thread.ident for thread in threading.enumerate() if thread not in earlier}
    running = [frame for ident, frame in sys._current_frames().items() if ident in ours]
    stacks = [frame for inner in running for frame, _ in traceback.walk_stack(inner)]
    loops = [frame.f_locals for frame in stacks if frame.f_code is StepThread._run.__code__]
    return [(known.get("rested_s", 0.0), known.get("reported_s", 0.0)) for known in loops]


class Stage:
    """A running app, and ways to press its keys and read its screen."""

    def __init__(self, app: TuiApp, pilot: Pilot[None], earlier: Container[threading.Thread]) -> None:
        self.app, self.pilot = app, pilot
        self.earlier = earlier

    def text(self) -> str:
        """The text on the screen."""
        self._draw()
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Wait for a condition; fails at the deadline, with the text on the screen."""
        end = time.monotonic() + DEADLINE_S
        await self.drawn()
        while not condition():
            assert time.monotonic() < end, f"waited in vain for {what or condition}; the screen:\n{self.text()}"
            await _pause(end)
            await self.drawn()

    async def see(self, *texts: str) -> None:
        """Wait until all of these texts are on the screen."""

        def is_seen() -> bool:
            shown = self.text()
            return all(text in shown for text in texts)

        await self.until(is_seen, f"{texts}")

    async def listed(self) -> None:
        """Wait until the list of sessions shows all captures that its thread has found."""

        def is_shown() -> bool:
            known = self.app.capture_list
            lists = [screen for screen in self.app.screen_stack if isinstance(screen, SessionsScreen)]
            return known.has_searched and any(len(screen.captures) == len(known.captures) for screen in lists)

        await self.until(is_shown, "the list of the sessions")

    async def worker(self) -> int:
        """The pid of the process that reads captures; waits until it runs."""
        await self.until(lambda: self.app.checking.pid is not None, "the process that reads captures")
        assert self.app.checking.pid is not None
        return self.app.checking.pid

    async def drawn(self) -> None:
        """Wait until all pending messages, and those that they cause, are handled, and all changes can be drawn."""
        end, ready = time.monotonic() + DEADLINE_S, asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
        while True:
            assert self.app._exception is None, f"the app has failed: {self.app._exception!r}"
            assert time.monotonic() < end, f"{self._undrawn()}; the screen:\n{self.text()}"
            if ready:
                await asyncio.sleep(0)
            elif self.app._exit or not self._undrawn():
                return
            else:
                # Textual does so sixty times a second.
                self.app.screen._on_timer_update()
                await (asyncio.sleep(0) if ready else _pause(end))

    def _draw(self) -> None:
        """Draw what has changed since the screen was drawn last."""
        compositor = self.app.screen._compositor
        if compositor._dirty_regions:
            _render_now(compositor, screen_stack=self.app._background_screens)

    def _undrawn(self) -> list[str]:
        """The unhandled messages, and the changes that are not drawn yet."""
        pumps = [pump for pump in (self.app, *self.app._registry) if pump._running and not pump._closing]
        busy = [f"{pump} handles messages" for pump in pumps if not _waits(pump)]
        screen = self.app.screen
        flags = ("_layout_required", "_scroll_required", "_repaint_required", "_recompose_required")
        if self.app._resize_timer is not None:  # Textual waits a moment, as more sizes may follow
            busy.append("the new size is not known to the screen")
        if self.app.news_pace.is_waiting:
            busy.append("news waits")
        return busy + [
            f"{name} of {screen}" for name in (*flags, "_dirty_widgets", "_callbacks") if getattr(screen, name)
        ]

    async def settled(self) -> None:
        """Wait until only a key, the clock or a growing file can change the screen.

        Looking at the screen cannot show this: the machine may just be busy with something else.
        """
        end = time.monotonic() + DEADLINE_S
        since: float | None = None
        while True:
            await self.drawn()
            self._draw()  # rows are read when they are drawn
            busy = self._busy()
            if not busy:
                # A thread may have posted something after all messages were handled and before it was checked.
                await self.drawn()
                busy = self._busy()
            if busy:
                since = None
            else:
                # An idle thread notices new work only at its next poll, and what it then reports may create more.
                looks = _last_looks(self.earlier)
                if since is None or any(reported > since for _, reported in looks):
                    since = time.monotonic()
                if all(began > since for began, _ in looks):
                    return
                busy = ["a thread has not looked for work yet"]
            assert time.monotonic() < end, f"still busy: {'; '.join(busy)}; the screen:\n{self.text()}"
            await _pause(end)

    def _busy(self) -> list[str]:
        """What is still working on the screen's contents, including waiting messages."""
        app, busy = self.app, self._undrawn() + working_threads(self.earlier)
        if app.key_queue._queued_events or app.key_queue._pending_event is not None:
            busy.append("keys wait")
        if any(job.is_busy for job in list(app.checking._jobs.values())):
            busy.append("the worker that reads captures has not caught up")
        sql = app.sql
        if sql.is_busy or (sql._process is not None and sql._process.is_alive and not sql.relations):
            busy.append("the worker of SQL has not answered")
        screen = app.screen
        if isinstance(screen, ComparisonScreen) and screen.comparing.is_busy:
            busy.append("the process that compares has not answered")
        if isinstance(screen, TrafficScreen) and screen.split._preview_timer is not None:
            busy.append("a preview is due")
        if app.animator._animations or app.animator._scheduled:
            busy.append("something moves")
        busy += [f"{worker} runs" for worker in app.workers if not worker.is_finished]
        return busy + ["a call waits"] * bool(asyncio.get_running_loop()._ready)  # type: ignore[attr-defined]

    async def press(self, *keys: str) -> None:
        """Press keys, each after everything that the previous key caused is done; text in a box is entered at once."""
        left = list(keys)
        while left:
            is_typing = isinstance(self.app.focused, Input | TextArea)
            count = next((at for at, key in enumerate(left) if len(key) > 1), len(left)) if is_typing else 1
            typed, left = left[: max(1, count)], left[max(1, count) :]
            for key in typed:
                self.app.post_message(_pressed(key))
            await self.drawn()
            end = time.monotonic() + DEADLINE_S
            while (
                self.app.key_queue._queued_events or self.app.key_queue._pending_event is not None
            ) and not self.app._exit:
                assert time.monotonic() < end, f"the keys {typed} wait for ever; the screen:\n{self.text()}"
                await _pause(end)
                await self.drawn()

    async def type_ahead(self, *keys: str) -> None:
        """Press keys without waiting for their effects."""
        for key in keys:
            self.app.post_message(_pressed(key))
            await self.drawn()

    async def resize(self, size: tuple[int, int]) -> None:
        """Change the size of the terminal, and wait until its contents are drawn."""
        if self.app.size != size:
            await self.pilot.resize_terminal(*size)
            await self.drawn()

    async def squeezed(self) -> None:
        """Draw the screen at small sizes, too, and check that every line fits and nothing in it acts."""
        before = self.app.size
        for size in ((40, 10), (1, 1), before):
            await self.pilot.resize_terminal(*size)
            await self.drawn()
            assert all(len(line) <= size[0] for line in self.text().splitlines()), size
            assert not {"\x1b", "\u202e", "\x07", "\ud800"} & set(self.text()), size

    async def back(self) -> None:
        """Leave all screens except the list of sessions."""
        end = time.monotonic() + DEADLINE_S
        while not isinstance(self.app.screen, SessionsScreen):
            assert time.monotonic() < end, f"escape leads nowhere; the screen:\n{self.text()}"
            await self.press("escape")

    @property
    def traffic(self) -> TrafficScreen:
        """The traffic screen."""
        assert isinstance(self.app.screen, TrafficScreen)
        return self.app.screen

    async def choose(self, folder: str) -> None:
        """Move the cursor of the list to the capture in a folder of this name."""
        await self.listed()
        screen = self.app.screen
        assert isinstance(screen, SessionsScreen)
        screen.table.go([capture.path.parent.name for capture in screen.captures].index(folder))
        await self.drawn()

    async def open(self, folder: str = "") -> None:
        """Open the capture at the cursor, or the one in a folder, and wait until all of it is understood."""
        await self.listed()
        if folder:
            await self.choose(folder)
        await self.press("enter")
        await self.until(lambda: isinstance(self.app.screen, TrafficScreen))
        await self.until(lambda: self.traffic.reading.has_ended)
        await self.until(lambda: len(self.traffic.table.rows))


Act = Callable[[Stage], Awaitable[None]]
Size = tuple[int, int]


@asynccontextmanager
async def on_stage(app: TuiApp, size: Size, notifications: bool = True) -> AsyncIterator[Stage]:
    """Run an app in a terminal of this size."""
    earlier = set(threading.enumerate())
    async with app.run_test(size=size, notifications=notifications) as pilot:
        yield Stage(app, pilot, earlier)


def sizes(*first: Size, soak: Sequence[Size]) -> list[ParameterSet]:
    """Terminal sizes for a test: the first in every run, the others in soak."""
    return [
        pytest.param(size, marks=pytest.mark.soak if size in soak else (), id=f"{size[0]}x{size[1]}")
        for size in (*first, *soak)
    ]


def play_each(acts: Sequence[Act], *captures: Path, size: tuple[int, int] = (100, 30)) -> None:
    """Run several acts in one run of the app, each from the list of sessions in a terminal of this size.

    A failure names the act.
    """

    async def all_of_them(stage: Stage) -> None:
        for act in acts:
            try:
                await act(stage)
                await stage.back()
                await stage.resize(size)
            except BaseException as error:
                error.add_note(f"in {getattr(act, '__name__', act)}")
                raise

    play(all_of_them, *captures, size=size)


def play(
    act: Act,
    *captures: Path,
    size: tuple[int, int] = (100, 30),
    find: Callable[[], list[Path]] | None = None,
    first: Path | None = None,
    routed: Callable[[], Sequence[RoutedServer]] | None = None,
) -> None:
    """Run an act in an app on some captures."""

    async def go() -> None:
        app = TuiApp(find or (lambda: list(captures)), NOTHING, first, routed)
        async with on_stage(app, size) as stage:
            await act(stage)
        assert app.return_code in (0, None)
        assert app._exception is None

    asyncio.run(go())
