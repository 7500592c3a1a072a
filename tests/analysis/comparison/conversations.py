"""Sides for tests of the aspects: conversations with a server, observed as the core does it."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from analysis.comparison.aspect import Aspect, Observer
from analysis.comparison.change import AspectResult
from analysis.comparison.options import CompareOptions, ObserveOptions
from analysis.reading import Reading
from captures.envelope import judge
from captures.frame import Frame
from captures.record import Record
from captures.verdict import Direction
from tests.analysis.judged import step
from tests.analysis.talk import META, MS

MEMBERS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
CAPABILITIES: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}}


class Conversation:
    """One capture on stdio, as items that a reader yields."""

    def __init__(self) -> None:
        self.items: list[Record | Frame] = []
        self.record("header", transport="stdio", capture="0", observed_start=True)
        self._last_id = 0

    def record(self, rec: str, **members: Any) -> None:
        seq = len(self.items)
        self.items.append(Record(seq, rec, seq * MS, members))

    def raw(self, direction: Direction, raw: bytes) -> None:
        seq = len(self.items)
        self.items.append(Frame(seq, seq * MS, direction, raw, judge(raw, direction)))

    def say(self, direction: Direction, **members: Any) -> None:
        self.raw(direction, json.dumps({"jsonrpc": "2.0", **members}).encode())

    def request(self, method: str, params: dict[str, Any] | None = None) -> int:
        self._last_id += 1
        self.say("c2s", id=self._last_id, method=method, **({} if params is None else {"params": params}))
        return self._last_id

    def call(self, method: str, result: dict[str, Any], params: dict[str, Any] | None = None) -> None:
        self.say("s2c", id=self.request(method, params), result=result)

    def refuse(self, method: str, code: int = -32601) -> None:
        self.say("s2c", id=self.request(method), error={"code": code, "message": "no"})

    def initialize(
        self,
        capabilities: Any = CAPABILITIES,
        *,
        name: str = "docs",
        version: str = "1.0.0",
        revision: str = "2025-11-25",
        client: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        params = {
            "protocolVersion": revision,
            "capabilities": client or {},
            "clientInfo": {"name": "host", "version": "1"},
        }
        server = {"name": name, "version": version}
        result = {"protocolVersion": revision, "capabilities": capabilities, "serverInfo": server, **more}
        self.call("initialize", result, params)
        self.say("c2s", method="notifications/initialized")

    def discover(self, capabilities: Any = CAPABILITIES, **more: Any) -> None:
        result = {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities,
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "docs", "version": "1.0.0"}},
            **more,
        }
        self.call("server/discover", result, {"_meta": META})

    def list(self, method: str, *pages: list[Any], is_cut: bool = False) -> None:
        """List everything, page by page; if `is_cut`, the last page has a cursor that is never followed."""
        for number, page in enumerate(pages):
            params = {"cursor": f"page {number}"} if number else {}
            has_more = is_cut or number + 1 < len(pages)
            result = {MEMBERS[method]: page, **({"nextCursor": f"page {number + 1}"} if has_more else {})}
            self.call(method, result, params)


def conversation(
    tools: list[Any] | None = None,
    prompts: list[Any] | None = None,
    resources: list[Any] | None = None,
    templates: list[Any] | None = None,
    **initialize: Any,
) -> Conversation:
    """Returns a session in which the lists that are given are listed, each on one page."""
    talk = Conversation()
    talk.initialize(**initialize)
    for method, items in zip(MEMBERS, (tools, prompts, resources, templates), strict=True):
        if items is not None:
            talk.list(method, items)
    return talk


def observed(aspect: Aspect, *conversations: Conversation) -> Any:
    """Returns what an aspect observes of a side, after a journey through JSON."""
    observer = aspect.observer(ObserveOptions())
    for number, talk in enumerate(conversations):
        _observe(observer, f"capture {number}", talk.items)
    return msgspec.json.decode(msgspec.json.encode(observer.observed()), type=aspect.record)


def compared(aspect: Aspect, old: Conversation, new: Conversation) -> AspectResult:
    """Returns what the comparison of two captures yields."""
    return aspect.compare(observed(aspect, old), observed(aspect, new), CompareOptions())


def _observe(observer: Observer, capture: str, items: Iterable[Record | Frame]) -> None:
    reading = Reading()
    observer.begin(capture, reading)
    for item in items:
        for context in step(reading, item).messages:
            observer.on_message(context)
    for last_step in reading.finish("closed"):
        for context in last_step.messages:
            observer.on_message(context)
    observer.end()
