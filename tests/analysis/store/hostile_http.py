"""Random captures over HTTP: POSTs with JSON, streams or no body, standing streams, and broken streams.

The messages come from `hostile.Maker`; each is put into an exchange here. A response usually goes into the exchange
of its request; other messages of the server go onto any open stream.
"""

import json
from random import Random
from typing import Any, Final

from captures.envelope import judge
from captures.record import frame_members, members
from captures.verdict import Direction
from tests.analysis.store.hostile import Maker

KEY: Final = "hmac:0123456789abcdef"
REVISION: Final = "2025-06-18"
EVENT_IDS: Final = (None, None, "1", "s/2", "ü", "a b", 'q"uote', "back\\slash", "x" * 300, "")


class Exchange:
    """An open exchange."""

    def __init__(self, number: int, method: str, request: dict[str, Any], t_ns: int) -> None:
        self.number, self.method, self.request = number, method, request
        self.conn = 1 + number % 4
        self.times = {"request_head": t_ns, "request_end": t_ns}
        self.response: dict[str, Any] | None = None
        self.is_stream = False
        self.events = 0

    @property
    def place(self) -> dict[str, Any]:
        return {"conn": self.conn, "exchange": self.number}


class HttpMaker(Maker):
    """Writes one capture over HTTP."""

    transport = "http"

    def __init__(self, rng: Random, number: int = 0) -> None:
        self.key: str | None = None
        self.given = KEY if rng.random() < 0.7 else None
        """The session id that the server gives."""
        self.is_json = rng.random() < 0.4
        """Whether most responses are JSON bodies, not streams."""
        self.exchanges: dict[int, Exchange] = {}
        self.highest = 0
        self.asked_in: dict[str, int] = {}
        """The exchange of each request of the client, by the request's id."""
        super().__init__(rng, number)

    # ---- exchanges

    def begin(self, method: str = "POST", *, key: str | None = None, more: tuple[list[str], ...] = ()) -> Exchange:
        """Write the head of a request; returns its exchange."""
        self.highest += 1
        headers = [["Host", "h"], ["Accept", "application/json, text/event-stream"], *more]
        if key or self.key:
            headers.append([self.rng.choice(("Mcp-Session-Id", "mcp-session-id")), key or self.key or ""])
        if self.highest > 1:
            headers.append(["MCP-Protocol-Version", REVISION])
        request = {"method": method, "target": "/mcp?a=ü", "version": "HTTP/1.1", "headers": headers}
        made = self.exchanges[self.highest] = Exchange(self.highest, method, request, self.ns)
        self.tell(made, "request", request=request, peer="127.0.0.1:5")
        return made

    def tell(self, exchange: Exchange, stage: str, **more: Any) -> None:
        """Write a record of an exchange."""
        address = {"uri_key": "hmac:00000000000000aa"} if exchange.method == "POST" else {}
        self.add("exchange", members(**exchange.place, stage=stage, **more, times=exchange.times, **address))

    def respond(self, exchange: Exchange, status: int = 200, *, is_stream: bool = False) -> None:
        """Write the head of a response."""
        kind = self.rng.choice(("text/event-stream", "Text/Event-Stream; charset=utf-8"))
        headers = [["content-type", kind if is_stream else "application/json"], ["x", "\u00e9\t"]]
        if self.given is not None and (self.rng.random() < 0.5 or self.key is None):
            headers.append(["mcp-session-id", self.given])
        exchange.times["response_head"] = self.ns
        exchange.response = {"status": status, "reason": "OK", "version": "HTTP/1.1", "headers": headers}
        exchange.is_stream = is_stream
        if is_stream or self.rng.random() < 0.5:
            more = {"request_size": 7} if self.rng.random() < 0.5 else {}
            self.tell(exchange, "response", response=exchange.response, **more)
        if is_stream:
            self.add("stream", members(**exchange.place, dir="s2c", event="opened"))
            if self.rng.random() < 0.5:
                self.event(exchange, b"", event_id="1")

    def frame_in(self, exchange: Exchange, raw: bytes, direction: Direction = "c2s", **more: Any) -> None:
        """Write the body of a request or response."""
        verdict = judge(raw, direction, "http_body")
        self.add("frame", frame_members(direction, raw, verdict, **exchange.place, unit="http_body", **more))

    def event(self, exchange: Exchange, raw: bytes, **more: Any) -> None:
        """Write an event of a stream."""
        exchange.events += 1
        exchange.times.setdefault("first_byte", self.ns)
        more.setdefault("event_id", self.rng.choice(EVENT_IDS))
        place = {**exchange.place, "unit": "sse_event", **more}
        self.add("frame", frame_members("s2c", raw, judge(raw, "s2c", "sse_event"), **place))

    def end(self, exchange: Exchange, ended_by: str = "complete", status: int | None = None) -> None:
        """Write the end of an exchange, whether complete or not."""
        self.exchanges.pop(exchange.number, None)
        if exchange.response is None and status is not None:
            exchange.times["response_head"] = self.ns
            exchange.response = {"status": status, "reason": "x", "version": "HTTP/1.1", "headers": []}
            if self.rng.random() < 0.1:
                exchange.response = {"status": status, "reason": "x", "by": "proxy"}
        if exchange.is_stream:
            told = {"events": exchange.events, "ended_by": ended_by}
            self.add("stream", members(**exchange.place, dir="s2c", event="ended", **told))
        exchange.times["response_end"] = self.ns
        sizes = {"request_size": self.rng.choice((7, 7, 7, None)), "response_size": self.rng.choice((None, 0, 5))}
        told = {"request": exchange.request, "peer": "127.0.0.1:5", "response": exchange.response}
        self.tell(exchange, "end", **told, **sizes, ended_by=ended_by)

    def streams(self) -> list[Exchange]:
        """The exchanges on which the server can send messages."""
        return [each for each in self.exchanges.values() if each.is_stream]

    # ---- messages

    def raw(self, direction: Direction, raw: bytes, **more: Any) -> None:
        if direction == "c2s":
            exchange = self.begin()
            self.frame_in(exchange, raw, **more)
            self._remember(exchange, raw)
            return
        answered = self._answered_by(raw)
        if answered is not None and answered.response is None and self.is_json != (self.rng.random() < 0.9):
            self.respond(answered, is_stream=True)
        if answered is not None and answered.response is None:
            self.respond(answered)
            self.frame_in(answered, raw, "s2c", **more)
            self.end(answered)
            return
        if answered is None or not answered.is_stream or self.rng.random() < 0.05:
            if not self.streams():
                self.respond(self.begin("GET"), is_stream=True)
            answered = self.rng.choice(self.streams())
        self.event(answered, raw, **more)
        if self.rng.random() < 0.5 and self._answered_by(raw) is answered:
            self.end(answered)

    def _remember(self, exchange: Exchange, raw: bytes) -> None:
        message = _read(raw)
        if "method" in message and "id" in message:
            self.asked_in[json.dumps(message["id"])] = exchange.number
        elif self.rng.random() < 0.8:
            self.end(exchange, status=202)

    def _answered_by(self, raw: bytes) -> Exchange | None:
        message = _read(raw)
        if "id" not in message or "method" in message:
            return None
        return self.exchanges.get(self.asked_in.get(json.dumps(message["id"]), 0))

    def say(self, direction: Direction, **message: Any) -> None:
        if message.get("method") == "notifications/initialized" and self.key is None:
            self.key = self.given
        super().say(direction, **message)

    def place(self, direction: Direction) -> dict[str, Any]:
        if direction == "c2s":
            return {**self.begin().place, "unit": "http_body"}
        if not self.streams():
            self.respond(self.begin("GET"), is_stream=True)
        return {**self.rng.choice(self.streams()).place, "unit": "sse_event", "event_id": self.rng.choice(EVENT_IDS)}

    # ---- other events

    def talk(self, steps: int, *, oddity: float = 0.03, trouble: float = 0.002) -> None:
        for _ in range(steps):
            if self.rng.random() < 4 * trouble:
                self.rng.choice(self._TROUBLE)(self)
            elif self.rng.random() < 0.2:
                self.rng.choice(self._EVENTS)(self)
            else:
                super().talk(1, oddity=oddity, trouble=trouble)

    def _any(self) -> Exchange | None:
        return self.rng.choice([*self.exchanges.values()]) if self.exchanges else None

    def _ends(self) -> None:
        exchange = self._any()
        if exchange is not None:
            how = self.rng.choice(("complete", "complete", "client", "server", "error", "proxy"))
            self.end(exchange, how, self.rng.choice((None, 200, 202, 400, 404, 500)))
            for id_ in [id_ for id_ in self.open["c2s"] if self.asked_in.get(json.dumps(id_)) == exchange.number]:
                if self.rng.random() < 0.95:  # it will not be answered
                    self.open["c2s"].remove(id_)

    def _listens(self) -> None:
        exchange = self.begin("GET")
        if self.rng.random() < 0.5:
            self.respond(exchange, is_stream=True)
        else:
            self.end(exchange, status=405)

    def _primes(self) -> None:
        for exchange in self.streams()[:2]:
            self.event(exchange, b"", **self.rng.choice(({}, {"event": "ping"}, {"event_id": "1", "id_again": True})))

    def _other(self) -> None:
        method, more = self.rng.choice((("DELETE", ()), ("OPTIONS", ()), ("GET", (["x", "y"],)), ("", ())))
        exchange = self.begin(method, more=more)
        if self.rng.random() < 0.8:
            self.end(exchange, self.rng.choice(("complete", "proxy")), self.rng.choice((None, 200, 404, 302)))

    def _elsewhere(self) -> None:
        """Write a response in the exchange of another request."""
        if self.open["c2s"]:
            if not self.streams():
                self.respond(self.begin("GET"), is_stream=True)
            id_ = self.open["c2s"].pop()
            raw = json.dumps({"jsonrpc": "2.0", "id": id_, "result": {}}).encode()
            self.event(self.rng.choice(self.streams()), raw)

    def _head_again(self) -> None:
        exchange = self._any()
        if exchange is not None:
            self.tell(exchange, "response", request=exchange.request, response=exchange.response or {"status": 200})

    _EVENTS: Final = (*(_ends,) * 3, _listens, _primes, _primes, _other, _elsewhere, _head_again)

    # ---- traffic that only the fold understands

    def _stranger(self) -> None:
        exchange = self.begin(key=self.rng.choice(("hmac:other", KEY + "x")))
        raw = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
        if self.rng.random() < 0.7:
            self.frame_in(exchange, raw)

    def _resumes(self) -> None:
        exchange = self.begin("GET", more=(["Last-Event-ID", "1"],))
        self.respond(exchange)
        self.add("stream", members(**exchange.place, dir="s2c", event="opened", last_event_id="1"))

    def _goes_on(self) -> None:
        exchange = self._any()
        if exchange is not None:
            self.end(exchange)
            self.rng.choice((self.respond, self.end))(exchange)

    def _renames(self) -> None:
        exchange = self.begin()
        if self.rng.random() < 0.8:
            self.frame_in(exchange, b'{"jsonrpc":"2.0","method":"x"}')
        exchange.response = {"status": 200, "headers": [["Mcp-Session-Id", "hmac:new"]]}
        self.end(exchange)
        if self.rng.random() < 0.8:
            self.frame_in(self.begin(key="hmac:new"), b'{"jsonrpc":"2.0","id":"of new","method":"ping"}')

    def _skips(self) -> None:
        self.highest += self.rng.choice((1, 20_000))

    def _lost_head(self) -> None:
        self.highest += 1
        place = {"conn": 1, "exchange": self.highest}
        self.rng.choice(
            (
                lambda: self.add("exchange", members(**place, stage="end", ended_by="error")),
                lambda: self.add("exchange", members(exchange="1", stage="end")),
                lambda: self.add("exchange", members(exchange=1, stage="request", request={"headers": [["a"]]})),
                lambda: self.add("stream", members(**place, event="ended", events=3)),
                lambda: self.add("exchange", members(**place, stage="response", response=[], request=[], times=5)),
            )
        )()

    def _someone_else(self) -> None:
        field = self.rng.choice((["User-Agent", "x"], ["Authorization", "hmac:x"], ["User-Agent", ""]))
        exchange = self.begin(more=(field,))
        raw = b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}'
        self.frame_in(exchange, raw)

    def _falls_silent(self) -> None:
        self.ns += 31 * 60 * 10**9
        self.say("c2s", method="x")

    def _modern(self) -> None:
        self.begin(more=(["Mcp-Protocol-Version", "2026-07-28"],))

    def _crowds(self) -> None:
        """Write a second body into a request."""
        exchange = self._any()
        if exchange is not None:
            self.frame_in(exchange, b'{"jsonrpc":"2.0","id":"again","method":"ping"}')

    _TROUBLE: Final = (
        _stranger,
        _resumes,
        _goes_on,
        _renames,
        _skips,
        _lost_head,
        _modern,
        _crowds,
        _someone_else,
        _falls_silent,
    )


def _read(raw: bytes) -> dict[str, Any]:
    try:
        read = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}
