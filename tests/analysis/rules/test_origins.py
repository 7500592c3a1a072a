"""Rules that decide whether an address is the server's own, although the recorder has another one."""

import json

import pytest
from orjson import loads

from analysis.rules.finding import Finding
from captures.frames import FrameAssembler
from captures.record import decode, members, seal
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from tests.analysis.judged import Judged

LISTEN = "127.0.0.1:37847"
"""The `Host` that a client sends if it knows only the recorder's address."""


def document(resource: str) -> str:
    body = json.dumps({"resource": resource, "authorization_servers": ["https://login.example.com"]})
    return f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"


def found(upstream: str, *frames: dict[str, object], rule: str) -> list[Finding]:
    """The findings of a rule in exchanges recorded in front of a server."""
    case = {"name": "origin", "version": "2025-11-25", "transport": "http", "frames": frames}
    (made,) = cases([json.dumps(case).encode()])
    assert isinstance(made, Case)
    checker, assembler, findings = Judged(), FrameAssembler(), list[Finding]()
    for _, line in made.records():
        record = decode(line.rstrip(b"\n"), 0, loads)
        assert record is not None
        if record.rec == "header":
            told = {**record.members, "upstream": upstream} if upstream else record.members
            record = decode(seal(0, 0, "header", members(**told)).rstrip(b"\n"), 0, loads)
            assert record is not None
        item = assembler.feed(record)
        findings += checker.feed(item) if item is not None else []
    findings += checker.finish("closed")
    assert checker.faults == {}
    return [one for one in findings if one.rule == rule]


def asked(target: str, host: str = LISTEN, **fields: str) -> dict[str, object]:
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return {"dir": "c2s", "k": "req", "x": 1, "raw": f"GET {target} HTTP/1.1\r\nHost: {host}\r\n{head}\r\n"}


def answered(raw: str) -> dict[str, object]:
    return {"dir": "s2c", "k": "res", "x": 1, "raw": raw}


PATH = "/.well-known/oauth-protected-resource/mcp"


@pytest.mark.parametrize(
    ("upstream", "resource", "levels"),
    [
        ("https://example.com/mcp", "https://example.com/mcp", []),
        ("https://example.com/mcp", "https://EXAMPLE.com:443/mcp", []),
        ("http://example.com/mcp", "https://example.com/mcp", []),
        ("http://127.0.0.1:8000/mcp", "http://localhost:8000/mcp", []),
        ("http://[::1]:8000/mcp", "http://localhost:8000/mcp", []),
        ("http://127.0.0.1:8000/mcp", f"http://{LISTEN}/mcp", []),
        ("http://127.0.0.1:8000/mcp", "https://example.com/mcp", []),
        ("http://127.0.0.1:8000/mcp", "http://example.com/mcp", []),
        ("http://10.0.0.7:8000/mcp", "https://example.com/mcp", []),
        ("http://mcp-server:8000/mcp", "https://example.com/mcp", []),
        ("http://127.0.0.1:8000/mcp", "http://localhost:8001/mcp", ["error"]),
        ("https://example.com/mcp", "https://other.example.com/mcp", ["error"]),
        ("https://example.com/mcp", "http://127.example.com/mcp", ["error"]),
        ("https://example.com/mcp", "/mcp", ["error"]),
        ("https://example.com/mcp", "https://[/mcp", ["error"]),
    ],
)
def test_a_document_is_about_the_server_by_any_of_its_names(upstream: str, resource: str, levels: list[str]) -> None:
    told = found(upstream, asked(PATH), answered(document(resource)), rule="auth/metadata-document")
    assert [str(one.level) for one in told] == levels


def test_without_an_upstream_the_host_of_the_request_decides() -> None:
    for resource, count in (("https://example.com/mcp", 0), ("https://other.example.com/mcp", 1)):
        frames = asked(PATH, "example.com"), answered(document(resource))
        assert len(found("", *frames, rule="auth/metadata-document")) == count


@pytest.mark.parametrize(
    ("upstream", "address", "count"),
    [
        ("http://127.0.0.1:8000/sse", "/messages?s=1", 0),
        ("http://127.0.0.1:8000/sse", "http://localhost:8000/messages?s=1", 0),
        ("https://example.com/sse", "https://example.com:443/messages?s=1", 0),
        ("http://127.0.0.1:8000/sse", "http://localhost:8001/messages?s=1", 1),
        ("https://example.com/sse", "https://other.example.com/messages?s=1", 1),
    ],
)
def test_an_endpoint_is_of_the_server_by_any_of_its_names(upstream: str, address: str, count: int) -> None:
    opened = [
        asked("/sse", Accept="text/event-stream"),
        {"dir": "s2c", "k": "head", "x": 1, "raw": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"},
        {"dir": "s2c", "k": "sse", "x": 1, "raw": f"event: endpoint\ndata: {address}\n\n"},
        {"dir": "c2s", "k": "end", "x": 1, "by": "client"},
    ]
    assert len(found(upstream, *opened, rule="legacy-sse/endpoint-invalid")) == count


@pytest.mark.parametrize(
    ("upstream", "location", "told"),
    [
        ("https://example.com/mcp", "http://example.com/mcp/", "the server redirects from https to http"),
        ("https://example.com/mcp", "http://Example.com:8080/mcp/", "the server redirects from https to http"),
        (
            "http://example.com/mcp",
            "https://example.com/mcp",
            "the server redirects from http to https: use https://example.com as its URL",
        ),
        (
            "http://[::1]:8000/mcp",
            "https://[::1]/mcp",
            "the server redirects from http to https: use https://[::1] as its URL",
        ),
        ("https://example.com/mcp", "https://example.com/mcp/", None),
        ("https://example.com/mcp", "http://other.example.com/mcp/", None),
        ("https://example.com/mcp", "/mcp/", None),
        ("https://example.com/mcp", "http://[/mcp/", None),
        ("", "http://example.com/mcp/", None),
    ],
)
def test_a_redirect_to_the_own_host_under_another_scheme_is_told(
    upstream: str, location: str, told: str | None
) -> None:
    asks = {"dir": "c2s", "k": "req", "x": 1, "raw": f"{POST}{json.dumps(PING)}"}
    redirect = answered(f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {location}\r\n\r\n")
    found_here = found(upstream, asks, redirect, rule="http/redirect-scheme")
    assert [one.message for one in found_here] == ([] if told is None else [told])


POST = (
    f"POST /mcp HTTP/1.1\r\nHost: {LISTEN}\r\n"
    "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\r\n"
)
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
