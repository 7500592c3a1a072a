"""Who ended a conversation, as logs of other programs tell it: a server that was stopped is not blamed."""

import json

import pytest

from captures.reader import assembled_items
from mcpproxy.importers.log_items import ClientExit, Disconnection, Event, LoggedFrame, ServerExit, ServerStart
from tests.analysis.judged import Judged
from tests.mcpproxy.importers.logs import ImportedCapture, imported
from tests.mcpproxy.importers.test_conversations import CALL, NOW, OPENED, OPENING, written

DESKTOP = (
    "Initializing server...",
    f"Message from client: {OPENING.decode()}",
    f"Message from server: {OPENED.decode()}",
    f"Message from client: {CALL.decode()}",
)
VSCODE = (
    "Starting server files",
    f"[editor -> server] {OPENING.decode()}",
    f"[server -> editor] {OPENED.decode()}",
    f"[editor -> server] {CALL.decode()}",
)
CURSOR = ("Starting new stdio process with command: x", "Calling tool 'read' with toolCallId: call_1")
CODE = ("Starting connection with timeout of 30000ms", "Calling MCP tool: read")
SHUTDOWN = {"shutdown/server-died", "shutdown/server-left"}


def log_of(form: str, texts: tuple[str, ...]) -> bytes:
    """A log whose entries are a second apart."""
    lines = []
    for second, text in enumerate(texts):
        date, clock = "2026-03-01", f"10:12:{second:02}.125"
        if form == "claude-code":
            lines.append(json.dumps({"debug": text, "timestamp": f"{date}T{clock}Z", "sessionId": "s", "cwd": "/"}))
        elif form == "claude-desktop":
            lines.append(f"{date}T{clock}Z [files] [info] {text} {{ metadata: undefined }}")
        else:
            lines.append(f"{date} {clock} [debug] {text}")
    return "".join(f"{line}\n" for line in lines).encode()


def ends(capture: ImportedCapture) -> list[str]:
    return [
        str(record.members.get("dir", record.rec)) for record in capture.records if record.rec in ("eof", "process")
    ]


def shutdown_rules(capture: ImportedCapture) -> set[str]:
    checker = Judged()
    findings = [finding for item in assembled_items(capture.records) for finding in checker.feed(item)]
    return {finding.rule for finding in [*findings, *checker.finish("closed")]} & SHUTDOWN


@pytest.mark.parametrize(
    ("form", "texts", "expected"),
    [
        ("claude-desktop", (*DESKTOP, "Shutting down server..."), ["c2s"]),
        ("claude-desktop", (*DESKTOP, "Client transport closed", "Server transport closed"), ["c2s", "s2c"]),
        (
            "claude-desktop",
            (*DESKTOP, "Shutting down server...", "Client transport closed", "Server transport closed"),
            ["c2s", "s2c"],
        ),
        ("vscode", (*VSCODE, "Stopping server files", "Connection state: Stopped"), ["c2s", "s2c"]),
        ("vscode", (*VSCODE, "Connection state: Stopped"), []),
        ("cursor", (*CURSOR, "Handling DeleteClient action", "Client closed for command"), ["c2s", "s2c"]),
        ("cursor", (*CURSOR, "Cleaning up", "Client closed for command"), ["c2s", "s2c"]),
        ("cursor", (*CURSOR, "Client closed for command"), []),
        (
            "claude-code",
            (*CODE, "Sending SIGINT to MCP server process", "MCP server process exited cleanly"),
            ["c2s", "s2c"],
        ),
        ("claude-code", (*CODE, "STDIO connection closed after 7s (cleanly)"), []),
    ],
)
def test_a_server_that_was_stopped_is_not_blamed(form: str, texts: tuple[str, ...], expected: list[str]) -> None:
    (capture,) = imported(form, log_of(form, texts), "files.log").captures
    assert ends(capture) == expected
    assert shutdown_rules(capture) == set()


@pytest.mark.parametrize(
    ("form", "texts", "expected"),
    [
        ("claude-desktop", (*DESKTOP, "Server transport closed", "Client transport closed"), ["s2c"]),
        (
            "claude-desktop",
            (*DESKTOP, "Client transport closed", "Server transport closed", "Server transport closed unexpectedly, x"),
            ["s2c"],
        ),
        ("vscode", (*VSCODE, "Connection state: Error Process exited with code 1"), ["process"]),
        (
            "cursor",
            (*CURSOR, "Error calling tool 'read': MCP error -32000: Connection closed", "Client closed for command"),
            ["s2c"],
        ),
        ("claude-code", (*CODE, "Connection failed: MCP error -32000: Connection closed"), ["s2c"]),
    ],
)
def test_a_server_that_ended_by_itself_is(form: str, texts: tuple[str, ...], expected: list[str]) -> None:
    (capture,) = imported(form, log_of(form, texts), "files.log").captures
    assert ends(capture) == expected
    assert shutdown_rules(capture) == {"shutdown/server-died"}


def test_the_first_end_counts_and_a_client_that_comes_back_has_a_new_capture() -> None:
    opening = LoggedFrame("a", "c2s", OPENING, NOW)
    opened = LoggedFrame("a", "s2c", OPENED, NOW)
    for events, expected in (
        ([ClientExit("a"), ServerExit("a"), ClientExit("a")], ["c2s", "s2c"]),
        ([ServerExit("a"), ClientExit("a")], ["s2c"]),
        ([Disconnection("a"), ServerExit("a")], []),
        ([ClientExit("a"), opened], ["c2s"]),
    ):
        run: list[Event] = [opening, opened, *events]
        one, two = written([*run, opening, opened])
        assert (ends(one), len(two.frames)) == (expected, 2), events
    (capture,) = written([ServerStart("a", NOW), ClientExit("a", NOW), opening, opened])
    assert ends(capture) == []
