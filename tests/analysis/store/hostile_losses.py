"""Random captures of both eras, with batches, losses, damage, and a torn or missing end."""

import json
from random import Random
from typing import Any, Final

from captures.record import members
from captures.verdict import Direction
from tests.analysis.store.hostile import Maker
from tests.analysis.store.hostile_http import HttpMaker
from tests.analysis.talk import META

JUNK: Final = (b"no record\n", b"\n", b'{"seq":5,"rec":"frame"}\n', b"\xff\x00\n")
DISCOVERED: Final = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}}


class LossyCapture(Maker):
    """Writes one capture over stdio."""

    def __init__(self, rng: Random, number: int = 0) -> None:
        self.is_modern = rng.random() < 0.5
        """Whether each request is self-contained, without a handshake that opens the session."""
        super().__init__(rng, number)
        if self.is_modern and rng.random() < 0.5:
            self.say("c2s", id="d", method="server/discover", params={})
            self.say("s2c", id="d", result=DISCOVERED)

    def say(self, direction: Direction, **message: Any) -> None:
        if self.is_modern:
            if message.get("id") == 0 or message.get("method") == "notifications/initialized":
                return
            if "method" in message and "id" in message and direction == "c2s":
                params = message.get("params", {})
                own = params.get("_meta", {})
                message["params"] = {**params, "_meta": {**META, **own}}
            elif isinstance(message.get("result"), dict):
                kind = self.rng.choice(("complete", "complete", "complete", "input_required"))
                message["result"] = {**message["result"], "resultType": kind}
        super().say(direction, **message)

    def live(self, steps: int) -> None:
        """Write a conversation with everything that can happen to a capture."""
        for _ in range(steps):
            if self.rng.random() < 0.06:
                self.rng.choice((self._lose, self._skip, self._batch))()
            else:
                self.talk(1, oddity=0.03, trouble=0.02)
        if self.rng.random() < 0.5:
            self.add("close", members(ending=self.rng.choice(("server", "client")), status=0))

    def spoil(self, count: int) -> None:
        """Damage `count` places after the first line: insert junk, remove a line, or flip a bit."""
        for _ in range(count):
            lines = self.rng.choice(self.segments)
            at = self.rng.randrange(1, max(2, len(lines)))
            if self.rng.random() < 0.4:
                lines.insert(at, self.rng.choice(JUNK))
            elif at < len(lines):
                line = bytearray(lines[at])
                line[self.rng.randrange(len(line))] ^= 1 << self.rng.randrange(7)
                lines[at : at + 1] = [] if self.rng.random() < 0.4 else [bytes(line)]

    def tear(self) -> None:
        """Leave the last record unfinished, unless it is the header."""
        if len(self.lines) > 1:
            self.lines[-1] = self.lines[-1][: self.rng.randrange(len(self.lines[-1]))]

    def _lose(self) -> None:
        first = self.seq
        self.seq += self.rng.choice((1, 2, 9))
        lost = {"c2s": {"frames": 1, "bytes": 40}} if self.rng.random() < 0.5 else {}
        self.add("gap", members(first=first, last=self.seq - 1, reason="ENOSPC", lost=lost))

    def _skip(self) -> None:
        self.seq += self.rng.choice((1, 3))

    def _batch(self) -> None:
        """Write requests in one frame; some are answered together in one frame, the others later in separate frames."""
        asked = [f"b{self.number}-{place}" for place in range(self.rng.choice((1, 2, 3)))]
        self.number += 1
        requests = [{"jsonrpc": "2.0", "id": id_, "method": "ping"} for id_ in asked]
        self.raw("c2s", json.dumps(requests).encode())
        answered = asked[: self.rng.randrange(len(asked) + 1)]
        if answered:
            self.raw("s2c", json.dumps([{"jsonrpc": "2.0", "id": id_, "result": {}} for id_ in answered]).encode())
        self.open["c2s"] += asked[len(answered) :]


class LossyHttp(LossyCapture, HttpMaker):
    """The same, over HTTP."""


def lossy(seed: int, number: int = 0) -> LossyCapture:
    """A capture of one or two segments, with losses and perhaps a torn end."""
    rng = Random(seed)
    made = rng.choice((LossyCapture, LossyHttp))(rng, number)
    made.live(rng.choice((5, 30, 60)))
    if rng.random() < 0.3:
        made.next_segment()
        made.live(20)
    made.spoil(rng.choice((0, 0, 1, 3)))
    if rng.random() < 0.3:
        made.tear()
    return made
