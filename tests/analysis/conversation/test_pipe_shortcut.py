"""For any traffic, the shortcuts for plain messages give the results of the full path, and they are taken."""

import json
from random import Random
from typing import Any, Final

import pytest

from analysis.conversation.call import Call, MessageContext
from analysis.conversation.http_shortcut import HttpShortcut
from analysis.conversation.pipe_shortcut import PipeShortcut
from analysis.conversation.session import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION, SERVER_INFO
from analysis.protocol.error_codes import MODERN_CODES
from analysis.reading import Reading
from captures.record import members
from captures.verdict import Direction
from tests.analysis.store.hostile import Maker
from tests.analysis.store.hostile_http import HttpMaker
from tests.analysis.traces import corpus
from tests.captures.samples import cut

ASKED = (
    *("tools/call",) * 6,
    *("tools/list", "resources/read", "resources/subscribe", "resources/unsubscribe", "tasks/get", "tasks/cancel"),
)
TOLD = (
    *("notifications/progress", "notifications/message", "notifications/resources/updated", "notifications/tasks"),
    *("notifications/tasks/status", "notifications/initialized", "notifications/subscriptions/acknowledged"),
)
HELD_OPEN = ("request", "session", "http", "outer", "response", "losses", "round", "task")


def told(lines: bytes) -> list[Any]:
    """Everything that a reading yields about messages and calls, step by step."""
    reading = Reading(cut(lines))
    found: list[Any] = []
    for step in reading.to_end():
        found.append([(_seen(context), _session(context)) for context in step.messages])
        found.append([_call(call) for call in step.changed])
        found.append({side: [len(table), table.forgotten_count] for side, table in reading.fold.tables.items()})
    return found


def _seen(context: MessageContext) -> dict[str, Any]:
    known = {name: getattr(context, name) for name in MessageContext.__struct_fields__}
    numbers = {name: None if (call := known.pop(name)) is None else call.number for name in ("call", "answered")}
    cancelled, request, cancels = known.pop("cancelled"), known.pop("request"), known.pop("cancels")
    meant, http = known.pop("guessed_request"), known.pop("http")
    numbers["http"] = None if http is None else http.number
    message = known.pop("message")
    parts = {name: repr(known.pop(name)) for name in ("body", "earlier")}
    parts["message"] = f"{type(message).__name__} {message.sender} {message.seq} {message.index} {message.t_ns}"
    round_, task, subscription = known.pop("round"), known.pop("task"), known.pop("subscription")
    links = {
        "round": (
            None if round_ is None else (round_.chain.number, round_.number, round_.chain.is_waiting, round_.evidence)
        ),
        "task": None if task is None else (task.id, task.seq, task.status),
        "subscription": None if subscription is None else (subscription.seq, subscription.is_open),
    }
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


def _session(context: MessageContext) -> dict[str, Any]:
    session = context.session
    left_out = ("memory", "lasting", "initialize", "likeness")
    return {name: repr(getattr(session, name)) for name in session.__slots__ if name not in left_out}


def _call(call: Call) -> dict[str, Any]:
    known = {name: getattr(call, name) for name in Call.__struct_fields__ if name not in HELD_OPEN}
    outer, response = call.outer, call.response
    return {
        **known,
        "outer": None if outer is None else outer.number,
        "response": None if response is None else response.seq,
    }


class Threads(Maker):
    """A conversation in either era with everything that links messages, and everything that may change its session."""

    def __init__(self, rng: Random, *, is_modern: bool) -> None:
        super().__init__(rng)
        self.is_modern = is_modern
        self.client, self.version = "one", "2026-07-28"
        self.states: list[str] = ["never given"]
        self.asked: dict[str, list[Any]] = {"c2s": [], "s2c": []}
        if is_modern:
            self.lines.clear()
            self.seq = self.ns = 0
            self.header()

    def talk(self, steps: int, *, oddity: float = 0.02, trouble: float = 0) -> None:
        for _ in range(steps):
            if self.rng.random() < oddity:
                self.rng.choice(self._ODDITIES)(self)
            else:
                self.rng.choice(self._TURNS)(self)

    def say(self, direction: Direction, **message: Any) -> None:
        self.raw(direction, json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode())

    def _ask(self) -> None:
        side: Direction = self.rng.choice(("c2s", "c2s", "c2s", "s2c"))
        self.number += 1
        id_ = self.rng.choice((self.number, f"r{self.number}"))
        of_server = ("sampling/createMessage", "ping", "tasks/get", "resources/subscribe")
        method = self.rng.choice(ASKED if side == "c2s" else of_server)
        params: dict[str, Any] = {"name": "a", "uri": self.rng.choice(("u:a", "u:b")), "taskId": "t1"}
        meta: dict[str, Any] = {}
        if self.rng.random() < 0.3:
            params["requestState"] = self.rng.choice(self.states)
        if self.rng.random() < 0.2:
            params["inputResponses"] = {self.rng.choice("xy"): {}}
        if self.rng.random() < 0.1:
            params["task"] = {}
        if self.rng.random() < 0.3:
            meta["progressToken"] = self.number % 7
        if self.is_modern and side == "c2s":
            meta |= {PROTOCOL_VERSION: self.version, CLIENT_INFO: {"name": self.client}, CLIENT_CAPABILITIES: {}}
        self.say(side, id=id_, method=method, params={**params, "_meta": meta} if meta else params)
        self.asked[side].append(id_)

    def _answer(self) -> None:
        side = self.rng.choice(("c2s", "s2c"))
        back: Direction = "s2c" if side == "c2s" else "c2s"
        if not self.asked[side]:
            return
        id_ = self.asked[side].pop(self.rng.randrange(len(self.asked[side])))
        if self.rng.random() < 0.2:
            self.say(back, id=id_, error={"code": self.rng.choice((-32602, 7, *MODERN_CODES)), "message": "no"})
            return
        results: tuple[dict[str, Any], ...] = (
            *({"content": [{"type": "text", "text": "t"}]},) * 4,
            {"content": [], "isError": True},
            {"tools": []},
            {"task": {"taskId": "t1", "status": "working"}},
            {"resultType": "task", "taskId": "t1", "status": "working"},
            {"resultType": "input_required", "requestState": f"s{self.number}", "inputRequests": {"x": {}}},
            {"resultType": "input_required", "inputRequests": {"y": {}}},
            {"resultType": 5, "supportedVersions": ["2026-07-28"]},
        )
        result = self.rng.choice(results)
        self.states = [*self.states[-3:], result.get("requestState", self.states[-1])]
        if self.is_modern and side == "c2s":
            result = {"resultType": "complete", **result, "_meta": {SERVER_INFO: {"name": "server"}}}
        self.say(back, id=id_, result=result)

    def _give_up(self) -> None:
        side: Direction = self.rng.choice(("c2s", "s2c"))
        params = {"requestId": self.rng.choice([*self.asked[side], self.number, 1.0, "nobody"]), "reason": "no"}
        self.say(side, method=self.rng.choice(("notifications/cancelled", "cancelled")), params=params)

    def _tell(self) -> None:
        meta = {"io.modelcontextprotocol/subscriptionId": self.rng.choice((self.number, 1))}
        related = {"io.modelcontextprotocol/related-task": {"taskId": "t1"}}
        params = {
            "progressToken": self.rng.randrange(7),
            "progress": 1,
            "uri": "u:a",
            "taskId": "t1",
            "status": "working",
        }
        params["_meta"] = self.rng.choice((meta, related, {}))
        self.say(self.rng.choice(("c2s", "s2c")), method=self.rng.choice(TOLD), params=params)

    def _rename(self) -> None:
        self.client = self.rng.choice(("one", "two"))

    def _renegotiate(self) -> None:
        self.version = self.rng.choice(("2026-07-28", "2026-07-28", "DRAFT-1"))

    def _ask_again(self) -> None:
        for id_ in (1, "r2", None, self.number):
            self.say("c2s", id=id_, method="ping")

    def _start_over(self) -> None:
        params = {"protocolVersion": "2025-06-18", "capabilities": {}}
        self.say("c2s", id=f"i{self.number}", method="initialize", params=params)
        self.asked["c2s"].append(f"i{self.number}")

    def _switch(self) -> None:
        self.is_modern = not self.is_modern

    def _lose(self) -> None:
        self.add("gap", members(dir="s2c", frames=1, bytes=10))

    def _listen(self) -> None:
        self.number += 1
        meta = {PROTOCOL_VERSION: self.version, CLIENT_INFO: {"name": self.client}, CLIENT_CAPABILITIES: {}}
        method = self.rng.choice(("subscriptions/listen", "server/discover"))
        self.say("c2s", id=self.number, method=method, params={"notifications": {}, "_meta": meta})
        self.asked["c2s"].append(self.number)

    _TURNS: Final = (*(_ask,) * 8, *(_answer,) * 8, _give_up, _tell, _tell)
    _ODDITIES: Final = (
        *(_rename, _renegotiate, _ask_again, _ask_again, _switch, _listen, _start_over, _lose),
        *(Maker._record, Maker._stall, Maker._torn, Maker._stray),
    )


def check_both_ways(lines: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    by_shortcut = told(lines)
    with monkeypatch.context() as patch:
        for way in (PipeShortcut, HttpShortcut):
            patch.setattr(way, "prepare", lambda _self, _session: None)
        assert told(lines) == by_shortcut


@pytest.mark.parametrize("kind", [Maker, HttpMaker])
@pytest.mark.parametrize("seed", range(12))
def test_any_conversation_is_understood_alike(seed: int, kind: type[Maker], monkeypatch: pytest.MonkeyPatch) -> None:
    maker = kind(Random(seed))
    maker.talk(120, oddity=0.05, trouble=0.02)
    if seed % 3 == 0:
        maker.mutate(10)
    check_both_ways(b"".join(maker.lines), monkeypatch)


@pytest.mark.parametrize("is_modern", [False, True])
@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(12, 100))])
def test_linked_messages_are_understood_alike(seed: int, is_modern: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = Threads(Random(seed), is_modern=is_modern)
    maker.talk(50, oddity=0)
    maker.talk(150, oddity=(0.0, 0.01, 0.05)[seed % 3])
    check_both_ways(b"".join(maker.lines), monkeypatch)


def test_messages_of_a_pipe_among_those_of_exchanges_are_understood_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    maker = Maker(Random(1))
    for number in range(1, 20):
        params = {"protocolVersion": "2025-03-26", "capabilities": {}}
        asked = {"jsonrpc": "2.0", "id": number, "method": "initialize", "params": params}
        maker.raw("c2s", json.dumps(asked).encode(), exchange=number, unit="http_body")
        maker.talk(5, oddity=0, trouble=0)
    check_both_ways(b"".join(maker.lines), monkeypatch)


def check_corpus(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for _, case in corpus()[::step]:
        check_both_ways(b"".join(line for _, line in case.records()), monkeypatch)


def test_the_corpus_is_understood_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    check_corpus(10, monkeypatch)


@pytest.mark.soak
def test_the_whole_corpus_is_understood_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    check_corpus(1, monkeypatch)


def share_taken(maker: Maker, way: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> float:
    """The share of messages that went through the shortcut, a method of `way` called `name`."""
    taken: list[MessageContext | None] = []
    take = getattr(way, name)

    def counted(self: Any, *what: Any) -> MessageContext | None:
        taken.append(take(self, *what))
        return taken[-1]

    with monkeypatch.context() as patch:
        patch.setattr(way, name, counted)
        contexts = [context for step in Reading(cut(b"".join(maker.lines))).to_end() for context in step.messages]
    return sum(one is not None for one in taken) / len(contexts)


# The other messages have irregular ids or methods, or an exchange that holds more than their call.
@pytest.mark.parametrize(
    ("kind", "way", "name", "most"),
    [(Maker, PipeShortcut, "try_frame", 0.8), (HttpMaker, HttpShortcut, "try_message", 0.4)],
)
def test_plain_messages_take_it(
    kind: type[Maker], way: Any, name: str, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = kind(Random(1))
    maker.talk(200, oddity=0, trouble=0)
    assert share_taken(maker, way, name, monkeypatch) > most


@pytest.mark.parametrize("is_modern", [False, True])
def test_linked_messages_take_it(is_modern: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = Threads(Random(1), is_modern=is_modern)
    maker.talk(300, oddity=0)
    assert share_taken(maker, PipeShortcut, "try_frame", monkeypatch) > 0.9
