"""Who is who over HTTP where no session id tells: clients of one address, of both eras, with and without a name."""

from typing import Any

from analysis.fold import Fold
from analysis.session import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION
from tests.analysis.test_crowds import INITIALIZE, Tape


def envelope(name: str | None) -> dict[str, Any]:
    """The params of a modern request."""
    meta: dict[str, Any] = {PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {}}
    return {"_meta": meta if name is None else meta | {CLIENT_INFO: {"name": name, "version": "1"}}}


def sessions_of(tape: Tape) -> list[int]:
    """The session of each message of the client."""
    fold = Fold()
    seen = [one for item in tape.items for one in fold.feed(item)]
    return [one.session.number for one in seen if one.message.sender == "client"]


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
