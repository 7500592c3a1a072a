"""What the tests of the screens share: captures to look at, an app to look with, and what stands on its screen."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from textual.pilot import Pilot

from captures.frame import Direction
from captures.record import members, stderr_members
from mcpproxy.tui.app import TheApp
from mcpproxy.tui.screens.traffic import TrafficScreen
from tests.captures.samples import frame, header, lines

DEADLINE_S = 120.0
STILL_S = 2.5
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
    """A handshake, calls of which every third fails, one that nobody answers, stderr, and an end."""
    made = [("header", header(name=name)), said("c2s", INITIALIZE), said("s2c", INITIALIZED)]
    made.append(said("c2s", b'{"jsonrpc":"2.0","method":"notifications/initialized"}'))
    for n in range(1, calls + 1):
        made.append(said("c2s", CALL % (n, n)))
        made.append(said("s2c", WRONG % n if n % 3 == 0 else FINE % (n, n)))
    made += [("stderr", stderr_members(b"warning: low on shelves")), said("c2s", CALL % (99, 99))]
    return made


END = ("close", members(ending="server", status=0, totals={}))


def record(path: Path, middles: Sequence[tuple[str, bytes]]) -> Path:
    """A capture that is closed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines(middles)))
    return path


def captured(folder: Path, name: str = "library", calls: int = 6, stamp: str = "20261121T101502Z-4f2a") -> Path:
    """The capture of a conversation."""
    return record(folder / name / f"{stamp}.mcpcap", [*conversation(calls, name), END])


class Stage:
    """An app that is being looked at."""

    def __init__(self, app: TheApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    def text(self) -> str:
        """All that stands on the screen."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Wait for it; fails where it does not come."""
        end = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < end, f"waited in vain for {what or condition}; the screen:\n{self.text()}"
            await self.pilot.pause(0.01)
        await self.pilot.pause()

    async def see(self, *texts: str) -> None:
        """Wait until all of some texts stand on the screen."""
        await self.until(lambda: all(text in self.text() for text in texts), f"{texts}")

    async def still(self) -> None:
        """Wait until nothing on the screen has changed for some seconds: all that was read is drawn then."""
        end, since, before = time.monotonic() + DEADLINE_S, time.monotonic(), ""
        while time.monotonic() - since < STILL_S:
            assert time.monotonic() < end, f"the screen is never still:\n{before}"
            await self.pilot.pause(0.01)
            now = self.text()
            if now != before:
                since, before = time.monotonic(), now

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            await self.pilot.press(key)
            await self.pilot.pause()

    @property
    def traffic(self) -> TrafficScreen:
        """The screen with the traffic."""
        assert isinstance(self.app.screen, TrafficScreen)
        return self.app.screen

    async def open(self) -> None:
        """From the list into the first capture, and wait until all of it is understood."""
        await self.until(lambda: self.app.shelf.has_looked)
        await self.press("enter")
        await self.until(lambda: isinstance(self.app.screen, TrafficScreen))
        await self.until(lambda: self.traffic.reading.has_ended)
        await self.until(lambda: len(self.traffic.table.rows))


def play(
    act: Callable[[Stage], Awaitable[None]],
    *captures: Path,
    size: tuple[int, int] = (100, 30),
    find: Callable[[], list[Path]] | None = None,
    first: Path | None = None,
) -> None:
    """Run the app on some captures while something is done with it."""

    async def go() -> None:
        app = TheApp(find or (lambda: list(captures)), NOTHING, first)
        async with app.run_test(size=size, notifications=True) as pilot:
            await act(Stage(app, pilot))
        assert app.return_code in (0, None)
        assert app._exception is None

    asyncio.run(go())
