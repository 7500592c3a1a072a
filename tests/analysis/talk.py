"""A conversation for tests of linked messages: frames and records as a reader yields them, fed to the fold.

There is one item per millisecond, so that times are easy to remember: the nth item has the number n and the time n ms.
"""

import json
from typing import Any

from analysis.conversation.call import Call, MessageContext
from analysis.conversation.fold import Fold
from analysis.reading import Step
from captures.envelope import judge
from captures.frame import Frame
from captures.record import Record
from captures.verdict import Direction

MS = 1_000_000
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1.0.0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def unanswered(fold: Fold) -> list[Call]:
    """The calls that the last item ended without a response."""
    return Step(None, None, changed=fold.under_way.changed_calls).unanswered


class Talk:
    """Makes messages, and passes the context of each to `follow`."""

    def __init__(self, transport: str = "stdio") -> None:
        self.fold = Fold()
        self.seq = -1
        self.record("header", transport=transport, capture="0", observed_start=True)

    def follow(self, context: MessageContext) -> None:
        """Called with each message; tests override this."""

    def record(self, rec: str, **members: Any) -> None:
        self.seq += 1
        for context in self.fold.feed(Record(self.seq, rec, self.seq * MS, members)):
            self.follow(context)

    def raw(
        self, direction: Direction, raw: bytes, exchange: int | None = None, **more: Any
    ) -> tuple[MessageContext, ...]:
        self.seq += 1
        place: dict[str, Any] = {} if exchange is None else {"exchange": exchange, "unit": "http_body"}
        frame = Frame(self.seq, self.seq * MS, direction, raw, judge(raw, direction), **{**place, **more})
        contexts = self.fold.feed(frame)
        for one in contexts:
            self.follow(one)
        return contexts

    def say(self, direction: Direction, exchange: int | None = None, **members: Any) -> MessageContext:
        raw = json.dumps({"jsonrpc": "2.0", **members}).encode()
        (context,) = self.raw(direction, raw, exchange)
        return context

    def ask(self, id_: object, method: str, exchange: int | None = None, **params: Any) -> MessageContext:
        """Send a client request; `_meta` is that of the modern era unless given."""
        return self.say("c2s", exchange, id=id_, method=method, params={"_meta": META, **params})

    def answer(self, id_: object, exchange: int | None = None, **result: Any) -> MessageContext:
        return self.say("s2c", exchange, id=id_, result=result)

    def event(self, exchange: int, **members: Any) -> MessageContext:
        """Send a server message as an event of a stream."""
        raw = json.dumps({"jsonrpc": "2.0", **members}).encode()
        (context,) = self.raw("s2c", raw, exchange, unit="sse_event")
        return context

    def refuse(self, id_: object, exchange: int | None = None, code: int = -32602) -> MessageContext:
        return self.say("s2c", exchange, id=id_, error={"code": code, "message": "no"})

    def tell(self, method: str, exchange: int | None = None, **params: Any) -> MessageContext:
        """Send a server notification."""
        return self.say("s2c", exchange, method=method, params=params)

    def handshake(self, version: str = "2025-11-25") -> None:
        self.ask(0, "initialize", protocolVersion=version, capabilities={}, clientInfo={"name": "h", "version": "1"})
        self.answer(0, protocolVersion=version, capabilities={}, serverInfo={"name": "s", "version": "1"})
        self.say("c2s", method="notifications/initialized")

    def http(self, number: int, method: str = "POST", peer: str = "127.0.0.1:1", **headers: str) -> None:
        """Record the head of an HTTP request."""
        fields = [[name.replace("_", "-"), value] for name, value in headers.items()]
        self.record(
            "exchange",
            exchange=number,
            stage="request",
            peer=peer,
            request={"method": method, "target": "/mcp", "headers": fields},
        )

    def http_answer(self, number: int, status: int = 200, **headers: str) -> None:
        """Record the head of the response."""
        fields = [[name.replace("_", "-"), value] for name, value in headers.items()]
        self.record("exchange", exchange=number, stage="response", response={"status": status, "headers": fields})

    def http_end(self, number: int, status: int = 200, by: str = "complete") -> None:
        """Record the end of the exchange."""
        self.record("exchange", exchange=number, stage="end", response={"status": status, "headers": []}, ended_by=by)
