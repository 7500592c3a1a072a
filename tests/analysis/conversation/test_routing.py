"""Telling clients apart over HTTP without session ids: at one address, in both eras, with and without names."""

from typing import Any

import pytest

from analysis.conversation.fold import Fold
from analysis.conversation.routing import MAX_IDLE_NS
from analysis.conversation.session import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from tests.analysis.conversation.test_crowds import INITIALIZE, SERVED, Tape


def envelope(name: str | None) -> dict[str, Any]:
    """The params of a modern request."""
    meta: dict[str, Any] = {PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {}}
    return {"_meta": meta if name is None else meta | {CLIENT_INFO: {"name": name, "version": "1"}}}


def sessions_of(tape: Tape) -> list[int]:
    """The session of each message that the client sends."""
    fold = Fold()
    contexts = [one for item in tape.items for one in fold.feed(item)]
    return [one.session.number for one in contexts if one.message.sender == "client"]


def test_clients_of_one_address_are_told_apart_by_era_and_by_the_name_they_give() -> None:
    tape = Tape("http")
    tape.post(1, session=None, id=0, method="initialize", params=INITIALIZE)
    tape.post(2, session=None, id=1, method="tools/list", params=envelope("editor"))
    tape.post(3, session=None, id=1, method="tools/list")
    tape.post(4, session=None, id=1, method="tools/list", params=envelope("agent"))
    tape.post(5, session=None, id=2, method="prompts/list", params=envelope("editor"))
    tape.post(6, session=None, id=2, method="prompts/list")
    tape.post(7, session=None, id=2, method="prompts/list", params=envelope("agent"))
    assert sessions_of(tape) == [1, 2, 1, 3, 2, 1, 3]


def test_who_leaves_its_name_out_once_is_the_one_who_was_heard_last() -> None:
    tape = Tape("http")
    tape.post(1, session=None, id=1, method="tools/list", params=envelope("editor"))
    tape.post(2, session=None, id=2, method="tools/list", params=envelope(None))
    tape.post(3, session=None, id=3, method="tools/list", params=envelope("editor"))
    assert sessions_of(tape) == [1, 1, 1]


def test_what_says_nothing_of_itself_belongs_to_the_only_one_there_is() -> None:
    tape = Tape("http")
    tape.post(1, session=None, id=1, method="tools/list", params=envelope("editor"))
    tape.post(2, session=None, id=2, method="tools/list")
    assert sessions_of(tape) == [1, 1]


@pytest.mark.parametrize("is_modern", [True, False])
def test_clients_behind_a_proxy_are_told_apart_by_the_addresses_that_it_reports(is_modern: bool) -> None:
    tape = Tape("http")
    request = {"method": "POST", "target": "/mcp", "headers": [["User-Agent", "client/1"]]}
    params = envelope(None) if is_modern else {}
    for number, host in enumerate(("198.51.100.1", "198.51.100.2", "198.51.100.1", "2001:db8::1", "2001:db8::2"), 1):
        place = {"conn": 1, "peer": "127.0.0.1:1", "forwarded_for": host}
        tape.record("exchange", exchange=number, stage="request", request=request, **place)
        tape.say("c2s", number, id=1, method="tools/list", params=params)
        tape.say("s2c", number, id=1, result={"tools": []})
        response = {"status": 200, "headers": []}
        tape.record("exchange", exchange=number, stage="end", ended_by="complete", response=response)
    assert sessions_of(tape) == [1, 2, 1, 3, 4]


# ---- a refused probe, and the handshake after it

REFUSED: dict[str, Any] = {"id": None, "error": {"code": -32600, "message": "Missing session ID"}}


def hello(tape: Tape, exchange: int, conn: int, name: str | None = "host", session: str = "hmac:1") -> None:
    """Add a handshake whose response gives a session id."""
    params = INITIALIZE if name is None else {**INITIALIZE, "clientInfo": {"name": name, "version": "1"}}
    say(tape, exchange, conn, {"id": 0, "method": "initialize", "params": params}, {"id": 0, "result": SERVED}, session)


def probe(tape: Tape, exchange: int, conn: int, name: str | None = "host", answer: dict[str, Any] = REFUSED) -> None:
    """Add a probe of the modern era and its response."""
    asked = {"id": 1, "method": "server/discover", "params": envelope(name)}
    say(tape, exchange, conn, asked, answer, status=400 if answer is REFUSED else 200)


def say(
    tape: Tape,
    exchange: int,
    conn: int,
    asked: dict[str, Any],
    answer: dict[str, Any],
    given: str | None = None,
    status: int = 200,
) -> None:
    """Add a POST on a connection and its response, which may give a session id."""
    request = {"method": "POST", "target": "/mcp", "headers": [["Accept", "application/json, text/event-stream"]]}
    response = {"status": status, "headers": [["Mcp-Session-Id", given]] if given else []}
    peer = f"127.0.0.1:{conn}"
    tape.record("exchange", exchange=exchange, stage="request", conn=conn, peer=peer, request=request)
    tape.say("c2s", exchange, **asked)
    tape.record("exchange", exchange=exchange, stage="response", conn=conn, response=response)
    tape.say("s2c", exchange, **answer)
    tape.record("exchange", exchange=exchange, stage="end", conn=conn, ended_by="complete", response=response)


def later(tape: Tape, exchange: int, session: str) -> None:
    """Add a request that has a session id."""
    tape.post(exchange, session=session, id=exchange, method="tools/list")


@pytest.mark.parametrize("name", ["host", None])
def test_a_refused_probe_and_the_handshake_on_its_connection_are_one_session(name: str | None) -> None:
    tape = Tape("http")
    probe(tape, 1, conn=7, name=name)
    hello(tape, 2, conn=7)
    later(tape, 3, "hmac:1")
    assert sessions_of(tape) == [1, 1, 1]


def test_a_refused_probe_and_the_handshake_of_the_same_client_are_one_session_if_nothing_is_between() -> None:
    tape = Tape("http")
    probe(tape, 1, conn=7)
    hello(tape, 2, conn=8)
    later(tape, 3, "hmac:1")
    assert sessions_of(tape) == [1, 1, 1]


def test_a_refused_probe_is_not_of_a_session_that_somebody_else_may_have_begun() -> None:
    for name, between in (("host", "other"), ("other", None), (None, None)):
        tape = Tape("http")
        probe(tape, 1, conn=7)
        if between:
            probe(tape, 2, conn=9, name=between)
        hello(tape, 3, conn=8, name=name or "somebody")
        assert sessions_of(tape) == ([1, 2, 3] if between else [1, 2]), name


def test_each_start_of_a_client_that_probes_is_one_session() -> None:
    tape = Tape("http")
    for start in range(3):
        probe(tape, 10 * start + 1, conn=start + 1)
        hello(tape, 10 * start + 2, conn=start + 1, session=f"hmac:{start}")
        later(tape, 10 * start + 3, f"hmac:{start}")
    assert sessions_of(tape) == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_two_clients_of_one_name_that_probe_at_once_are_two_sessions() -> None:
    tape = Tape("http")
    probe(tape, 1, conn=7)
    probe(tape, 2, conn=8)
    hello(tape, 3, conn=7, session="hmac:1")
    hello(tape, 4, conn=8, session="hmac:2")
    later(tape, 5, "hmac:1")
    later(tape, 6, "hmac:2")
    assert sessions_of(tape) == [1, 1, 1, 2, 1, 2]  # the names are equal: the second probe fits either


def test_a_probe_that_a_modern_server_answers_opens_a_session_of_its_own() -> None:
    found = {"id": 1, "result": {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}}
    for answer in (found, {"id": 1, "error": {"code": -32022, "message": "no", "data": {"supported": ["2027-01-01"]}}}):
        tape = Tape("http")
        probe(tape, 1, conn=7, answer=answer)
        hello(tape, 2, conn=7)
        assert sessions_of(tape) == [1, 2]


def test_a_probe_whose_answer_is_awaited_is_not_refused() -> None:
    tape = Tape("http")
    request = {"method": "POST", "target": "/mcp", "headers": []}
    tape.record("exchange", exchange=1, stage="request", conn=7, peer="127.0.0.1:7", request=request)
    tape.say("c2s", 1, id=1, method="server/discover", params=envelope("host"))
    hello(tape, 2, conn=8)
    assert sessions_of(tape) == [1, 2]


def test_a_handshake_long_after_a_probe_is_another_session() -> None:
    tape = Tape("http")
    probe(tape, 1, conn=7)
    tape.late_ns = MAX_IDLE_NS
    hello(tape, 2, conn=8)
    assert sessions_of(tape) == [1, 2]
