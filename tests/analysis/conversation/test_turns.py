"""Turns: what one prompt caused on all servers of a client."""

from pathlib import Path

from analysis.conversation.client_ids import NO_IDS
from analysis.conversation.turns import CallOfTurn, TurnKey, Turns, call_of_turn
from analysis.reading import Reading
from tests.analysis.client_captures import LATER_TURN, THREAD, TURN, write_codex, write_others
from tests.analysis.store.capture_writer import MS, OPENED


def turns_of(*paths: Path) -> Turns:
    turns = Turns()
    for path in paths:
        reading = Reading(path)
        calls = {call.number: call for step in reading.to_end() for call in step.changed}
        for call in calls.values():
            entry = call_of_turn(
                call, reading.fold.name or "", reading.fold.wall_ns or 0, reading.fold.open_until_ns(call)
            )
            turns.add(call.client_ids, entry)
    return turns


def test_a_turn_is_put_together_from_the_captures_of_all_servers(tmp_path: Path) -> None:
    first, second = turns_of(*reversed(write_codex(tmp_path)))
    assert (first.key, second.key) == (TurnKey("Codex", THREAD, TURN), TurnKey("Codex", THREAD, LATER_TURN))
    assert (len(first.calls), first.servers, first.failure_count) == (4, ["files", "search", "tickets"], 2)
    assert (first.started_ns, first.waited_ns) == (OPENED + 100 * MS, 750 * MS)
    assert (len(second.calls), second.servers, second.failure_count) == (1, ["search"], 0)
    assert second.waited_ns == 10 * MS


def test_calls_of_other_clients_are_in_turns_only_if_they_name_one(tmp_path: Path) -> None:
    assert [turn.key.client for turn in turns_of(*write_others(tmp_path))] == ["VS Code", "Qwen Code"]


def test_a_call_that_may_still_be_answered_has_not_failed(tmp_path: Path) -> None:
    *_, tickets = write_codex(tmp_path)
    (call,) = [call for step in Reading(tickets).to_end() for call in step.changed if call.name == "find"][-1:]
    until_ns = call.started_ns + 5 * MS
    assert call_of_turn(call, "tickets", OPENED, until_ns).is_failed
    assert call_of_turn(call, "tickets", OPENED, until_ns, is_live=True) == CallOfTurn(
        "tickets", OPENED + call.started_ns, OPENED + until_ns, is_failed=False
    )
    assert Turns().add(NO_IDS, call_of_turn(call, "tickets", OPENED, until_ns)) is None
