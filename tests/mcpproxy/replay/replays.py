"""Replays in tests, without a server: a capture that a test writes, and what the test says in the server's place."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.playback.matching import Matching
from analysis.playback.script import Script
from mcpproxy.replay.conversation import Conversation, Outgoing
from mcpproxy.replay.options import ReplayOptions
from mcpproxy.replay.own_handshake import missing_revision
from mcpproxy.replay.plan import plan
from tests.analysis.store.capture_writer import CaptureWriter

MS = 1_000_000


def read_whole(path: Path) -> Script:
    """Returns the complete script of a capture."""
    script = Script(path, Matching())
    while script.grow():
        pass
    return script


class Replayed:
    """The client's half of a capture with one connection, with a clock that the test sets."""

    def __init__(
        self,
        capture: CaptureWriter,
        options: ReplayOptions | None = None,
        ending: str = "client",
        end_ms: float | None = None,
    ) -> None:
        self.script = read_whole(capture.close(end_ms, ending))
        (connection,) = plan(self.script, capture.path, "").connections
        self.conversation = Conversation(
            self.script,
            connection.numbers,
            options or ReplayOptions(),
            connection.skipped,
            missing_revision(self.script, connection.numbers),
        )
        self.now_ms = 0

    def due(self) -> list[Outgoing]:
        """Returns what is due now."""
        return self.conversation.due(self.now_ms * MS)

    def sent(self) -> list[Any]:
        """Returns the messages that are due now, parsed."""
        return [json.loads(outgoing.raw) for outgoing in self.due()]

    def named(self) -> list[str]:
        """Returns the methods, or else the ids, of the messages that are due now."""
        return [str(message.get("method", message.get("id"))) for message in self.sent()]

    def hear(self, calls: Sequence[int] = (), **message: Any) -> None:
        """Say a message in the server's place."""
        self.conversation.receive(json.dumps({"jsonrpc": "2.0", **message}).encode(), self.now_ms * MS, calls)

    def shake_hands(self) -> None:
        """Do the handshake, up to and including the answer to `initialize`."""
        assert self.named() == ["initialize"]
        info = {"name": "weather", "version": "2"}
        self.hear(id=0, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})

    def is_over(self) -> bool:
        """Returns whether the conversation is over."""
        return self.conversation.is_over(self.now_ms * MS)
