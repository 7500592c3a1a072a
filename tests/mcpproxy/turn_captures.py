"""Captures of clients that name their turns, built by the published facts about their `_meta`; none is a recording."""

from pathlib import Path
from typing import Any, Final

from tests.analysis.store.capture_writer import MS, OPENED, CaptureWriter

TURN: Final = "019a2b3c-5d6e-7000-8000-0000000c0de1"
LATER_TURN: Final = "019a2b3c-5d6e-7000-8000-0000000c0de2"
THREAD: Final = "019a2b00-0000-7000-8000-00000000beef"
TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"


def codex_meta(turn: str, call: str) -> dict[str, Any]:
    """Returns `_meta` as Codex sends it."""
    names = {"session_id": THREAD, "thread_id": THREAD, "turn_id": turn}
    traceparent = f"00-{TRACE}-00f067aa0ba902b7-01"
    return {"threadId": THREAD, "callId": call, "x-codex-turn-metadata": names, "traceparent": traceparent}


def write_turns(folder: Path) -> list[Path]:
    """Write captures of three servers of Codex, and of one of Claude Code, which names no turns.

    The first turn makes four calls on three servers: two at the same time, one that fails, and one without a response.
    By the wall clock, calls are waited for from 1.0 to 3.6 s, and from 4.0 to 4.1 s. The second turn makes one call.
    """
    files, search, tickets = (
        _writer(folder, name, number, 500 * number, "codex", 4000)
        for number, name in enumerate(("files", "search", "tickets"))
    )
    for talk in (files, search, tickets):
        talk.handshake(name="server")
    _call(files, 1_000, 1, "read_file", codex_meta(TURN, "call_1"))
    files.answer(1_400, 1, content=[{"type": "text", "text": "one"}])
    _call(files, 4_000, 2, "write_file", codex_meta(TURN, "call_3"))
    files.fail(4_100, 2, "no space left")
    _call(files, 60_000, 3, "read_file", codex_meta(LATER_TURN, "call_5"))
    files.answer(60_010, 3, content=[{"type": "text", "text": "two"}])
    _call(search, 600, 1, "search", codex_meta(TURN, "call_2"))
    search.answer(3_100, 1, content=[{"type": "text", "text": "three"}])
    _call(tickets, 4_000, 1, "open_ticket", codex_meta(TURN, "call_4"))
    notes = _writer(folder, "notes", 3, 2_000, "claude", 5000)
    notes.handshake(name="server")
    _call(notes, 100, 1, "add_note", {"claudecode/toolUseId": "toolu_01A", "progressToken": 1})
    notes.answer(200, 1, content=[{"type": "text", "text": "four"}])
    return [talk.close() for talk in (files, search, tickets, notes)]


def _writer(folder: Path, name: str, number: int, began_ms: int, program: str, pid: int) -> CaptureWriter:
    """Returns the writer of a capture in a folder of its own; a program with this pid is the client."""
    path = folder / name / f"{name}.mcpcap"
    path.parent.mkdir(parents=True, exist_ok=True)
    parents = [{"pid": pid, "start": 700, "exe": program}]
    return CaptureWriter(path, name, number, OPENED + began_ms * MS, boot_id="b", parents=parents)


def _call(talk: CaptureWriter, at_ms: float, id_: int, tool: str, meta: dict[str, Any]) -> None:
    talk.ask(at_ms, id_, "tools/call", name=tool, arguments={}, _meta=meta)
