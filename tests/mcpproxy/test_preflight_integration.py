"""A page in a browser calls a server of another origin: through `serve --public`, it may do what it may do directly.

The browser asks the server first (a preflight of CORS), and keeps the response from the page if the server does not
allow its origin. The server is one of the official SDK, which logs what it receives and sends.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness import Place, wait_until
from tests.http_harness import Upstream, answering, free_port, serving
from tests.mcpproxy.html_report.browser import DEADLINE_MS, browser
from tests.mcpproxy.test_serve_sdk_integration import Told, account, serve_sdk

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<!doctype html>"
CALL = """
async (url) => {
  const params = {protocolVersion: "2025-11-25", capabilities: {}, clientInfo: {name: "page", version: "1"}};
  const headers = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
  };
  const body = JSON.stringify({jsonrpc: "2.0", id: 1, method: "initialize", params});
  try {
    const response = await fetch(url, {method: "POST", headers, body});
    return [response.status, response.headers.has("mcp-session-id"), await response.text()];
  } catch (error) {
    return String(error);
  }
}
"""
VARYING = {"host", "date", "mcp-session-id"}


def seen(path: Path) -> list[tuple[Any, ...]]:
    """What a server has received and sent, without what differs between any two requests."""

    def plain(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return [header for header in headers if header[0] not in VARYING]

    def parts(told: Told) -> tuple[Any, ...]:
        return told.method, told.target, plain(told.headers), told.sent, told.status, plain(told.answer_headers)

    return [parts(told) for told in account(path)]


@pytest.mark.costly("starts a browser, and two servers of the SDK")
@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_page_of_another_origin_may_do_the_same(place: Place, is_allowed: bool) -> None:
    with Upstream(answering(PAGE)) as origin, browser("127.0.0.1") as started:
        page = started.new_page()
        page.set_default_timeout(DEADLINE_MS)
        page.goto(f"http://127.0.0.1:{origin.port}/")
        allowed = f"http://127.0.0.1:{origin.port}" if is_allowed else "https://elsewhere.example"
        with serve_sdk(place, "--cors", allowed) as (url, path):
            direct, told = call(page, url, path, is_allowed), seen(path)
        port = free_port()
        options = ("--public", f"http://127.0.0.1:{port}/mcp", "--listen", str(port))
        with serve_sdk(place, "--cors", allowed) as (url, path), serving(place, url, *options) as served:
            assert call(page, served.url, path, is_allowed) == direct
            recorded = [(ended["request"]["method"], ended["response"]["status"]) for ended in served.ended(len(told))]
        assert seen(path) == told
    assert [(method, status) for method, _, _, _, status, _ in told] == recorded
    if is_allowed:
        assert recorded == [("OPTIONS", 200), ("POST", 200)]
        assert direct[:2] == [200, True]
    else:
        assert recorded == [("OPTIONS", 400)]
        assert direct == "TypeError: Failed to fetch"


def call(page: "Page", url: str, path: Path, is_allowed: bool) -> Any:
    """What the page gets from a server, once the server has logged it."""
    result = page.evaluate(CALL, url)
    wait_until(lambda: len(account(path)) == 1 + is_allowed, "the server to log the requests")
    return result
