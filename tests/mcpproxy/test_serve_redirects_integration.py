"""Servers that redirect to an absolute address of their own work through `serve` as without it, with both SDKs."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

from captures.frame import Frame
from tests.harness import DEADLINE_S, PEERS, Place, frames, members_of
from tests.http_harness import Serving, serving
from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.test_serve_sdk_integration import serve_sdk
from tests.npm import installed

EVERYTHING = ("@modelcontextprotocol/server-everything", "2026.8.31")
"""This package also installs the TypeScript SDK and Express."""

Call = tuple[str, dict[str, Any], str]
"""A tool, its arguments, and the text of its result."""
COUNT: Call = ("count", {"steps": 1}, "counted to 1")
ADD: Call = ("add", {"a": 1, "b": 2}, "3")


@pytest.fixture(scope="module")
def modules() -> Path:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    return installed(*EVERYTHING).parents[1]


@contextmanager
def node(script: str, modules: Path) -> Iterator["subprocess.Popen[str]"]:
    command = ["node", str(PEERS / script), str(modules)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


class Clients:
    """The clients of both SDKs; each makes a call on its own connection."""

    def __init__(self, typescript: "subprocess.Popen[str]") -> None:
        self._typescript = typescript

    def results(self, url: str, call: Call) -> dict[str, str]:
        """Returns what each client gets: the result, or the error."""
        modes = ("legacy", "2026-07-28") if call is COUNT else ("legacy",)
        found = {f"Python, {mode}": anyio.run(python_result, url, call, mode) for mode in modes}
        return found | {"TypeScript": self.typescript_result(url, call)}

    def typescript_result(self, url: str, call: Call) -> str:
        """Returns the same for the TypeScript client."""
        name, arguments, _ = call
        kind = "sse" if url.endswith("/sse") else "http"
        assert self._typescript.stdin is not None
        assert self._typescript.stdout is not None
        self._typescript.stdin.write(f"{kind} {url} {name} {json.dumps(arguments, separators=(',', ':'))}\n")
        self._typescript.stdin.flush()
        return self._typescript.stdout.readline().rstrip("\n")


async def python_result(url: str, call: Call, mode: str) -> str:
    transport: Any = sse_client(url) if url.endswith("/sse") else streamable_http_client(url)
    result = ""
    try:
        with anyio.fail_after(DEADLINE_S):
            async with Client(transport, mode=mode, cache=None) as client:
                name, arguments, _ = call
                (content,) = (await client.call_tool(name, arguments)).content
                assert isinstance(content, TextContent)
                result = content.text
    except* (MCPError, httpx2.HTTPError, ValueError) as refused:
        result = f"error: {refused.exceptions}"
    return result


@pytest.fixture(scope="module")
def clients(modules: Path) -> Iterator[Clients]:
    with node("ts_sdk_client.cjs", modules) as typescript:
        yield Clients(typescript)


def assert_alike(place: Place, clients: Clients, url: str, paths: list[str], call: Call) -> Serving:
    """Check that every client works with each path, directly and through `serve`."""
    base = url.removesuffix("/mcp")
    with serving(place, url) as served:
        ours = served.url.removesuffix("/mcp")
        for path in paths:
            direct = clients.results(base + path, call)
            assert set(direct.values()) == {call[2]}, (path, direct)
            assert clients.results(ours + path, call) == direct, path
    assert b"bypass" not in served.errors
    return served


def assert_fails_without(place: Place, clients: Clients, url: str, call: Call) -> None:
    """Check that with --no-rewrite-location no client works: none leaves the origin that it was given."""
    with serving(place, url, "--no-rewrite-location") as served:
        results = clients.results(served.url, call)
        assert all(text.startswith("error: ") for text in results.values()), results
        if call is ADD:  # the Python client waits forever if it refuses an endpoint
            assert clients.typescript_result(served.url.removesuffix("/mcp") + "/sse", call).startswith("error: ")
    assert b"bypass/location); traffic to it is not recorded; without --no-rewrite-location, mcpproxy" in served.errors
    assert (b"bypass/endpoint" in served.errors) == (call is ADD)
    assert all("rewritten" not in members for members in ends(served))
    assert members_of(served.capture, "header")[0]["opt_outs"] == []


def ends(served: Serving) -> list[dict[str, Any]]:
    return [members for members in members_of(served.capture, "exchange") if members["stage"] == "end"]


def told(served: Serving, sql: str) -> list[dict[str, Any]]:
    done = mcpproxy("query", "--format", "json", sql, served.capture)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def assert_each_is_one_call(served: Serving, count: int, where: str = "true") -> None:
    """Check that a request and its repetition count as one call, in the figures and in what `check` reports."""
    counted = (
        f"select outcome, redirects, count(*) as n from calls where method = 'tools/call' and {where} group by all"
    )
    assert told(served, counted) == [{"outcome": "result", "redirects": 1, "n": count}]
    assert told(served, "select * from calls where outcome = 'failed'") == []
    done = mcpproxy("check", "--format", "json", "--notes", served.capture)
    found = {finding["rule"] for line in done.stdout.splitlines() if (finding := json.loads(line)).get("rule")}
    assert "http/redirected" in found
    assert not {rule for rule in found if rule.startswith(("id/", "lifecycle/", "progress/", "http/redirect-"))}, found


def calls(served: Serving) -> list[Frame]:
    return [frame for frame in frames(served.capture) if frame.verdict.method == "tools/call"]


@pytest.mark.costly("two SDKs, each with a server of its own")
def test_a_mount_of_starlette_and_one_in_a_mounted_application(place: Place, clients: Clients) -> None:
    with serve_sdk(place, "--mounted") as (url, _):
        served = assert_alike(place, clients, url, ["/mcp", "/api/mcp"], COUNT)
        assert_fails_without(place, clients, url, COUNT)
    redirects = [members for members in ends(served) if members["response"]["status"] == 307]
    base = url.removesuffix("/mcp")
    for members in redirects:
        place_of = dict(members["response"]["headers"])["location"]
        assert place_of.startswith(base + "/")
        assert place_of == base + members["rewritten"]["location"]
        assert members["rewritten"]["location"] == members["request"]["target"] + "/"
    assert {members["request"]["target"].partition("?")[0] for members in redirects} >= {"/mcp"}
    assert len(calls(served)) == 2 * 6  # once with the redirect, and once after it
    assert_each_is_one_call(served, 6)
    (header,) = members_of(served.capture, "header")
    assert header["opt_outs"] == ["rewrite-location"]


@pytest.mark.costly("a server of Express, and two SDKs")
def test_a_router_of_express_and_the_endpoint_of_the_older_transport(
    place: Place, clients: Clients, modules: Path
) -> None:
    with node("express_server.cjs", modules) as express:
        assert express.stdout is not None
        url = express.stdout.readline().strip()
        served = assert_alike(place, clients, url, ["/mcp", "/sse"], ADD)
        assert_fails_without(place, clients, url, ADD)
    announced = [members for members in ends(served) if "endpoints" in members]
    assert len(announced) == 2
    for members in announced:
        (sent,) = members["endpoints"]
        assert sent == url.removesuffix("/mcp") + members["rewritten"]["endpoint"]
        posted = [other for other in ends(served) if other.get("uri_key") == members["uri_key"]]
        assert len(posted) > 2  # the stream, and each POST to the address
    assert_each_is_one_call(served, 2, "redirects = 1")
    statuses = {members["response"]["status"] for members in ends(served) if "location" in members.get("rewritten", {})}
    assert statuses == {308}
