"""Copies of captures whose clients name turns: the turns stay together, and nothing shows what the ids were."""

from pathlib import Path
from typing import Any

import pytest

from analysis.conversation.client_ids import ClientIds
from analysis.reading import Reading
from captures.frame import Frame
from captures.reader import Capture, assembled_items
from mcpproxy.sharing import redacted_copy
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
)

pytestmark = pytest.mark.usefixtures("secret_rules")


def written(folder: Path, *metas: Any, client_name: str = "client", **header: Any) -> tuple[Path, Path]:
    """Write a capture with a call for each `_meta`, and a redacted copy; returns both."""
    capture = ClientCapture(folder, "original", 0, client_name, **header)
    for number, meta in enumerate(metas, 1):
        capture.end(number, capture.begin(number, meta))
    original, copy = capture.close(), folder / "copy.mcpcap"
    redacted_copy(original, copy)
    return original, copy


def ids_in(path: Path) -> list[ClientIds]:
    calls = {call.number: call for step in Reading(path).to_end() for call in step.changed}
    return [call.client_ids for call in calls.values() if call.request.method == "tools/call"]


def frames_text(path: Path) -> str:
    return "".join(item.raw.decode() for item in assembled_items(Capture(path)) if isinstance(item, Frame))


def test_turns_stay_together_under_other_ids(tmp_path: Path) -> None:
    metas = [codex_meta(TURN, "call_1"), codex_meta(LATER_TURN, "call_2"), codex_meta(TURN, "call_3")]
    original, copy = written(tmp_path, *metas)
    first, second, third = ids_in(copy)
    assert first.client == "Codex"
    assert first.turn == third.turn != second.turn
    assert first.session == second.session == third.session
    assert len({ids.call for ids in (first, second, third)}) == 3
    known = {TURN, LATER_TURN, THREAD, "call_1", "call_2", "call_3"}
    assert known.isdisjoint(value for ids in (first, second, third) for value in ids)
    assert not [value for value in known if value in frames_text(copy)]
    assert [ids.turn for ids in ids_in(original)] == [TURN, LATER_TURN, TURN]


def test_the_trace_stays_as_it_belongs_to_the_protocol(tmp_path: Path) -> None:
    _, copy = written(tmp_path, vscode_meta())
    (ids,) = ids_in(copy)
    assert (ids.client, ids.trace) == ("VS Code", TRACE)


@pytest.mark.parametrize(
    "directory", ["/home/ada/secret-garden", "/srv/acme/secret-garden", "C:\\work\\secret-garden", "~/secret-garden"]
)
def test_neither_workspaces_nor_remotes_are_in_a_copy(tmp_path: Path, directory: str) -> None:
    remote = {"associated_remote_urls": {"origin": "git@git.example:ada/secret-garden.git"}}
    meta = {"x-codex-turn-metadata": {"turn_id": TURN, "workspaces": {directory: remote, directory + "/empty": {}}}}
    _, copy = written(tmp_path, {"other": 1}, meta, {"x-codex-turn-metadata": {"workspaces": {directory: {}}}})
    assert "secret-garden" not in frames_text(copy)
    assert "git.example" not in frames_text(copy)
    assert frames_text(copy).count("workspaces") == 2


def test_a_path_is_replaced_in_metadata_even_if_it_was_a_harmless_name_before(tmp_path: Path) -> None:
    capture = ClientCapture(tmp_path, "original", 0, "client")
    capture.ask(1, 1, "tools/call", name="find", arguments={"/srv/secret-garden": 1})
    capture.ask(2, 2, "tools/call", name="find", arguments={}, _meta={"client/own": {"/srv/secret-garden": 1}})
    copy = tmp_path / "copy.mcpcap"
    redacted_copy(capture.close(), copy)
    assert frames_text(copy).count("secret-garden") == 1


def test_the_conversation_in_the_environment_is_hashed_again_under_its_name(tmp_path: Path) -> None:
    environment = {"CLAUDE_CODE_SESSION_ID": ENVIRONMENT_HASH, "ACME_PROJECT": ENVIRONMENT_HASH}
    _, copy = written(tmp_path, CLAUDE_CODE_META, client_name="claude-code", env=environment)
    (ids,) = ids_in(copy)
    assert ids.client == "Claude Code"
    assert ids.session not in (None, ENVIRONMENT_HASH)
    names = Capture(copy).header.members["env"]
    assert "CLAUDE_CODE_SESSION_ID" in names
    assert "ACME_PROJECT" not in names


@pytest.mark.parametrize(
    "meta",
    [
        {"x-codex-turn-metadata": '{"turn_id":"canary-1","workspaces":{"/srv/canary-2":{}}}'},
        {"com.example/any": '["canary-1"]'},
        {"traceparent": "Bearer canary-1"},
        {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-canary"},
        {"traceparent": {"inner": "canary-1"}},
        {"tracestate": "canary 1"},
    ],
)
def test_no_metadata_hides_in_a_string_or_in_the_place_of_a_trace(tmp_path: Path, meta: dict[str, Any]) -> None:
    _, copy = written(tmp_path, meta)
    assert "canary" not in frames_text(copy)
