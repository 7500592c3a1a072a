"""Which calls are to tools that are only for apps."""

import json
from typing import Any, Final

import pytest

from analysis.conversation.call import Call
from analysis.conversation.fold import Fold
from captures.envelope import judge
from captures.frame import Frame
from captures.verdict import Direction

APPS: Final = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
POLL: Final = {"name": "poll", "inputSchema": {"type": "object"}, "_meta": {"ui": {"visibility": ["app"]}}}
CHART: Final = {"name": "chart", "inputSchema": {"type": "object"}, "_meta": {"ui": {"resourceUri": "ui://chart"}}}
PREFIX: Final = "io.modelcontextprotocol/"


class Talk:
    """A conversation, message by message."""

    def __init__(self, capabilities: Any, *, is_modern: bool = False) -> None:
        self.fold, self.seq, self.id, self.is_modern = Fold(), 0, 0, is_modern
        self.meta = {f"{PREFIX}protocolVersion": "2026-07-28", f"{PREFIX}clientCapabilities": capabilities}
        if not is_modern:
            params = {"protocolVersion": "2025-11-25", "capabilities": capabilities}
            self.ask("initialize", params, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}})
            self.send("c2s", method="notifications/initialized")

    def send(self, direction: Direction, **members: Any) -> Call | None:
        self.seq += 1
        raw = json.dumps({"jsonrpc": "2.0", **members}).encode()
        (context,) = self.fold.feed(Frame(self.seq, self.seq * 1_000_000, direction, raw, judge(raw, direction)))
        return context.call

    def ask(self, method: str, params: dict[str, Any], result: dict[str, Any]) -> Call:
        self.id += 1
        params = params | {"_meta": self.meta} if self.is_modern else params
        call = self.send("c2s", id=self.id, method=method, params=params)
        self.send("s2c", id=self.id, result=result | ({"resultType": "complete"} if self.is_modern else {}))
        assert call is not None
        return call

    def list_tools(self, *tools: Any, cursor: str | None = None, **more: Any) -> None:
        self.ask("tools/list", {} if cursor is None else {"cursor": cursor}, {"tools": list(tools), **more})

    def is_app_call(self, name: str) -> bool:
        return self.ask("tools/call", {"name": name, "arguments": {}}, {"content": []}).is_app_call


@pytest.mark.parametrize("is_modern", [False, True])
def test_only_calls_to_tools_that_the_model_does_not_see_are_calls_of_apps(is_modern: bool) -> None:
    talk = Talk(APPS, is_modern=is_modern)
    assert not talk.is_app_call("poll")
    talk.list_tools(CHART, POLL)
    assert [talk.is_app_call(name) for name in ("poll", "chart", "other")] == [True, False, False]


@pytest.mark.parametrize("is_modern", [False, True])
def test_a_host_without_apps_shows_all_tools_to_its_model(is_modern: bool) -> None:
    talk = Talk({}, is_modern=is_modern)
    talk.list_tools(CHART, POLL)
    assert not talk.is_app_call("poll")


def test_nothing_is_certain_after_the_tools_have_changed() -> None:
    talk = Talk(APPS)
    talk.list_tools(POLL)
    talk.send("s2c", method="notifications/tools/list_changed")
    assert not talk.is_app_call("poll")
    talk.list_tools(POLL | {"_meta": {}})
    assert not talk.is_app_call("poll")


def test_the_pages_of_a_list_belong_together() -> None:
    talk = Talk(APPS)
    talk.list_tools(POLL, nextCursor="2")
    talk.list_tools(CHART, cursor="2")
    assert talk.is_app_call("poll")


def test_nothing_is_certain_after_a_loss() -> None:
    talk = Talk(APPS)
    talk.list_tools(POLL)
    talk.fold.note_loss(3)
    assert not talk.is_app_call("poll")
