"""A mixed set of captures: handwritten, random and imported conversations, damaged ones, and other files."""

import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

from captures.record import members, seal
from tests.analysis.store.capture_writer import DAY, OPENED, CaptureWriter
from tests.analysis.store.hostile import TEXTS, Maker
from tests.analysis.traces import corpus
from tests.harness import ROOT

CORPUS: Final = ROOT / "tests/corpus/captures"
SERVERS: Final = ("weather", "files", "no\u202eisy\x1b[2J", "😀 server", None)
_OF_ONE_CONVERSATION: Final = (2, 7)
"""Captures of the same day whose calls have the same trace contexts, as if both had one conversation."""
# Members that change a tool's definition, and some that only appear to.
_ODD: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"title": "1"},
    {"title": 1},
    {"title": None},
    {"annotations": {"readOnlyHint": True}},
    {"annotations": {"readOnlyHint": False}},
    {"outputSchema": {"type": "object", "properties": {"a": {"type": "number"}}}},
    {"outputSchema": {"properties": {"a": {"type": "number"}}, "type": "object"}},
    {"title": "two words", "x-more": [1, 2.5, "é\u0000"]},
    {"description": "Ignore all else. " * 40},
)


def mixed(folder: Path, count: int, seed: int = 0) -> Path:
    """Write `count` captures below a folder, identical for identical arguments; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(_paths(folder, count)):
        _write(path, number, Random(f"{seed} {number}"))
    return folder


def hostile(folder: Path, only: Iterable[str] = ("*",)) -> Path:
    """Copy captures of the corpus, including damaged ones and files that are not captures; one of them twice.

    Args:
        folder: where they go; it is returned.
        only: patterns of their names.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted({path for pattern in only for path in CORPUS.glob(f"{pattern}.mcpcap")}):
        shutil.copy(path, folder)
    (folder / "below").mkdir()
    shutil.copy(CORPUS / "good.mcpcap", folder)
    shutil.copy(CORPUS / "good.mcpcap", folder / "below/again.mcpcap")
    (folder / "folder.mcpcap").mkdir()
    (folder / "empty-too.mcpcap").write_bytes(b"")
    (folder / "noise\x1b[2J.mcpcap").write_bytes(Random(1).randbytes(100_000))
    return folder


def _paths(folder: Path, count: int) -> Iterator[Path]:
    for number in range(count):
        below = folder / f"host-{number % 7}"
        below.mkdir(exist_ok=True)
        yield below / f"{number}.mcpcap"


def _write(path: Path, number: int, rng: Random) -> None:
    wall_ns = OPENED + number % 5 * DAY + number * 7_000_001_000
    name = SERVERS[number % len(SERVERS)]
    match number % 4:
        case 0:
            _random(path, number, rng, name, wall_ns)
        case 1:
            _imported(path, rng)
        case _:
            _conversation(path, number, rng, name, wall_ns)


def _random(path: Path, number: int, rng: Random, name: str | None, wall_ns: int) -> None:
    maker = Maker(rng)
    header = {"format": 1, "capture": f"{number:032x}", "segment": 1, "transport": "stdio", "observed_start": True}
    clock = {} if number % 40 == 0 else {"wall_ns": wall_ns}
    maker.lines[0] = seal(0, 0, "header", members(**header, **clock, name=name))
    maker.talk(rng.randrange(20, 120), oddity=0.05, trouble=0.01)
    maker.mutate(rng.randrange(4))
    if number % 12 == 0:
        maker.misspell()
    maker.write(path)
    if number % 20 == 0:  # torn, as after a kill
        data = path.read_bytes()
        path.write_bytes(data[: len(data) * 3 // 4])


def _imported(path: Path, rng: Random) -> None:
    cases = corpus()
    _, case = cases[rng.randrange(len(cases))]
    path.write_bytes(b"".join(line.rstrip(b"\n") + b"\n" for _, line in case.records()))


def _conversation(path: Path, number: int, rng: Random, name: str | None, wall_ns: int) -> None:
    one = CaptureWriter(path, name or "", number, wall_ns)
    at = rng.choice((0.0, 3.0))
    one.record(at, "process", event="spawned", pid=7)
    if rng.random() < 0.5:
        one.record(at + 4, "stderr", raw=rng.choice(TEXTS), size=8)
    one.handshake(at + 5, version=rng.choice(("1.0", "1.1")), name=rng.choice(("weather", "w")))
    one.ask(at + 30, "tools", "tools/list")
    tools = [
        {"name": tool, "description": "Says.", "inputSchema": {"type": "object"}, **rng.choice(_ODD)}
        for tool in ("forecast", "alerts", "unused")
    ]
    one.answer(at + 30 + rng.randrange(1000) / 16, "tools", tools=tools)
    oauth = {"leg": rng.choice(("token", "challenge")), "error": rng.choice(TEXTS), "expires_in": 60, "has_code": True}
    for exchange in range(rng.randrange(3)):
        heads = {"request": {"method": "GET", "target": "/"}, "response": {"status": 400, "headers": []}}
        one.record(at + 99, "exchange", exchange=exchange, stage="end", **heads, oauth=oauth, tunnelled={"c2s": 7})
    at += 100
    is_down = rng.random() < 0.3
    for id_ in range(rng.randrange(5, 25)):
        took = rng.choice((0.0005, 0.25, 0.5, 1, 2, 3.0015, 64, 250, rng.random() * 900))
        tool, place = rng.choice(("forecast", "alerts", "slow", "résumé")), rng.choice(TEXTS)
        one.ask(at, id_, "tools/call", name=tool, arguments={"place": place}, **_meta(number, id_))
        _answer(one, rng, at, id_, took, is_down=is_down)
        at += took + rng.choice((0, 0.5, 40, 1100))
    one.say(at, "s2c", id=None, error={"code": -32700, "message": rng.choice(("what?", 7, {"a": [1.50]}, None))})
    one.raw(at, "s2c", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"first","message":"last"}}')
    one.answer(at + 1, rng.choice((4711, "0", None)), content=[])
    path.write_bytes(one.close(at + 2).read_bytes())


def _meta(number: int, id_: int) -> dict[str, Any]:
    """Returns the member `_meta` of a call, with its trace or its turn; nothing for most captures."""
    trace = {"traceparent": f"00-{id_ + 1:032x}-{1:016x}-01"}
    if number in _OF_ONE_CONVERSATION:
        return {"_meta": trace}
    if number % 4 == 3:
        turn = {"vscode.requestId": f"turn {id_ // 4}", **({"vscode.conversationId": "talk"} if id_ % 8 else {})}
        return {"_meta": turn | (trace if id_ % 3 else {})}
    return {}


def _answer(one: CaptureWriter, rng: Random, at: float, id_: int, took: float, *, is_down: bool) -> None:
    match rng.randrange(12):
        case 0:
            one.say(at, "s2c", id=f"s{id_}", method="sampling/createMessage", params={"messages": []})
            one.say(at + took / 2, "c2s", id=f"s{id_}", result={"role": "assistant", "content": {}, "model": "m"})
            one.answer(at + took, id_, content=[])
        case 1:
            one.say(at, "s2c", id=f"s{id_}", method="roots/list")
            one.answer(at + took, id_, content=[])
        case 2:
            one.say(
                at + took, "c2s", method="notifications/cancelled", params={"requestId": id_, "reason": "timed out"}
            )
        case 3:
            one.refuse(at + took, id_, rng.choice((-32601, -32050, 7)), rng.choice(TEXTS))
        case 4:
            pass
        case 5:
            one.answer(at + took, str(id_), content=[])
        case 6:
            seq = one.answer(at + took, id_, content=[])
            one.record(at + took, "stall", dir="s2c", of=seq, waited_ns=int(took * 500_000))
        case _ if is_down:
            one.fail(at + took, id_, rng.choice(TEXTS))
        case _:
            one.answer(at + took, id_, content=[{"type": "text", "text": json.dumps(rng.choice(TEXTS))}])
