"""Captures in which each client names its turns, calls and conversations in its own way.

They are built from published facts about what the clients send (see the sources in `client_ids.ROWS`); none is a
recording. Ids and texts are made up.
"""

from pathlib import Path
from typing import Any, Final

from tests.analysis.store.capture_writer import MS, OPENED, CaptureWriter

TURN: Final = "0199f3a1-7c52-7d10-9d3e-3f2a00000001"
LATER_TURN: Final = "0199f3a1-7c52-7d10-9d3e-3f2a00000002"
THREAD: Final = "0199f3a0-11aa-7be4-8f00-00000000beef"
TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT: Final = f"00-{TRACE}-00f067aa0ba902b7-01"
ENVIRONMENT_HASH: Final = "hmac:5d41402abc4b2a76b9719d911017c592"


def codex_meta(turn: str, call: str) -> dict[str, Any]:
    """Returns `_meta` as Codex sends it."""
    turn_metadata = {
        "session_id": THREAD,
        "thread_id": THREAD,
        "turn_id": turn,
        "model": "gpt-5-codex",
        "turn_started_at_unix_ms": 1_795_000_000_000,
        "turn_trigger": "user",
        "sandbox": "workspace-write",
        "workspaces": {
            "/home/ada/secret-garden": {
                "associated_remote_urls": {"origin": "git@git.example:ada/secret-garden.git"},
                "latest_git_commit_hash": "5a4c2d0e9b8f7a6c5d4e3f2a1b0c9d8e7f6a5b4c",
            }
        },
    }
    return {"progressToken": 1, "threadId": THREAD, "callId": call, "x-codex-turn-metadata": turn_metadata}


def vscode_meta(turn: str = "request_3f2a", conversation: str = "conversation_beef") -> dict[str, Any]:
    """Returns `_meta` as VS Code sends it while it reports to a collector."""
    return {
        "progressToken": "0bd1a7b4-6a41-4f2b-9a8e-3f5b0c0de001",
        "vscode.conversationId": conversation,
        "vscode.requestId": turn,
        "traceparent": TRACEPARENT,
    }


GOOSE_META: Final = {
    "agent-session-id": "20261130_1",
    "agent-tool-call-request-id": "call_goose",
    "agent-working-dir": "/home/ada/secret-garden",
}
QWEN_META: Final = {"qwen-code/invocation": {"version": 1, "sessionId": "qwen-session", "promptId": "prompt########3"}}
OPENCODE_META: Final = {"ai.opencode/sessionID": "ses_demo"}
CLAUDE_CODE_META: Final = {"claudecode/toolUseId": "toolu_demo7", "progressToken": 4}


class ClientCapture(CaptureWriter):
    """A capture of one server of a client, with the handshake; calls come `at_ms` after the first capture opened."""

    def __init__(self, folder: Path, server: str, number: int, client_name: str, **header: Any) -> None:
        super().__init__(folder / f"{server}.mcpcap", server, number, OPENED + number * MS, **header)
        self._opened_ms = number
        self._last_id = 0
        info = {"name": client_name, "version": "1"}
        self.ask(0, 0, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
        self.answer(0, 0, protocolVersion="2025-06-18", capabilities={"tools": {}}, serverInfo=info)
        self.say(0, "c2s", method="notifications/initialized")

    def begin(self, at_ms: float, meta: dict[str, Any] | None, tool: str = "find") -> int:
        """Write a call of a tool; returns its id."""
        self._last_id += 1
        named = {} if meta is None else {"_meta": meta}
        self.ask(at_ms - self._opened_ms, self._last_id, "tools/call", name=tool, arguments={}, **named)
        return self._last_id

    def end(self, at_ms: float, id_: int, *, is_error: bool = False) -> None:
        """Write the result of a call."""
        self.answer(at_ms - self._opened_ms, id_, content=[], **({"isError": True} if is_error else {}))


def write_codex(folder: Path) -> list[Path]:
    """Write three captures of Codex; returns their paths.

    The first turn makes four calls on three servers: two at the same time, one of which fails, one later, and one that
    gets no response. At least one is waited for from 100 to 600 ms and from 1,000 to 1,250 ms. The second turn makes
    one call, from 5,000 to 5,010 ms. All times are after the first capture opened.
    """
    files, search, tickets = (
        ClientCapture(folder, server, number, "codex-mcp-client")
        for number, server in enumerate(("files", "search", "tickets"))
    )
    first, second = files.begin(100, codex_meta(TURN, "call_1")), search.begin(200, codex_meta(TURN, "call_2"))
    files.end(400, first, is_error=True)
    search.end(600, second)
    files.end(1_250, files.begin(1_000, codex_meta(TURN, "call_3")))
    tickets.begin(1_100, codex_meta(TURN, "call_4"))
    search.end(5_010, search.begin(5_000, codex_meta(LATER_TURN, "call_5")))
    return [capture.close() for capture in (files, search, tickets)]


def write_others(folder: Path) -> list[Path]:
    """Write a capture with one call, from 100 to 150 ms, for each of the other clients; returns their paths."""
    environment = {"env": {"CLAUDE_CODE_SESSION_ID": ENVIRONMENT_HASH}}
    talks = [
        (ClientCapture(folder, "issues", 3, "Visual Studio Code"), vscode_meta()),
        (ClientCapture(folder, "memory", 4, "goose"), GOOSE_META),
        (ClientCapture(folder, "notes", 5, "qwen"), QWEN_META),
        (ClientCapture(folder, "mail", 6, "opencode"), OPENCODE_META),
        (ClientCapture(folder, "maps", 7, "claude-code", **environment), CLAUDE_CODE_META),
        (ClientCapture(folder, "music", 8, "gemini-cli-mcp-client", **environment), {"progressToken": "0bd1a7b4"}),
    ]
    for capture, meta in talks:
        capture.end(150, capture.begin(100, meta))
    return [capture.close() for capture, _ in talks]
