"""The lines of `show --turns`, and the ids on the page of a call."""

from pathlib import Path

from analysis.filter import parse
from analysis.reading import Reading
from mcpproxy.report.conversation import Conversation
from mcpproxy.report.message_page import SelectedMessages
from mcpproxy.wording.spans import Style
from tests.analysis.client_captures import (
    CLAUDE_CODE_META,
    ENVIRONMENT_HASH,
    LATER_TURN,
    THREAD,
    TRACE,
    TURN,
    ClientCapture,
    codex_meta,
    vscode_meta,
    write_codex,
)


def shown(path: Path, only: str | None = None) -> list[str]:
    """Returns the calls and the lines about turns."""
    reading = Reading(path)
    conversation = Conversation(reading.fold, width=120, turns=True, only=None if only is None else parse(only))
    lines = [line for step in reading.to_end() for line in conversation.feed(step)]
    return [" ".join(line.split()[1:]) for line in lines if "turn" in line or "→  tools/call" in line]


def page(path: Path, number: int) -> list[str]:
    reading = Reading(path)
    selected = SelectedMessages(parse(f"frame:{number}"), reading.fold)
    for step in reading.to_end():
        selected.on_step(step)
    return list(selected.pages([], Style()))


def test_a_turn_is_named_above_its_first_call_and_where_it_goes_on(tmp_path: Path) -> None:
    capture = ClientCapture(tmp_path, "search", 0, "codex-mcp-client")
    metas = (TURN, TURN, LATER_TURN, None, TURN)
    for number, turn in enumerate(metas, 1):
        capture.begin(number, None if turn is None else codex_meta(turn, "call"), "find")
    capture.ask(10, 9, "tools/list")
    assert [line for line in shown(capture.close()) if line.startswith("·")] == [
        "· turn 0199…000001 of Codex conversation 0199…00beef",
        "· turn 0199…000002 of Codex conversation 0199…00beef",
        "· no turn",
        "· turn 0199…000001 of Codex conversation 0199…00beef (continued)",
    ]


def test_first_calls_without_a_turn_have_a_line(tmp_path: Path) -> None:
    capture = ClientCapture(tmp_path, "search", 0, "codex-mcp-client")
    for meta in (None, None, codex_meta(TURN, "call")):
        capture.begin(1, meta)
    assert [line for line in shown(capture.close()) if line.startswith("·")] == [
        "· no turn",
        "· turn 0199…000001 of Codex conversation 0199…00beef",
    ]


def test_a_filter_on_a_turn_shows_its_calls_only(tmp_path: Path) -> None:
    _, search, _ = write_codex(tmp_path)
    assert shown(search, f"turn:{LATER_TURN} kind:request") == [
        "· turn 0199…000002 of Codex conversation 0199…00beef",
        "6 → tools/call #2 find 698 B",
    ]
    assert len(shown(search, f"client_session:{THREAD} kind:request")) == 4


def test_ids_cannot_act_on_a_terminal(tmp_path: Path) -> None:
    capture = ClientCapture(tmp_path, "search", 0, "client")
    capture.begin(1, vscode_meta("\x1b[2J", "\x1b[0m"))
    path = capture.close()
    assert "· turn \\x1b[2J of VS Code conversation \\x1b[0m" in shown(path)
    assert not [line for line in page(path, 4) if "\x1b" in line]


def test_the_page_of_a_call_names_what_it_belongs_to(tmp_path: Path) -> None:
    capture = ClientCapture(tmp_path, "maps", 0, "claude-code", env={"CLAUDE_CODE_SESSION_ID": ENVIRONMENT_HASH})
    capture.end(2, capture.begin(1, CLAUDE_CODE_META))
    capture.end(4, capture.begin(3, vscode_meta("request", "talk")))
    path = capture.close()
    first, second = page(path, 4), page(path, 7)
    assert f"  conversation {ENVIRONMENT_HASH} of Claude Code" in first
    assert "  call id      toolu_demo7" in first
    assert second[0].startswith("frame 6")
    for line in ("turn         request of VS Code", "conversation talk", f"trace        {TRACE}"):
        assert f"  {line}" in second
        assert second.count(f"  {line}") == 1


def test_pages_of_calls_without_ids_have_their_usual_width(tmp_path: Path) -> None:
    capture = ClientCapture(tmp_path, "maps", 0, "client")
    capture.begin(1, None)
    assert page(capture.close(), 4)[1].startswith("  crossed    +")
