"""Oddities: what is odd about a message, and that each rule names the oddities that concern it."""

import json
from typing import Any

from analysis.rules.base import Rule
from analysis.rules.discovery import rules
from analysis.rules.odd import LARGE_FRAME_BYTES, NOTHING, MessageOddity, oddities_of
from tests.analysis.talk import Talk

EVERYTHING = ~NOTHING
NAMING = {id_: rule for id_, rule in rules().items() if rule.on_anomaly is not Rule.on_anomaly}
"""The rules that are called for odd messages."""


def test_rules_with_only_on_anomaly_declare_their_oddities() -> None:
    assert [id_ for id_, rule in NAMING.items() if not rule.oddities] == []
    assert [id_ for id_, rule in rules().items() if id_ not in NAMING and rule.oddities is not NOTHING] == []


def test_what_a_rule_says_exists_and_each_oddity_is_what_a_rule_is_about() -> None:
    wanted = NOTHING
    for id_, rule in NAMING.items():
        assert type(rule.oddities) is MessageOddity, id_
        wanted |= rule.oddities
    assert wanted == EVERYTHING


def compact(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}, separators=(",", ":")).encode()


def of(talk: Talk, raw: bytes, by: str = "c2s", **frame: Any) -> list[MessageOddity]:
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
    ping, big = compact(id=1, method="ping"), compact(method="x", params={"x": "x" * LARGE_FRAME_BYTES})
    incomplete = compact(
        id=9, method="tools/list", params={"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
    )
    for direction, raw, more, wanted in (
        ("c2s", ping, {}, [NOTHING]),
        ("c2s", b'{"id":2,"method":"ping"}', {}, [MessageOddity.MALFORMED]),
        ("c2s", compact(id=True, method="ping"), {}, [MessageOddity.MALFORMED]),
        (
            "c2s",
            b"[%b,%b]" % (compact(method="a"), compact(method="b")),
            {},
            [MessageOddity.SEVERAL | MessageOddity.HIDING] * 2,
        ),
        ("c2s", compact(method="x", params={}).replace(b"{}", b'{"a":1,"a":2}'), {}, [MessageOddity.HIDING]),
        ("c2s", compact(method="x", more=1), {}, [MessageOddity.MEMBER]),
        ("c2s", big, {}, [MessageOddity.LARGE]),
        ("c2s", compact(method="x"), {"delim": b"\r\n"}, [MessageOddity.LINE_END]),
        ("c2s", compact(method="tools/list"), {}, [MessageOddity.WITHOUT_ID]),
        ("c2s", ping, {}, [MessageOddity.REUSED]),
        ("s2c", compact(id="1", result={}), {}, [MessageOddity.CONVERTED]),
        ("s2c", compact(id=7, result={}), {}, [MessageOddity.UNPAIRED]),
        ("s2c", compact(id=7, error={"code": 1, "message": "no"}), {}, [MessageOddity.UNPAIRED | MessageOddity.ERROR]),
        ("c2s", compact(id=3, method="ping"), {}, [NOTHING]),
        ("c2s", compact(method="notifications/cancelled", params={"requestId": 3}), {}, [NOTHING]),
        ("s2c", compact(id=3, error={"code": 1, "message": "no"}), {}, [MessageOddity.CANCELLED | MessageOddity.ERROR]),
        ("c2s", incomplete, {}, [MessageOddity.INCOMPLETE]),
        ("s2c", compact(id=9, result={}), {}, [MessageOddity.INCOMPLETE]),
        ("c2s", b"{", {}, []),
        ("c2s", compact(method="x")[1:], {}, [MessageOddity.MALFORMED | MessageOddity.SPREAD | MessageOddity.HIDING]),
    ):
        assert of(talk, raw, direction, **more) == wanted, raw[:80]
