"""A bug in mcpproxy costs an imported frame its verdict, as in a recording, and never ends the import."""

import pytest
from orjson import loads

from mcpproxy.importers.http import Exchanges, request_of
from mcpproxy.recorder import body_recorder

REQUEST = b'POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{"jsonrpc":"2.0","id":1,"method":"ping"}'


def test_a_frame_without_a_verdict_is_imported_and_names_the_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_recorder, "judge_before_forwarding", lambda *_, **__: 1 // 0)
    records = Exchanges({b"/mcp"}).add_request(1, *request_of(REQUEST), "127.0.0.1:1")
    (frame,) = [loads(b"{%b}" % record.middle[1:]) for record in records if record.rec == "frame"]
    assert (frame["kind"], frame["fault"]) == ("unjudged", "ZeroDivisionError")
