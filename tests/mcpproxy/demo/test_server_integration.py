"""The bundled server: with the official SDK in both eras, revision by revision, and as a process."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import anyio
import mcp_types
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.session import LoggingFnT
from mcp.client.stdio import stdio_client

from mcpproxy.demo.call import (
    CAPABILITIES_KEY,
    HANDSHAKE_REVISIONS,
    LOG_LEVEL_KEY,
    MODERN_REVISIONS,
    VERSION_KEY,
    encode,
)
from mcpproxy.demo.client import MODERN_META
from mcpproxy.demo.notebook import NOTES, TOOLS
from mcpproxy.demo.server import Server
from tests.harness import DEADLINE_S

SERVER = [sys.executable, "-P", "-m", "mcpproxy.demo.server"]

Json = dict[str, Any]


def ask(server: Server, said: list[bytes], message: object) -> list[Any]:
    """Send a message to a server in this process; returns the messages that the server sends."""
    said.clear()
    server.receive(message if isinstance(message, bytes) else encode(message).rstrip(b"\n"))
    return [json.loads(line) for chunk in said for line in chunk.splitlines()]


@pytest.fixture(name="asking")
def _asking() -> Callable[[object], list[Any]]:
    said: list[bytes] = []
    server = Server(said.append)
    return lambda message: ask(server, said, message)


def request(method: str, params: Json | None = None, id_: object = 1) -> Json:
    return {"jsonrpc": "2.0", "id": id_, "method": method} | ({} if params is None else {"params": params})


def initialize(revision: str) -> Json:
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return request("initialize", params)


# --- the official client ----------------------------------------------------------------------------------------------


async def _converse(mode: str, log: list[Any]) -> Json:
    """Use all features of the server through the official client, whose models validate every response."""
    seen: Json = {"progress": []}

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        seen["progress"].append((progress, total, message))

    async def logged(params: mcp_types.LoggingMessageNotificationParams) -> None:
        log.append(params.data)

    callback: LoggingFnT = logged
    server = stdio_client(StdioServerParameters(command=SERVER[0], args=SERVER[1:]))
    async with Client(server, mode=mode, logging_callback=callback, log_level="info") as client:
        seen["revision"] = client.protocol_version
        seen["server"] = client.server_info.name if client.server_info else None
        seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        seen["sum"] = (await client.call_tool("add", {"a": 2, "b": 0.5})).structured_content
        seen["words"] = (await client.call_tool("word_count", {"text": "a b"})).structured_content
        echoed = await client.call_tool("slow_echo", {"text": "é", "seconds": 0.01}, progress_callback=progress)
        seen["echo"] = echoed.content[0].model_dump()["text"]
        failed = await client.call_tool("fail", {"reason": "because"})
        seen["failed"] = (failed.is_error, failed.content[0].model_dump()["text"])
        seen["wrong"] = (await client.call_tool("add", {"a": "2", "b": 1})).is_error
        seen["resources"] = [str(note.uri) for note in (await client.list_resources()).resources]
        seen["templates"] = [t.uri_template for t in (await client.list_resource_templates()).resource_templates]
        seen["note"] = (await client.read_resource("note://travel")).contents[0].model_dump()["text"]
        seen["prompts"] = [prompt.name for prompt in (await client.list_prompts()).prompts]
        seen["prompt"] = (await client.get_prompt("summarise", {"note": "zoo"})).messages[0].role
        seen["codes"] = [
            await _code(client.read_resource("note://none")),
            await _code(client.call_tool("none", {})),
            await _code(client.get_prompt("summarise", {})),
        ]
    return seen


async def _code(asked: Any) -> int:
    with pytest.raises(MCPError) as refused:
        await asked
    return refused.value.error.code


@pytest.mark.parametrize(
    ("mode", "revision", "missing"),
    [("legacy", HANDSHAKE_REVISIONS[-1], -32002), ("auto", MODERN_REVISIONS[-1], -32602)],
)
def test_the_official_client_uses_everything_in_both_eras(mode: str, revision: str, missing: int) -> None:
    log: list[Any] = []
    seen = anyio.run(_converse, mode, log)
    assert seen == {
        "revision": revision,
        "server": "mcpproxy-demo",
        "tools": list(TOOLS),
        "sum": {"sum": 2.5},
        "words": {"words": 2, "characters": 3},
        "echo": "é",
        "progress": [(1, 3, "step 1 of 3"), (2, 3, "step 2 of 3"), (3, 3, "step 3 of 3")],
        "failed": (True, "because"),
        "wrong": True,
        "resources": [f"note://{name}" for name in NOTES],
        "templates": ["note://{name}"],
        "note": NOTES["travel"],
        "prompts": ["summarise"],
        "prompt": "user",
        "codes": [missing, -32602, -32602],
    }
    assert log == ["echoing in 3 steps"]


def test_the_official_client_can_cancel_and_go_on() -> None:
    async def converse() -> bool:
        async with Client(StdioServerParameters(command=SERVER[0], args=SERVER[1:]), mode="legacy") as client:
            heard = anyio.Event()

            async def progress(progress: float, total: float | None, message: str | None) -> None:
                heard.set()

            async with anyio.create_task_group() as calls:
                arguments = {"text": "x", "steps": 100, "seconds": 10}
                calls.start_soon(lambda: client.call_tool("slow_echo", arguments, progress_callback=progress))
                await heard.wait()
                calls.cancel_scope.cancel()
            return bool((await client.call_tool("add", {"a": 1, "b": 1})).structured_content == {"sum": 2})

    assert anyio.run(converse)


# --- the server, revision by revision ---------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", HANDSHAKE_REVISIONS)
def test_each_handshake_revision_gets_only_members_that_it_defines(
    revision: str, asking: Callable[[object], list[Any]]
) -> None:
    assert asking(initialize(revision))[0]["result"]["protocolVersion"] == revision
    tool = asking(request("tools/list"))[0]["result"]["tools"][0]
    result = asking(request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}))[0]["result"]
    assert ("annotations" in tool) == (revision >= "2025-03-26")
    assert ("title" in tool) == ("outputSchema" in tool) == (revision >= "2025-06-18")
    assert ("structuredContent" in result) == (revision >= "2025-06-18")
    assert "resultType" not in result


@pytest.mark.parametrize(
    ("revision", "expected"), [("2025-06-18", "error"), ("2025-11-25", "isError"), (MODERN_REVISIONS[-1], "isError")]
)
def test_wrong_arguments_are_refused_as_the_revision_wants(
    revision: str, expected: str, asking: Callable[[object], list[Any]]
) -> None:
    params: Json = {"name": "add", "arguments": {"a": 1}}
    if revision in MODERN_REVISIONS:
        params["_meta"] = MODERN_META
    else:
        asking(initialize(revision))
    (answer,) = asking(request("tools/call", params))
    assert "error" in answer if expected == "error" else answer["result"]["isError"]


def test_an_unknown_revision_is_answered_with_the_newest_handshake_revision(
    asking: Callable[[object], list[Any]],
) -> None:
    assert asking(initialize("2031-01-01"))[0]["result"]["protocolVersion"] == HANDSHAKE_REVISIONS[-1]


REFUSED: list[tuple[str, object, int, object]] = [
    ("a bare request without a session", request("tools/list"), -32602, 1),
    ("a bare probe", request("server/discover"), -32602, 1),
    ("no capabilities", request("tools/list", {"_meta": {VERSION_KEY: MODERN_REVISIONS[-1]}}), -32602, 1),
    ("an unknown log level", request("tools/list", {"_meta": {**MODERN_META, LOG_LEVEL_KEY: "loud"}}), -32602, 1),
    ("a removed method", request("ping", {"_meta": MODERN_META}), -32601, 1),
    ("a cursor", request("tools/list", {"cursor": "x", "_meta": MODERN_META}), -32602, 1),
    ("an unknown prompt", request("prompts/get", {"name": "x", "_meta": MODERN_META}), -32602, 1),
    ("params that are no object", request("ping") | {"params": [1]}, -32602, 1),
    ("no JSON", b"{", -32700, None),
    ("NaN", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', -32700, None),
    ("not UTF-8", b'"\xff"', -32700, None),
    ("too deep", b"[" * 100_000, -32700, None),
    ("a number", b"7", -32600, None),
    ("no jsonrpc", {"id": 3, "method": "ping"}, -32600, 3),
    ("a boolean id", request("ping", id_=True), -32600, None),
    ("a method that is a number", {"jsonrpc": "2.0", "id": 4, "method": 5}, -32600, 4),
    ("neither request nor answer", {"jsonrpc": "2.0", "id": 5}, -32600, 5),
    ("a batch outside its revision", [request("ping")], -32600, None),
]


@pytest.mark.parametrize(("message", "code", "id_"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_cannot_be_served_is_refused_with_its_code(
    message: object, code: int, id_: object, asking: Callable[[object], list[Any]]
) -> None:
    (answer,) = asking(message)
    assert (answer["error"]["code"], answer["id"]) == (code, id_)


def test_an_unsupported_revision_is_told_what_is_supported(asking: Callable[[object], list[Any]]) -> None:
    meta = {VERSION_KEY: "2030-01-01", CAPABILITIES_KEY: {}}
    (answer,) = asking(request("tools/list", {"_meta": meta}))
    assert answer["error"]["code"] == -32022
    assert answer["error"]["data"] == {"supported": list(MODERN_REVISIONS), "requested": "2030-01-01"}


def test_a_batch_is_answered_by_a_batch_in_its_revision(asking: Callable[[object], list[Any]]) -> None:
    asking(initialize("2025-03-26"))
    slow = request("tools/call", {"name": "slow_echo", "arguments": {"text": "x", "seconds": 0}}, "b")
    (*_, answers) = asking([request("ping", id_="a"), slow, {"jsonrpc": "2.0", "method": "notifications/x"}, 7])
    assert [answer["id"] for answer in answers] == ["a", "b", None]
    assert asking([{"jsonrpc": "2.0", "method": "notifications/x"}]) == []


def test_answers_and_notifications_are_not_answered(asking: Callable[[object], list[Any]]) -> None:
    assert asking({"jsonrpc": "2.0", "id": 1, "result": {}}) == []
    assert asking({"jsonrpc": "2.0", "method": "notifications/initialized"}) == []
    assert asking({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}) == []


@pytest.mark.parametrize("numbers", [(1e308, 1e308), (10**400, 0.5), (1e300, 1)])
def test_a_sum_that_json_cannot_hold_is_an_error_of_the_tool(
    numbers: tuple[float, float], asking: Callable[[object], list[Any]]
) -> None:
    arguments = dict(zip("ab", numbers, strict=True))
    (answer,) = asking(request("tools/call", {"name": "add", "arguments": arguments, "_meta": MODERN_META}))
    assert answer["result"]["isError"]


def test_a_lone_surrogate_comes_back_as_it_came(asking: Callable[[object], list[Any]]) -> None:
    raw = rb'{"jsonrpc":"2.0","id":"\ud800","method":"ping"}'
    assert asking(raw) == [{"jsonrpc": "2.0", "id": "\ud800", "result": {}}]


def test_log_messages_respect_the_level_of_the_session(asking: Callable[[object], list[Any]]) -> None:
    asking(initialize(HANDSHAKE_REVISIONS[-1]))
    # In a batch nothing runs concurrently, so every notification is there when receive() returns; only this revision
    # has batches.
    asking(initialize("2025-03-26"))
    slow = [request("tools/call", {"name": "slow_echo", "arguments": {"text": "x", "seconds": 0}})]
    assert next(m for m in asking(slow) if isinstance(m, dict))["method"] == "notifications/message"
    assert asking(request("logging/setLevel", {"level": "warning"}))[0]["result"] == {}
    assert [m for m in asking(slow) if isinstance(m, dict)] == []
    assert asking(request("logging/setLevel", {"level": "loud"}))[0]["error"]["code"] == -32602


# --- processes --------------------------------------------------------------------------------------------------------


@contextmanager
def started(*options: str) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]]:
    with subprocess.Popen(
        [*SERVER, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process, process.stdin, process.stdout
        finally:
            process.kill()


def test_the_server_ends_in_good_order_when_its_stdin_does_even_with_a_call_open() -> None:
    with started() as (process, there, back):
        arguments = {"name": "slow_echo", "arguments": {"text": "x", "steps": 100, "seconds": 10}}
        params = {**arguments, "_meta": {**MODERN_META, "progressToken": 1}}
        there.write(encode(request("tools/call", params)))
        there.flush()
        assert json.loads(back.readline())["method"] == "notifications/progress"
        there.close()
        assert process.wait(DEADLINE_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_the_server_leaves_quietly_when_nobody_reads_any_more() -> None:
    with started() as (process, there, back):
        back.close()
        there.write(encode(request("ping")))
        there.flush()
        assert process.wait(DEADLINE_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_the_server_refuses_unknown_arguments() -> None:
    with started("--what") as (process, _, _):
        assert process.wait(DEADLINE_S) == 2
