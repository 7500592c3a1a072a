"""The words for turns, and for the ids that a client gives a call."""

from analysis.conversation.client_ids import ClientIds
from analysis.conversation.turns import CallOfTurn, Turn, TurnKey
from mcpproxy.wording.facts import Fact
from mcpproxy.wording.turns import extent_text, id_facts, no_turn_text, short_id, turn_text, turn_title

KEY = TurnKey("Codex", "thread-1", "019a2b3c-0000-7000-8000-00000a7c3f2a")


def turn_of(*calls: CallOfTurn) -> Turn:
    turn = Turn(KEY)
    turn.calls.extend(calls)
    return turn


def test_a_turn_says_calls_servers_failures_and_waiting() -> None:
    second_ns = 1_000_000_000
    turn = turn_of(
        CallOfTurn("a", 0, 20 * second_ns, is_failed=False),
        CallOfTurn("b", 10 * second_ns, 41 * second_ns, is_failed=True),
        CallOfTurn("c", 0, None, is_failed=True),
        CallOfTurn("a", 0, 5 * second_ns, is_failed=False),
    )
    assert turn_text(turn) == "4 calls on 3 servers, 2 failed, 41.0 s of waiting"
    assert turn_text(turn_of(CallOfTurn("a", 0, None, is_failed=False))) == "1 call on 1 server"
    assert extent_text(1, 1, 0, 5_000_000) == "1 call on 1 server, 5.0 ms of waiting"


def test_a_short_id_keeps_what_tells_it_from_its_neighbours() -> None:
    assert turn_title(KEY) == "turn 019a…7c3f2a of Codex"
    assert short_id("request_1") == "request_1"
    assert short_id("f00dbabe-1########7") != short_id("f00dbabe-1########8")
    assert short_id("\x1b[2J" + "a" * 20) == "\\x1b[2J…aaaaaa"


def test_the_ids_of_a_call_are_facts_and_name_the_client_once() -> None:
    ids = ClientIds("Codex", "turn\x1b", "call_9", "thread-1", "4bf92f3577b34da6a3ce929d0e0e4736")
    assert list(id_facts(ids)) == [
        Fact("turn", "turn\\x1b of Codex"),
        Fact("conversation", "thread-1"),
        Fact("call id", "call_9"),
        Fact("trace", "4bf92f3577b34da6a3ce929d0e0e4736"),
    ]
    assert next(id_facts(ids, is_short=True)) == Fact("turn", "turn\\x1b of Codex")
    assert [fact.text for fact in id_facts(ids, is_short=True)][-1] == "4bf9…0e4736"
    assert list(id_facts(ClientIds("Claude Code", call="toolu_1"))) == [Fact("call id", "toolu_1 of Claude Code")]
    assert not list(id_facts(ClientIds()))


def test_calls_without_a_turn_are_explained_by_what_their_client_names() -> None:
    assert no_turn_text({"Codex": 4, "Claude Code": 1, "ag\x1b[2Jent": 12, "VS Code": 0}) == (
        "17 calls name no turn: 12 of ag\\x1b[2Jent, 4 of Codex, "
        "1 of Claude Code (which names only its calls and conversations)"
    )
    assert no_turn_text({"Codex": 1}) == "1 call of Codex names no turn"
    assert no_turn_text({"": 2}) == "2 calls of an unnamed client name no turn"
    assert no_turn_text({"OpenCode": 1_200}) == (
        "1,200 calls of OpenCode name no turn: it names only its conversations"
    )
    assert not no_turn_text({"Codex": 0})


def test_clients_that_are_left_out_are_counted() -> None:
    clients = {f"client-{number}": 10 - number for number in range(7)}
    assert no_turn_text(clients) == (
        "49 calls name no turn: 10 of client-0, 9 of client-1, 8 of client-2, 7 of client-3, and 15 of 3 more clients"
    )
    del clients["client-6"], clients["client-5"]
    assert no_turn_text(clients).endswith(", 7 of client-3, 6 of client-4")
