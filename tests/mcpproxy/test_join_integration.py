"""`check --join` on what was recorded at both ends: an SDK client and server, and nginx between the recorders."""

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from tests.harness import DEADLINE_S, Place
from tests.http_harness import free_port, serving
from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.test_serve_sdk_integration import serve_sdk
from tests.nginx import nginx

pytestmark = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")

Calls: TypeAlias = list[tuple[str, dict[str, object]]]
PUBLIC = "https://mcp.example.org/mcp"
UNFAITHFUL = """
    server {{
        listen 127.0.0.1:{port};
        proxy_http_version 1.1;
        proxy_buffering off;
        error_page 418 = @impatient;
        location / {{
            if ($http_mcp_name = "fail") {{ return 444; }}
            if ($http_mcp_name = "tell") {{ return 502; }}
            if ($http_mcp_name = "meet") {{ return 418; }}
            sub_filter "counted to 7" "counted to 8";
            sub_filter_types *;
            proxy_set_header Accept-Encoding "";
            proxy_pass {upstream};
        }}
        location @impatient {{ proxy_read_timeout 1s; proxy_pass {upstream}; }}
    }}
"""
FAITHFUL = """
    server {{
        listen 127.0.0.1:{port};
        proxy_http_version 1.1;
        proxy_buffering off;
        location / {{ proxy_pass {upstream}; }}
    }}
"""


async def talk(url: str, mode: Any, calls: Calls) -> None:
    """Call tools one after the other, whatever becomes of them."""
    with anyio.fail_after(DEADLINE_S):
        async with (
            httpx2.AsyncClient(timeout=DEADLINE_S) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode, cache=None) as client,
        ):
            for tool, arguments in calls:
                with suppress(MCPError):
                    await client.call_tool(tool, arguments)


def joined(*captures: Path) -> tuple[int, list[dict[str, Any]], str]:
    """What `check --join` says: its exit code, the differences, and the text for people."""
    done = mcpproxy("check", "--join", "--json", *captures)
    text = mcpproxy("check", "--join", "--color", "never", *captures, COLUMNS="200")
    assert (done.stderr, text.stderr, text.returncode) == (b"", b"", done.returncode)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], text.stdout.decode()


@pytest.mark.costly("an SDK server, nginx and two recorders start, and nginx gives up after a second")
def test_what_nginx_loses_answers_and_changes_is_told(place: Place) -> None:
    port = free_port()
    with (
        serve_sdk(place, "--json") as (url, _),
        serving(place, url, "--public", PUBLIC) as near_server,
        nginx(place.root, UNFAITHFUL.format(port=port, upstream=near_server.url.removesuffix("/mcp")), port),
        serving(place, f"http://127.0.0.1:{port}/mcp") as near_client,
    ):
        late: tuple[str, dict[str, object]] = "meet", {"who": "the client", "parties": 2}
        calls: Calls = [
            ("count", {"steps": 1}),
            ("tell", {"text": "a"}),
            late,
            ("count", {"steps": 7}),
        ]
        lost: Calls = [("fail", {})]
        with suppress(ExceptionGroup):  # the client does not survive a connection that breaks off
            anyio.run(talk, near_client.url, "auto", lost)
        # The second for which nginx waits comes after the lost call: at the end of a capture, nothing counts as lost.
        anyio.run(talk, near_client.url, "auto", calls)
        release: Calls = [("meet", {"who": "another", "parties": 2})]
        anyio.run(talk, url, "auto", release)  # now the server can end
    # The order in which the captures are named makes no difference.
    code, rows, text = joined(near_server.capture, near_client.capture)
    assert code == 1
    found = [(row["what"], row["name"], row["client_status"], row["pointer"]) for row in rows]
    assert found == [
        ("request_lost", "fail", None, ""),
        ("answered_between", "tell", 502, ""),
        ("answered_between", "meet", 504, ""),
        ("response_changed", "count", 200, "/result/content/0/text"),
    ]
    assert all(row["is_certain"] and row["level"] == "error" for row in rows)
    assert {row["client_capture"] for row in rows} == {str(near_client.capture)}
    assert f"client's side  {near_client.capture}\nserver's side  {near_server.capture}\n" in text
    assert "the client sent tools/call fail" in text
    assert "was answered in between: the client's side got HTTP 504" in text
    assert "1 request lost, 2 requests answered in between, 1 response changed." in text


@pytest.mark.costly("an SDK server, nginx and two recorders start")
def test_a_faithful_gateway_loses_nothing_and_other_clients_do_not_count(place: Place) -> None:
    port = free_port()
    with (
        serve_sdk(place) as (url, _),
        serving(place, url, "--public", PUBLIC) as near_server,
        nginx(place.root, FAITHFUL.format(port=port, upstream=near_server.url.removesuffix("/mcp")), port),
        serving(place, f"http://127.0.0.1:{port}/mcp") as near_client,
    ):
        calls: Calls = [("count", {"steps": 3}), ("tell", {"text": "a"}), ("fail", {})]
        anyio.run(talk, f"http://127.0.0.1:{port}/mcp", "legacy", [*calls, *calls])
        anyio.run(talk, near_client.url, "legacy", calls)
    code, rows, text = joined(near_client.capture, near_server.capture)
    assert (code, rows) == (0, [])
    assert "Nothing lost or changed. In both captures: 5 of 5 requests" in text
    assert "On the way: requests " in text
