"""The straight ways of plain messages come to what the whole way comes to, for any traffic, and are taken."""

from random import Random
from typing import Any

import pytest

from analysis.conversation.call import Call
from analysis.conversation.session import Seen
from analysis.conversation.straight import Straight
from analysis.conversation.straight_http import StraightHttp
from analysis.reading import Reading
from tests.analysis.store.hostile import Maker
from tests.analysis.store.hostile_http import HttpMaker
from tests.analysis.traces import corpus
from tests.captures.samples import cut

HELD_OPEN = ("request", "session", "http", "outer", "response", "losses", "round", "task")


def told(lines: bytes) -> list[Any]:
    """All that a reading says of messages and calls, step by step."""
    reading = Reading(cut(lines))
    found: list[Any] = []
    for step in reading.to_end():
        found.append([(_seen(seen), _session(seen)) for seen in step.messages])
        found.append([_call(call) for call in step.changed])
    return found


def _seen(seen: Seen) -> dict[str, Any]:
    known = {name: getattr(seen, name) for name in Seen.__struct_fields__}
    numbers = {name: None if (call := known.pop(name)) is None else call.number for name in ("call", "answered")}
    cancelled, request, cancels = known.pop("cancelled"), known.pop("request"), known.pop("cancels")
    meant, http = known.pop("meant"), known.pop("http")
    numbers["http"] = None if http is None else http.number
    message = known.pop("message")
    parts = {name: repr(known.pop(name)) for name in ("body", "earlier")}
    parts["message"] = f"{type(message).__name__} {message.sender} {message.seq} {message.index} {message.t_ns}"
    links = {name: known.pop(name) is None for name in ("round", "task", "subscription")}
    del known["session"]
    others = [None if other is None else other.seq for other in (request, cancels)]
    parts["meant"] = "" if meant is None else f"{meant.call.number} {meant.text}"
    return {
        **known,
        **numbers,
        **parts,
        **links,
        "others": others,
        "cancelled": None if cancelled is None else cancelled.number,
    }


def _session(seen: Seen) -> dict[str, Any]:
    session = seen.session
    left_out = ("tables", "links", "memory", "lasting", "used", "initialize", "likeness")
    return {name: repr(getattr(session, name)) for name in session.__slots__ if name not in left_out}


def _call(call: Call) -> dict[str, Any]:
    known = {name: getattr(call, name) for name in Call.__struct_fields__ if name not in HELD_OPEN}
    outer, response = call.outer, call.response
    return {
        **known,
        "outer": None if outer is None else outer.number,
        "response": None if response is None else response.seq,
    }


def check_both_ways(lines: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    straight = told(lines)
    with monkeypatch.context() as patch:
        for way in (Straight, StraightHttp):
            patch.setattr(way, "prepare", lambda _self, _session: None)
        assert told(lines) == straight


@pytest.mark.parametrize("kind", [Maker, HttpMaker])
@pytest.mark.parametrize("seed", range(12))
def test_any_conversation_is_understood_alike(seed: int, kind: type[Maker], monkeypatch: pytest.MonkeyPatch) -> None:
    maker = kind(Random(seed))
    maker.talk(120, oddity=0.05, trouble=0.02)
    if seed % 3 == 0:
        maker.mutate(10)
    check_both_ways(b"".join(maker.lines), monkeypatch)


def check_corpus(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for _, case in corpus()[::step]:
        check_both_ways(b"".join(line for _, line in case.records()), monkeypatch)


def test_the_corpus_is_understood_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    check_corpus(10, monkeypatch)


@pytest.mark.soak
def test_the_whole_corpus_is_understood_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    check_corpus(1, monkeypatch)


@pytest.mark.parametrize(("kind", "way"), [(Maker, Straight), (HttpMaker, StraightHttp)])
def test_plain_messages_take_it(kind: type[Maker], way: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Seen | None] = []
    take = way.take

    def counted(self: Any, *what: Any) -> Seen | None:
        taken.append(take(self, *what))
        return taken[-1]

    monkeypatch.setattr(way, "take", counted)
    maker = kind(Random(1))
    maker.talk(200, oddity=0, trouble=0)
    told(b"".join(maker.lines))
    assert sum(seen is not None for seen in taken) > 80
