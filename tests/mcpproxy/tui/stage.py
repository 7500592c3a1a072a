"""Stage: captures, a running app, and the text on its screen, for the tests of the screens."""

import asyncio
import time
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from textual import events
from textual.keys import REPLACED_KEYS, _character_to_key, _get_unicode_name_from_key
from textual.pilot import Pilot

from captures.frame import Direction
from captures.record import members, stderr_members
from mcpproxy.clients.overview import RoutedServer
from mcpproxy.tui.app import TuiApp
from mcpproxy.tui.screens.sessions import SessionsScreen
from mcpproxy.tui.screens.traffic import TrafficScreen
from tests.captures.samples import frame, header, lines

DEADLINE_S = 400.0
PRESSED_S = 0.2
"""How long to wait for a key that itself waits for something."""
POLL_S = 0.02
LOOK_S = 0.03
LOOKS = 10
"""A screen is still if so many looks in a row see the same."""
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

Middles = list[tuple[str, bytes]]


def said(direction: Direction, raw: bytes) -> tuple[str, bytes]:
    """One frame."""
    return "frame", frame(direction, raw)


def conversation(calls: int = 6, name: str = "library") -> Middles:
    """A handshake, calls of which every third fails, a line of stderr, and a call without a response."""
    made = [("header", header(name=name)), said("c2s", INITIALIZE), said("s2c", INITIALIZED)]
    made.append(said("c2s", b'{"jsonrpc":"2.0","method":"notifications/initialized"}'))
    for n in range(1, calls + 1):
        made.append(said("c2s", CALL % (n, n)))
        made.append(said("s2c", WRONG % n if n % 3 == 0 else FINE % (n, n)))
    made += [("stderr", stderr_members(b"warning: low on shelves")), said("c2s", CALL % (99, 99))]
    return made


END = ("close", members(ending="server", status=0, totals={}))


def record(path: Path, middles: Sequence[tuple[str, bytes]]) -> Path:
    """Write a capture from records."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines(middles)))
    return path


def lossy(path: Path, middles: Sequence[tuple[str, bytes]], count: int, **more: object) -> Path:
    """Write a capture that lost so many records after these, has a gap for them, and ends."""
    first, after = len(middles), len(middles) + count
    gap = ("gap", members(first=first, last=after - 1, **more, reason="ENOSPC"))
    made = lines([*middles, *[END] * count, gap, END])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(made[:first] + made[after:]))
    return path


def captured(folder: Path, name: str = "library", calls: int = 6, stamp: str = "20261121T101502Z-4f2a") -> Path:
    """The capture of a conversation."""
    return record(folder / name / f"{stamp}.mcpcap", [*conversation(calls, name), END])


def _pressed(key: str) -> events.Key:
    """The event for a key, as Textual makes it of terminal input."""
    name = _character_to_key(key) if len(key) == 1 and not key.isalnum() else key
    try:
        character = unicodedata.lookup(_get_unicode_name_from_key(REPLACED_KEYS.get(name, name)))
    except KeyError:
        character = None
    return events.Key(name, character)


class Stage:
    """A running app, and ways to press its keys and read its screen."""

    def __init__(self, app: TuiApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    def text(self) -> str:
        """The text on the screen."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Wait for a condition; fails at the deadline, with the text on the screen."""
        end = time.monotonic() + DEADLINE_S
        while not condition():
            assert self.app._exception is None, f"the app has failed: {self.app._exception!r}"
            assert time.monotonic() < end, f"waited in vain for {what or condition}; the screen:\n{self.text()}"
            await asyncio.sleep(POLL_S)
        await self.drawn()

    async def see(self, *texts: str) -> None:
        """Wait until all of some texts are on the screen."""
        await self.until(lambda: all(text in self.text() for text in texts), f"{texts}")

    async def listed(self) -> None:
        """Wait until the list of sessions shows all captures that its thread has found."""

        def is_shown() -> bool:
            known = self.app.capture_list
            lists = [screen for screen in self.app.screen_stack if isinstance(screen, SessionsScreen)]
            return known.has_looked and any(len(screen.captures) == len(known.captures) for screen in lists)

        await self.until(is_shown, "the list of the sessions")

    async def worker(self) -> int:
        """The pid of the process that runs the rules; waits until it runs."""
        await self.until(lambda: self.app.checking.pid is not None, "the process that runs the rules")
        assert self.app.checking.pid is not None
        return self.app.checking.pid

    async def drawn(self) -> None:
        """Wait until all pending messages, and those that they cause, are handled."""
        for _ in range(2):
            await self.pilot.pause(0)

    async def still(self) -> None:
        """Wait until all reading, checking and querying is done and drawn."""
        end, looks, before = time.monotonic() + DEADLINE_S, 0, ""
        while looks < LOOKS:
            assert self.app._exception is None, f"the app has failed: {self.app._exception!r}"
            assert time.monotonic() < end, f"the screen is never still:\n{before}"
            await self.pilot.pause(LOOK_S)
            now = self.text()
            looks = looks + 1 if now == before and not self._is_busy() else 0
            before = now

    def _is_busy(self) -> bool:
        """Whether a thread or process still works on what this screen shows."""
        step_threads = [getattr(self.app.screen, "_step_thread", None)]
        if self.app._opened is not None:
            reading, step_thread = self.app._opened
            step_threads.append(step_thread)
            if not (reading.findings.has_caught_up or reading.findings.trouble):
                return True
        return self.app.sql.is_busy or any(
            step_thread is not None and step_thread.is_busy for step_thread in step_threads
        )

    async def press(self, *keys: str) -> None:
        """Press keys, each after everything that the previous key caused is done."""
        for key in keys:
            self.app.post_message(_pressed(key))
            end = time.monotonic() + PRESSED_S
            await self.drawn()
            while (self.app.key_queue._typed or self.app.key_queue._at is not None) and time.monotonic() < end:
                await self.pilot.pause(0.002)
            await self.drawn()

    async def back(self) -> None:
        """Leave all screens except the list of sessions."""
        end = time.monotonic() + DEADLINE_S
        while not isinstance(self.app.screen, SessionsScreen):
            assert time.monotonic() < end, f"escape leads nowhere; the screen:\n{self.text()}"
            await self.press("escape")

    @property
    def traffic(self) -> TrafficScreen:
        """The screen with the traffic."""
        assert isinstance(self.app.screen, TrafficScreen)
        return self.app.screen

    async def open(self) -> None:
        """Open the first capture of the list, and wait until all of it is understood."""
        await self.listed()
        await self.press("enter")
        await self.until(lambda: isinstance(self.app.screen, TrafficScreen))
        await self.until(lambda: self.traffic.reading.has_ended)
        await self.until(lambda: len(self.traffic.table.rows))


Act = Callable[[Stage], Awaitable[None]]


def play_each(acts: Sequence[Act], *captures: Path, size: tuple[int, int] = (100, 30)) -> None:
    """Run several acts in one run of the app, each from the list of sessions; a failure names the act."""

    async def all_of_them(stage: Stage) -> None:
        for act in acts:
            try:
                await act(stage)
                await stage.back()
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
        async with app.run_test(size=size, notifications=True) as pilot:
            await act(Stage(app, pilot))
        assert app.return_code in (0, None)
        assert app._exception is None

    asyncio.run(go())
