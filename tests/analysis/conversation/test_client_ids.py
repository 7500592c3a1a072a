"""The ids by which each client says what a call belongs to."""

from pathlib import Path
from typing import Any

import pytest

from analysis.conversation.client_ids import MAX_ID_CHARS, NO_IDS, ROWS, ClientIds
from analysis.reading import Reading
from tests.analysis.client_captures import (
    CLAUDE_CODE_META,
    ENVIRONMENT_HASH,
    GOOSE_META,
    OPENCODE_META,
    QWEN_META,
    THREAD,
    TRACE,
    TRACEPARENT,
    TURN,
    ClientCapture,
    codex_meta,
    vscode_meta,
)


def ids_of(folder: Path, meta: Any, client_name: str = "client", **header: Any) -> ClientIds:
    capture = ClientCapture(folder, "server", 0, client_name, **header)
    capture.begin(100, meta)
    reading = Reading(capture.close())
    calls = [call for step in reading.to_end() for call in step.changed]
    assert calls[0].client_ids.turn is None
    return calls[-1].client_ids


@pytest.mark.parametrize(
    ("meta", "ids"),
    [
        (codex_meta(TURN, "call_1"), ClientIds("Codex", TURN, "call_1", THREAD)),
        ({"_codex_apps": {"call_id": "call_2"}}, ClientIds("Codex", None, "call_2")),
        ({"x-codex-turn-metadata": {"turn_id": "t", "session_id": "s"}}, ClientIds("Codex", "t", None, "s")),
        ({"x-codex-turn-metadata": {"turn_id": "t"}, "sessionId": "s"}, ClientIds("Codex", "t", None, "s")),
        (vscode_meta("request", "talk"), ClientIds("VS Code", "request", None, "talk", TRACE)),
        (GOOSE_META, ClientIds("Goose", None, "call_goose", "20261130_1")),
        (QWEN_META, ClientIds("Qwen Code", "prompt########3", None, "qwen-session")),
        (OPENCODE_META, ClientIds("OpenCode", None, None, "ses_demo")),
        (CLAUDE_CODE_META, ClientIds("Claude Code", None, "toolu_demo7")),
        ({"openai/session": "v1/a"}, ClientIds("ChatGPT", None, None, "v1/a")),
        ({"antigravity.google/conversation_id": "c"}, ClientIds("Antigravity", None, None, "c")),
        ({"traceparent": TRACEPARENT}, ClientIds(trace=TRACE)),
    ],
)
def test_each_client_is_known_by_the_members_that_only_it_has(tmp_path: Path, meta: Any, ids: ClientIds) -> None:
    assert ids_of(tmp_path, meta) == ids


@pytest.mark.parametrize(
    "meta",
    [
        None,
        {"progressToken": 7},
        {"callId": "c", "threadId": "t", "sessionId": "s"},
        {"x-codex-turn-metadata": '{"turn_id":"t"}'},
        {"x-codex-turn-metadata": {"turn_id": 7, "thread_id": ""}, "threadId": ["t"]},
        {"vscode.requestId": "x" * (MAX_ID_CHARS + 1)},
        {"traceparent": "00-4bf9"},
        {"traceparent": TRACEPARENT.replace(TRACE, "0" * 32)},
    ],
)
def test_what_is_no_id_or_could_be_of_any_client_names_nothing(tmp_path: Path, meta: Any) -> None:
    assert ids_of(tmp_path, meta) == NO_IDS


def test_members_of_one_client_only_count(tmp_path: Path) -> None:
    assert ids_of(tmp_path, CLAUDE_CODE_META | GOOSE_META) == ClientIds("Claude Code", None, "toolu_demo7")


@pytest.mark.parametrize(
    ("meta", "client_name", "ids"),
    [
        (CLAUDE_CODE_META, "claude-code", ClientIds("Claude Code", None, "toolu_demo7", ENVIRONMENT_HASH)),
        (None, "claude-code", ClientIds("Claude Code", None, None, ENVIRONMENT_HASH)),
        # Started in a terminal of Claude Code.
        (None, "gemini-cli-mcp-client", NO_IDS),
        (codex_meta(TURN, "call_1"), "claude-code", ClientIds("Codex", TURN, "call_1", THREAD)),
        ({"_codex_apps": {"call_id": "call_2"}}, "claude-code", ClientIds("Codex", None, "call_2")),
    ],
)
def test_the_environment_names_the_conversation_of_the_client_that_sets_it(
    tmp_path: Path, meta: Any, client_name: str, ids: ClientIds
) -> None:
    assert ids_of(tmp_path, meta, client_name, env={"CLAUDE_CODE_SESSION_ID": ENVIRONMENT_HASH, "HOME": 7}) == ids


def test_names_in_arguments_prove_nothing_and_servers_name_no_turns(tmp_path: Path) -> None:
    capture = ClientCapture(tmp_path, "server", 0, "client")
    capture.call(100, 1, "find", _meta=codex_meta(TURN, "call_1"), threadId=THREAD)
    capture.say(110, "s2c", id=1, method="sampling/createMessage", params={"_meta": codex_meta(TURN, "call_1")})
    calls = [call for step in Reading(capture.close()).to_end() for call in step.changed]
    assert {call.client_ids for call in calls} == {NO_IDS}


def test_each_row_has_its_source() -> None:
    assert [row.path for row in ROWS if not row.source] == []
