"""FORMAT.md and the recorder name the same members of an HTTP exchange, and of each leg of an authorization."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, get_args
from urllib.parse import urlencode

from orjson import dumps, loads

from captures.loss import PendingRecord
from captures.metadata_paths import RESOURCE_METADATA_PATH, SERVER_METADATA_PATH
from mcpproxy.importers.http import Exchanges, request_of
from mcpproxy.recorder.exchange import ExchangeRecorder
from mcpproxy.recorder.http import ConnectionRecorder, HttpRecorder
from mcpproxy.recorder.oauth_exchange import OauthExchange
from mcpproxy.recorder.oauth_legs import Leg
from mcpproxy.recorder.oauth_members import challenge_member
from mcpproxy.recorder.response_text import TextCleaner
from mcpproxy.relay.http.observer import RewrittenAddress
from mcpproxy.wire.framing import Fields
from mcpproxy.wire.http1 import RequestHead
from mcpproxy.wire.response import ResponseHead
from tests.captures.samples import PAGE, tables

LEGS: Final = get_args(Leg)
LEG_NAME: Final = re.compile(rf"(?<![\w-])(?:{'|'.join(LEGS)})(?![\w-])")
URL: Final = "https://a.example/mcp"
PARAMETERS: Final[dict[str, Any]] = {
    "grant_type": "password",
    "grant_types": ["password"],
    "response_type": "code",
    "response_types": ["code"],
    "error": "invalid_scope",
    "error_description": "no such scope",
    "error_uri": "https://a.example/help",
    "scope": "files",
    "resource": URL,
    "iss": URL,
    "issuer": URL,
    "authorization_servers": [URL],
    "client_id": "https://b.example/client",
    "redirect_uri": "https://b.example/cb",
    "redirect_uris": ["https://b.example/cb"],
    "code_challenge_method": "S256",
    "token_type": "Bearer",
    "expires_in": 60,
    "state": "s",
    "code": "c",
}
"""Everything that a request, a response or a redirect of a leg can say."""


def page_of_oauth() -> tuple[dict[str, str], list[str]]:
    """The members of `oauth` on the page, each with its meaning, and the legs in the table after them."""
    section = PAGE.read_text("utf-8").split("\n#### `oauth`\n")[1].split("\n### ")[0]
    members, legs = re.split(r"\n\| leg \|.*\n", section)
    rows = [row.strip("| ").split(" | ", 2) for row in members.splitlines() if row.startswith("| `")]
    meanings = {name: meaning for names, _, meaning in rows for name in re.findall(r"`(\w+)`", names)}
    rows_of_legs = [row.split("|")[1] for row in legs.splitlines() if row.startswith("| `")]
    return meanings, [leg for row in rows_of_legs for leg in re.findall(r"`([\w-]+)`", row)]


def clean(address: bytes) -> str:
    return address.decode()


def head_of(method: bytes, target: str, *fields: tuple[bytes, bytes]) -> RequestHead:
    return RequestHead(method, target.encode(), b"HTTP/1.1", Fields(fields), None, b"")


def answer(status: int, *fields: tuple[bytes, bytes]) -> ResponseHead:
    return ResponseHead(status, b"", b"HTTP/1.1", Fields(fields), False)


def recorded(leg: Leg, response: ResponseHead) -> set[str]:
    """The members of `oauth` for a leg whose request and response have all parameters."""
    if leg == "challenge":
        text = ", ".join(f'{name}="{value}"' for name, value in PARAMETERS.items() if isinstance(value, str))
        refusal = answer(401, (b"www-authenticate", f"Bearer {text}".encode()))
        cleaner = TextCleaner(b"/mcp", Fields(), Fields(), None, clean)
        return {*(challenge_member(refusal, cleaner, None, clean) or ())}
    path = {"resource-metadata": RESOURCE_METADATA_PATH, "server-metadata": SERVER_METADATA_PATH}.get(leg, "/x")
    exchange = OauthExchange(head_of(b"POST", path), leg)
    exchange.read_request(dumps(PARAMETERS), b"application/json")
    exchange.read_response_head(response)
    exchange.read_response(dumps(PARAMETERS))
    return {*(exchange.member(None, clean) or ())}


def test_the_page_says_which_legs_have_which_member_of_oauth() -> None:
    meanings, listed_legs = page_of_oauth()
    assert sorted(listed_legs) == sorted(LEGS)
    redirect = answer(302, (b"location", f"https://b.example/cb?{urlencode(PARAMETERS)}".encode()))
    legs_by_member: dict[str, set[str]] = defaultdict(set)
    for leg in LEGS:
        for name in recorded(leg, answer(200)) | recorded(leg, redirect):
            legs_by_member[name].add(leg)
    assert legs_by_member.pop("leg") == {*LEGS}
    assert "leg" in meanings
    assert dict(legs_by_member) == {
        name: {*LEG_NAME.findall(meaning)} for name, meaning in meanings.items() if name != "leg"
    }
    errors = {name for name in meanings if name.startswith("error")}
    for leg in LEGS:  # "from the JSON object of a response with a status of 400 or more"
        assert errors <= recorded(leg, answer(400)), leg


REQUEST: Final = (
    (b"Host", b"a.example"),
    (b"X-Forwarded-For", b"192.0.2.1"),
    (b"Content-Type", b"application/json"),
)


def members_of(entries: Iterable[PendingRecord]) -> list[dict[str, Any]]:
    return [loads(b"{%b}" % entry.middle[1:]) for entry in entries if entry.rec == "exchange"]


def exchanges_of(recorder: HttpRecorder) -> list[dict[str, Any]]:
    """Records of exchanges in which everything happens for which the page has a member, except in imports."""
    json, stream = (b"content-type", b"application/json"), (b"content-type", b"text/event-stream")
    elsewhere = (b"location", b"https://c.example/")
    connection = ConnectionRecorder(recorder, 1, "127.0.0.1:5")
    for method, target, response, body in (
        (b"POST", "/mcp", answer(401, json, elsewhere), b"log in first"),
        (b"GET", RESOURCE_METADATA_PATH, answer(200, json), dumps({"resource": URL})),
        (b"GET", "/mcp", answer(200, stream), b"event: endpoint\ndata: /messages\n\n"),
        (b"GET", "/mcp", answer(101), b""),
    ):
        exchange = ExchangeRecorder(connection, 1)
        exchange.begin_request(head_of(method, target, *REQUEST))
        exchange.end_request()
        exchange.on_rewrite(RewrittenAddress("location", b"https://a.example/x", b"/x"))
        exchange.begin_response(response)
        exchange.add_to_response(body)
        if response.status == 101:
            exchange.on_switch()
        exchange.on_response_end("server", "it broke off")
    return members_of(connection.entries)


def test_the_page_lists_the_members_of_an_exchange_in_their_order(tmp_path: Path) -> None:
    recorder = HttpRecorder(URL, lambda _: None, capture=str(tmp_path / "x.mcpcap"), machine=None, public=URL)
    try:
        records = exchanges_of(recorder)
    finally:
        asyncio.run(recorder.finish("signal"))
    logged = request_of(b"POST /mcp HTTP/1.1\r\n\r\n")
    records += members_of(Exchanges({b"/mcp"}).add_request(1, *logged, "127.0.0.1:5", lacks_body=True))
    listed = tables()["exchange"]
    for record in records:
        assert [*record] == [name for name in listed if name in record], record
    assert {name for record in records for name in record} == {*listed}
