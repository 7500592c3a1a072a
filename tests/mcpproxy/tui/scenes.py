"""Scenes: screens worth a picture, each with its captures, the keys that lead to it, and a sign that it is complete.

Everything in them is fixed: what was recorded, when, and the current time. The tests compare them with pictures that
someone has approved; `python -m tests.mcpproxy.tui.scenes docs/pictures` draws those of the README.
"""

import asyncio
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
from textual.widgets import Input

from analysis import clock
from captures.file import CaptureFile
from captures.record import members, seal, stderr_members
from captures.verdict import Direction
from mcpproxy.cli.selection import NOTHING_YET
from mcpproxy.tui.app import TuiApp
from mcpproxy.tui.messages import SqlReplied
from mcpproxy.tui.screens import sessions
from mcpproxy.tui.screens.search import SearchScreen
from mcpproxy.tui.widgets.editor import Editor
from mcpproxy.tui.widgets.table import Table
from tests.captures.samples import header, lines, lost
from tests.harness import ROOT
from tests.mcpproxy.tui.login_talk import two_logins
from tests.mcpproxy.tui.stage import CALL, END, FINE, Stage, conversation, frame_record, lossy, on_stage, record

CORPUS: Final = ROOT / "tests/corpus/captures"
NOW_NS: Final = 1_795_000_600_000_000_000
START_NS: Final = 1_795_000_000_000_000_000
PARENTS: Final = [{"pid": 4000, "start": 700, "exe": "claude-desktop"}, {"pid": 1, "start": 1, "exe": "systemd"}]

SCHEMA: Final[dict[str, Any]] = {"type": "object", "properties": {"path": {"type": "string"}}}
STRICT_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer", "description": "the most lines to return"},
    },
    "required": ["limit"],
}

Make = Callable[[Path], list[Path]]
Act = Callable[[Stage], Awaitable[None]]


@dataclass
class Talk:
    """A recorded server: records with stamps."""

    name: str
    began_ms: float = 0
    """When it began, on the clock that it shares with others."""
    wall_ns: int = START_NS
    made: list[bytes] = field(default_factory=list)
    _at_ms: float = 0
    _id: int = 0

    def say(self, rec: str, middle: bytes, at_ms: float) -> None:
        self.made.append(seal(len(self.made), int(at_ms * 1e6), rec, middle))
        self._at_ms = at_ms

    def begin(
        self,
        client: str,
        version: str,
        ready_ms: float,
        revision: str = "2025-06-18",
        schema: dict[str, Any] = SCHEMA,
    ) -> None:
        """Write the header, the process, a handshake and the first list, whose tools all have this schema."""
        wall_ns = self.wall_ns + int(self.began_ms * 1e6)
        capture = f"{abs(hash_of(self.name)):032x}"[:32]
        more: dict[str, Any] = {
            "parents": PARENTS,
            "boot_id": "4f3c2b1a-0000-4000-8000-00000000beef",
            "capture": capture,
        }
        self.say(
            "header", header(name=self.name, **{**more, "wall_ns": wall_ns, "mono_ns": int(self.began_ms * 1e6)}), 0
        )
        self.say("process", members(event="spawned", pid=4711, start=99), 1)
        info = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": client, "version": version}}
        told = {"protocolVersion": revision, "capabilities": {"tools": {}}}
        self.frame("c2s", {"id": 0, "method": "initialize", "params": info}, 12)
        self.frame(
            "s2c", {"id": 0, "result": {**told, "serverInfo": {"name": self.name, "version": "0.6.2"}}}, ready_ms
        )
        self.frame("c2s", {"method": "notifications/initialized"}, ready_ms + 1)
        tools = [
            {
                "name": tool,
                "description": f"{tool}, and say what came of it. " * (1 + number % 3),
                "inputSchema": schema,
            }
            for number, tool in enumerate(TOOLS)
        ]
        self._id = 1
        self.frame("c2s", {"id": 1, "method": "tools/list"}, ready_ms + 2)
        self.frame("s2c", {"id": 1, "result": {"tools": tools}}, ready_ms + 9)

    def frame(self, side: Direction, message: dict[str, Any], at_ms: float) -> None:
        self.say(*frame_record(side, orjson.dumps({"jsonrpc": "2.0", **message})), at_ms)

    def call(self, tool: str, at_ms: float, took_ms: float | None, wrong: str = "") -> None:
        """Write one call; if `took_ms` is None, it gets no response."""
        self._id += 1
        params = {"name": tool, "arguments": {"path": f"notes/{self._id}.md"}}
        self.frame("c2s", {"id": self._id, "method": "tools/call", "params": params}, at_ms)
        if took_ms is not None:
            text = wrong or "The library closes at six, and the key is below the mat."
            result = {"content": [{"type": "text", "text": text}], **({"isError": True} if wrong else {})}
            self.frame("s2c", {"id": self._id, "result": result}, at_ms + took_ms)

    def stray(self, text: str, at_ms: float) -> None:
        """Write a line on stdout that is not a message."""
        self.say(*frame_record("s2c", text.encode()), at_ms)

    def log(self, text: str, at_ms: float) -> None:
        """Write a line of stderr."""
        self.say("stderr", stderr_members(text.encode()), at_ms)

    def end(self, status: int = 0) -> None:
        """Write the end of the server."""
        at_ms = self._at_ms + 100
        self.say("process", members(event="ended", status=status, pid=4711), at_ms)
        self.say("close", members(ending="server", status=status, totals={}), at_ms + 1)

    def write(self, folder: Path, stamp: str = "20261118T110640Z-4f2a") -> Path:
        path = folder / self.name / f"{stamp}.mcpcap"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(self.made))
        return path


TOOLS: Final = ("read_file", "search", "list_directory", "write_file", "move_file", "get_file_info")


def hash_of(text: str) -> int:
    """A hash that is the same in every run."""
    return int.from_bytes(text.encode().ljust(16, b"\7")[:16])


# ---- captures


def filesystem(folder: Path, calls: int = 60) -> Path:
    """A busy server that mostly answers quickly, sometimes returns an error, and writes a log line to stdout."""
    talk, rng, at_ms = Talk("filesystem"), random.Random(7), 160.0
    talk.begin("Claude Desktop", "1.9", 52)
    talk.stray("Loaded 3 plugins", 70)
    for number in range(calls):
        tool = rng.choice(("read_file", "read_file", "read_file", "search", "search", "list_directory"))
        slow = tool == "search"
        took_ms = rng.lognormvariate(5.0 if slow else 1.2, 0.7 if slow else 0.5)
        talk.call(tool, at_ms, took_ms, "Access denied - path outside allowed directories" if number % 9 == 4 else "")
        at_ms += took_ms + rng.uniform(5, 220)
        if number % 12 == 7:
            talk.log(f"warning: index of notes/{number}.md is stale", at_ms - 2)
    talk.call("search", at_ms, None)
    talk.end()
    return talk.write(folder)


def busy(folder: Path) -> list[Path]:
    """The capture of `filesystem` alone."""
    return [filesystem(folder)]


def siblings(folder: Path, calls: int = 7) -> list[Path]:
    """Three servers that one client has started."""
    slow, third = Talk("search", 40), Talk("github", 65)
    slow.begin("Claude Desktop", "1.9", 720)
    for number, at_ms in enumerate((840.0, 1400.0, 2100.0)):
        slow.call("search", at_ms, 410.0 + 60 * number)
    slow.end()
    third.begin("Claude Desktop", "1.9", 240, "2025-11-25")
    for number in range(8):
        third.call("get_file_info", 400.0 + 310 * number, 120.0 + 25 * (number % 3))
    third.end(1)
    return [filesystem(folder, calls), slow.write(folder), third.write(folder)]


@cache
def corpus(name: str) -> Make:
    """A capture of the corpus."""

    def make(folder: Path) -> list[Path]:
        path = folder / name / "20261118T110640Z-4f2a.mcpcap"
        path.parent.mkdir(parents=True)
        shutil.copy(CORPUS / f"{name}.mcpcap", path)
        return [path]

    return make


def huge(folder: Path) -> list[Path]:
    """10,000 frames, of which the last have numbers of five digits."""
    middles = conversation(2)
    for number in range(5_000):
        middles += [
            frame_record("c2s", CALL % (1000 + number, number)),
            frame_record("s2c", FINE % (1000 + number, number)),
        ]
    return [record(folder / "huge" / "20261118T110640Z-4f2a.mcpcap", [*middles, END])]


def logins(folder: Path) -> list[Path]:
    """A login that succeeds, a session, and a login that fails."""
    return [two_logins(folder)]


def versions(folder: Path) -> list[Path]:
    """Two recordings of a server, the newest first: the second needs another argument, and a call of it fails."""
    paths: list[Path] = []
    for number, stamp in enumerate(("20261117T110640Z-0001", "20261118T110640Z-0002")):
        talk = Talk("library", wall_ns=START_NS + (number - 1) * 86_400_000_000_000)
        talk.begin("Cursor", "2.1", 40, ("2025-06-18", "2025-11-25")[number], (SCHEMA, STRICT_SCHEMA)[number])
        if number:
            talk.stray("Loaded 3 plugins", 60)
        for call in range(24):
            talk.call("search", 100 + 60 * call, 5 + call % 7 + 20 * number)
        talk.call("read_file", 1600, 9, "Access denied - path outside allowed directories" if number else "")
        talk.end()
        paths.insert(0, talk.write(folder, stamp))
    return paths


def mixed_sessions(folder: Path) -> list[Path]:
    """Sessions that ended normally, with an error, without an end record, and with lost records."""
    paths = siblings(folder, 60)
    dead = record(folder / "db" / "20261117T110640Z-0001.mcpcap", conversation(3, "db"))
    notes = folder / "notes" / "20261116T110640Z-0001.mcpcap"
    losing = lossy(notes, conversation(4, "notes"), 29, lost=lost(c2s=(14, 900), s2c=(15, 4000)))
    return [*paths, dead, losing]


# ---- ways to the screens


async def listed(stage: Stage) -> None:
    """Show all sessions, with everything that is known about them."""
    await stage.listed()
    await stage.until(lambda: all(capture.has_full_summary for capture in stage.app.capture_list.captures))
    # The findings of visible rows are counted without a key press.
    screen = stage.app.screen
    assert isinstance(screen, sessions.SessionsScreen)
    rows = screen._rows
    await stage.until(lambda: all("…" not in rows.line(row).cells["findings"][0].text for row in range(len(rows))))
    await stage.settled()


async def empty_list(stage: Stage) -> None:
    """Show the hint for a list without sessions: no row shows that the search has ended, so the hint must."""
    await listed(stage)
    await stage.see(NOTHING_YET.splitlines()[0])
    await stage.settled()


async def opened(stage: Stage) -> None:
    """Show the traffic of the first capture, understood and checked."""
    await stage.open()
    await stage.until(lambda: stage.traffic.reading.findings.has_ended)
    await stage.settled()


def then(*keys: str, see: str = "") -> Act:
    """Show the traffic, and press some keys."""

    async def act(stage: Stage) -> None:
        await opened(stage)
        await stage.press(*keys)
        if see:
            await stage.see(see)
        await stage.settled()

    return act


async def finding(stage: Stage) -> None:
    """Find a text in a detail, once the detail is shown: how far it has scrolled depends on each key."""
    await opened(stage)
    await stage.press(*["down"] * 8, "enter")
    await stage.see("at six")
    await stage.press("/", *"at six")
    await stage.see("1 of 1")
    await stage.settled()


async def sql(stage: Stage) -> None:
    """Show the answer to a query, with the focus on its rows."""
    await opened(stage)
    await stage.press("Q", *"from latency", "enter")
    await stage.until(lambda: stage.app.sql.result is not None)
    answer = stage.app.sql.result
    assert answer is not None
    # How long it took differs from run to run.
    stage.app.sql.result = answer._replace(took_s=0.02)
    stage.app.screen.post_message(SqlReplied())
    await stage.settled()


WRONG_SQL = """-- The slowest calls of each tool
select name, count(*) as calls, max(latency_ms) as slowest
from calls where method = 'tools/call' and latency > 100
group by name order by slowest desc"""


async def wrong_sql(stage: Stage) -> None:
    """Show where SQL is wrong, with the columns of a view next to it if there is room."""
    await opened(stage)
    await stage.press("Q")
    await stage.see("one row per request")
    screen = stage.app.screen
    if screen.query_one("#schema", Table).display:
        await stage.press("tab", "v", "down", "right", "escape")
    screen.query_one(Editor).set_text(WRONG_SQL)
    await stage.press("enter")
    await stage.see("Candidate bindings")
    await stage.settled()


async def definition(stage: Stage) -> None:
    """Show the definition of a tool."""
    await opened(stage)
    await stage.press("O")
    await stage.see("move_file")
    await stage.press("enter")
    await stage.see("parameters")
    await stage.settled()


async def marked(stage: Stage) -> None:
    """Mark a session for a comparison."""
    await listed(stage)
    await stage.press("g", "=")
    await stage.settled()


def comparison(*keys: str) -> Act:
    """Compare the first capture with the one before, and press some keys."""

    async def act(stage: Stage) -> None:
        await listed(stage)
        await stage.press("g", "=", "=")
        await stage.see("breaking")
        await stage.press(*keys)
        await stage.settled()

    return act


def only_live(_folder: Path) -> list[Path]:
    """Make no capture: there is only the one that is being recorded."""
    return []


async def live(stage: Stage) -> None:
    """Follow a session that is being recorded."""
    await stage.listed()
    await stage.press("enter")
    await stage.see("following", "search")
    await stage.until(lambda: stage.traffic.reading.interpreted_count == len(stage.traffic.reading.index))
    await stage.until(lambda: stage.traffic.reading.findings.checked_count == len(stage.traffic.reading.index))
    await stage.settled()


async def waiting(stage: Stage) -> None:
    """Go to the call that waits in such a session."""
    await live(stage)
    await stage.press("w")
    await stage.see("waiting   for")
    await stage.settled()


SIZES: Final = ((80, 24), (140, 40))
WIDE_SIZES: Final = ((80, 24), (160, 50))
"""The sizes of a picture with values next to each other."""


@dataclass(frozen=True)
class Scene:
    """A screen worth a picture."""

    make: Make
    act: Act
    is_live: bool = False
    picture: tuple[str, int, int] | None = None
    """A picture of the README: its name, columns and rows."""
    sizes: tuple[tuple[int, int], ...] = SIZES
    """The sizes in which the tests draw it: columns and rows."""


async def then_search(stage: Stage) -> None:
    """Find a text in all sessions."""
    await stage.listed()
    await stage.press("S", *"tools", "enter")
    await stage.until(lambda: isinstance(stage.app.screen, SearchScreen) and not stage.app.screen.run.is_busy)
    await stage.settled()


SCENES: Final[dict[str, Scene]] = {
    "sessions-empty": Scene(lambda _: [], empty_list),
    "sessions": Scene(mixed_sessions, listed, picture=("sessions", 100, 10)),
    "traffic-empty": Scene(corpus("no-newline"), opened),
    "traffic": Scene(busy, then("down", "down")),
    "traffic-huge": Scene(huge, then("G")),
    "traffic-torn": Scene(corpus("killed"), opened),
    "traffic-gapped": Scene(corpus("gaps"), opened),
    "traffic-live": Scene(only_live, live, is_live=True),
    "traffic-waiting": Scene(only_live, waiting, is_live=True),
    "traffic-http": Scene(corpus("http"), opened),
    "detail": Scene(
        busy,
        then(*["down"] * 8, "enter", see="tools/call"),
        picture=("traffic", 116, 30),
    ),
    "detail-hex": Scene(corpus("demo"), then(*["down"] * 6, "4", see="00000000")),
    "exchanges": Scene(busy, then("x")),
    "findings": Scene(corpus("demo"), then("F", see="framing/")),
    "traffic-typed": Scene(busy, then("slash", *"name:read_file or la", see="latency>")),
    "search": Scene(mixed_sessions, then_search),
    "latency": Scene(lambda folder: [filesystem(folder, 200)], then("L", see="p95")),
    "timeline": Scene(siblings, then("T", see="search"), picture=("timeline", 110, 18)),
    "latency-limited": Scene(
        lambda folder: [filesystem(folder, 200)],
        then("/", *"name:search latency>100ms", "enter", "L", see="limited to name:search"),
    ),
    "timeline-map": Scene(lambda folder: [filesystem(folder, 1200)], then("T", "0", see="≤")),
    "tools": Scene(busy, then("O", see="move_file")),
    "peers": Scene(corpus("demo"), then("C", see="instructions")),
    "stderr": Scene(busy, then("E", see="is stale")),
    "sql": Scene(busy, sql),
    "sql-error": Scene(busy, wrong_sql),
    "stream": Scene(corpus("http"), then("R", see="POST")),
    "stream-found": Scene(busy, then("R", "slash", *"path", "enter", "n", see="n N")),
    "export": Scene(busy, then("e", see="Markdown")),
    "help": Scene(corpus("demo"), then("question_mark", see="page of a long frame")),
    "columns": Scene(busy, then("|", see="method / name")),
    "palette": Scene(corpus("demo"), then("ctrl+p", see="what failed or waits")),
    "copy": Scene(corpus("http"), then("c", see="copy as")),
    "detail-pretty": Scene(corpus("demo"), then(*["down"] * 6, "enter", "2", see="jsonrpc")),
    "detail-exchange": Scene(corpus("demo"), then(*["down"] * 8, "enter", "6", see="sum")),
    "detail-find": Scene(busy, finding),
    "tools-definition": Scene(busy, definition),
    "traffic-logins": Scene(logins, then("right", see="registration")),
    "detail-login": Scene(logins, then("G", *["up"] * 8, "enter", see="login 2: failed")),
    "row-comparison": Scene(
        busy, then(*["down"] * 16, "equals_sign", "equals_sign", see="differences"), sizes=WIDE_SIZES
    ),
    "sessions-marked": Scene(versions, marked),
    "comparison": Scene(versions, comparison("down"), sizes=WIDE_SIZES),
    "comparison-kind": Scene(versions, comparison("r")),
}


def shared() -> dict[str, list[str]]:
    """The names of the scenes of each app: scenes on the same captures share one, named after the first."""
    groups: dict[tuple[Make, bool], list[str]] = {}
    for name, scene in SCENES.items():
        groups.setdefault((scene.make, scene.is_live), []).append(name)
    return {names[0]: names for names in groups.values()}


@contextmanager
def app_of(scene: Scene, folder: Path) -> Iterator[TuiApp]:
    """The app for a scene, before any key is pressed."""
    paths, writer = scene.make(folder), None
    if scene.is_live:
        path = folder / "filesystem" / "20261118T110640Z-4f2a.mcpcap"
        path.parent.mkdir(parents=True)
        writer = CaptureFile(path)
        for line in lines(conversation(10, "filesystem")):
            writer.append(line)
        paths = [path]
    try:
        yield TuiApp(lambda: paths, NOTHING_YET)
    finally:
        if writer is not None:
            writer.close()


def freeze(setattr_: Callable[[object, str, object], None]) -> None:
    """Set the time to ten minutes after most captures began, and stop cursors from blinking."""
    setattr_(Input, "_toggle_cursor", lambda _box: None)
    setattr_(clock, "age_ns", lambda wall_ns: max(0, NOW_NS - wall_ns) if wall_ns is not None else 0)


def main(place: Path) -> None:
    """Draw the pictures of the README."""
    freeze(setattr)
    place.mkdir(parents=True, exist_ok=True)
    for scene in SCENES.values():
        if scene.picture is None:
            continue
        name, size = scene.picture[0], scene.picture[1:]
        with tempfile.TemporaryDirectory() as folder:
            os.environ.update(
                XDG_CACHE_HOME=folder, XDG_CONFIG_HOME=folder, XDG_STATE_HOME=folder, COLORTERM="truecolor"
            )
            with app_of(scene, Path(folder)) as app:

                async def draw(app: TuiApp = app, act: Act = scene.act, size: tuple[int, int] = size) -> str:
                    async with on_stage(app, size, notifications=False) as stage:
                        await act(stage)
                        return app.export_screenshot(title="mcpproxy tui")

                svg = asyncio.run(draw())
        # Pictures do not fetch fonts: the reader's fonts are good enough.
        svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
        (place / f"{name}.svg").write_text(re.sub(r"\n\s*\n+", "\n", svg))
        sys.stdout.write(f"{place / name}.svg\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
