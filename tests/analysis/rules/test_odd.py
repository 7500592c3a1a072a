"""Oddities: what is odd about a message, and that each rule names the oddities that concern it."""

import json
from typing import Any

from analysis.rules.base import Rule
from analysis.rules.discovery import rules
from analysis.rules.odd import LARGE, NOTHING, Odd, oddities_of
from tests.analysis.talk import Talk

EVERYTHING = ~NOTHING
NAMING = {id_: rule for id_, rule in rules().items() if rule.on_anomaly is not Rule.on_anomaly}
"""The rules that are called for odd messages."""


def test_a_rule_with_on_odd_and_no_other_says_what_it_is_about() -> None:
    assert [id_ for id_, rule in NAMING.items() if not rule.oddities] == []
    assert [id_ for id_, rule in rules().items() if id_ not in NAMING and rule.oddities is not NOTHING] == []


def test_what_a_rule_says_exists_and_each_oddity_is_what_a_rule_is_about() -> None:
    wanted = NOTHING
    for id_, rule in NAMING.items():
        assert type(rule.oddities) is Odd, id_
        wanted |= rule.oddities
    assert wanted == EVERYTHING


def compact(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}, separators=(",", ":")).encode()


def of(talk: Talk, raw: bytes, by: str = "c2s", **frame: Any) -> list[Odd]:
    """The oddities of each message of a frame."""
    return [oddities_of(seen) for seen in talk.raw("c2s" if by == "c2s" else "s2c", raw, **frame)]


def test_usual_messages_have_none() -> None:
    talk = Talk()
    for direction, raw in (
        ("c2s", compact(id=1, method="ping")),
        ("s2c", compact(id=1, result={})),
        ("s2c", compact(method="notifications/message", params={})),
        ("c2s", b'{ "jsonrpc": "2.0", "id": "a", "method": "ping" }'),
    ):
        (odd,) = of(talk, raw, direction)
        assert odd is NOTHING, raw


def test_each_oddity() -> None:
    talk = Talk()
    ping, big = compact(id=1, method="ping"), compact(method="x", params={"x": "x" * LARGE})
    incomplete = compact(
        id=9, method="tools/list", params={"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
    )
    for direction, raw, more, wanted in (
        ("c2s", ping, {}, [NOTHING]),
        ("c2s", b'{"id":2,"method":"ping"}', {}, [Odd.MALFORMED]),
        ("c2s", compact(id=True, method="ping"), {}, [Odd.MALFORMED]),
        ("c2s", b"[%b,%b]" % (compact(method="a"), compact(method="b")), {}, [Odd.SEVERAL | Odd.HIDING] * 2),
        ("c2s", compact(method="x", params={}).replace(b"{}", b'{"a":1,"a":2}'), {}, [Odd.HIDING]),
        ("c2s", compact(method="x", more=1), {}, [Odd.MEMBER]),
        ("c2s", big, {}, [Odd.LARGE]),
        ("c2s", compact(method="x"), {"delim": b"\r\n"}, [Odd.LINE_END]),
        ("c2s", compact(method="tools/list"), {}, [Odd.WITHOUT_ID]),
        ("c2s", ping, {}, [Odd.REUSED]),
        ("s2c", compact(id="1", result={}), {}, [Odd.CONVERTED]),
        ("s2c", compact(id=7, result={}), {}, [Odd.UNPAIRED]),
        ("s2c", compact(id=7, error={"code": 1, "message": "no"}), {}, [Odd.UNPAIRED | Odd.ERROR]),
        ("c2s", compact(id=3, method="ping"), {}, [NOTHING]),
        ("c2s", compact(method="notifications/cancelled", params={"requestId": 3}), {}, [NOTHING]),
        ("s2c", compact(id=3, error={"code": 1, "message": "no"}), {}, [Odd.CANCELLED | Odd.ERROR]),
        ("c2s", incomplete, {}, [Odd.INCOMPLETE]),
        ("s2c", compact(id=9, result={}), {}, [Odd.INCOMPLETE]),
        ("c2s", b"{", {}, []),
        ("c2s", compact(method="x")[1:], {}, [Odd.MALFORMED | Odd.SPREAD | Odd.HIDING]),
    ):
        assert of(talk, raw, direction, **more) == wanted, raw[:80]
