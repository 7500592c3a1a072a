"""The table of hosted clients, and checks of what no well-behaved server sends."""

from datetime import date
from typing import Any

from mcpproxy.clients.hosted import HOSTED_CLIENTS, INFORMATIVE
from mcpproxy.doctor.hosted_checks import CHECKS, problems_of
from mcpproxy.doctor.hosted_observation import Document, Observation, server_places
from mcpproxy.doctor.http_request import HttpReply

MEMBERS = {
    "tool": ("name", "title", "annotations", "inputSchema", "outputSchema"),
    "schema": ("type", "$ref", "exclusiveMinimum", "properties", "items", "anyOf"),
    "resource": ("resource", "authorization_servers"),
    "server": (
        "code_challenge_methods_supported",
        "token_endpoint_auth_methods_supported",
        "client_id_metadata_document_supported",
        "registration_endpoint",
    ),
}
"""What the checks read."""
VALUES: tuple[Any, ...] = (None, True, 0, 1.5, "", "\x1b[31m", "[::", [], [None, {}, [[]]], {}, {"a": [{"type": []}]})


def test_every_row_has_a_public_source_and_a_day() -> None:
    assert len({client.id for client in HOSTED_CLIENTS}) == len(HOSTED_CLIENTS)
    for client in HOSTED_CLIENTS:
        kinds = [row.kind for row in client.requirements]
        assert len({*kinds}) == len(kinds), client.id
        for row in client.requirements:
            assert row.source.startswith("https://"), (client.id, row.kind)
            assert date(2026, 11, 1) <= date.fromisoformat(row.read), (client.id, row.kind)
            assert (row.kind in CHECKS) != (row.kind in INFORMATIVE), row.kind
            assert "|" not in row.text + row.source, "it is a cell of a table"
        assert client.as_of == min(row.read for row in client.requirements)


def test_no_answer_of_a_server_makes_a_check_fail() -> None:
    for part, names in MEMBERS.items():
        for name in names:
            for value in VALUES:
                changed = {name: value}
                server = observation({"inputSchema": changed} if part == "schema" else changed, changed)
                for client in HOSTED_CLIENTS:
                    for row in client.requirements:
                        problems = problems_of(row, server) if row.kind in CHECKS else None
                        assert all(problem.evidence for problem in problems or ()), (row.kind, changed)


def observation(tool: dict[str, Any], document: dict[str, Any]) -> Observation:
    reply = HttpReply(401, (("www-authenticate", 'Bearer "=,'),), b"", 0.1)
    server = Observation(
        "https://example.com/mcp", reply=reply, refusal=reply, preflight=reply, tools=[tool], transport="HTTP+SSE"
    )
    server.documents = [Document("root", "https://example.com/x", "status 200", {"a": 1, **document}, 0.1)]
    server.server_documents = [Document("", "https://example.com/y", "status 200", {"a": 1, **document}, 0.1)]
    return server


def test_a_schema_that_is_deep_or_wide_is_given_up() -> None:
    deep: dict[str, Any] = {"type": ["a"]}
    for _ in range(5_000):
        deep = {"items": deep}
    wide = {"anyOf": [{"type": ["a"]}] * 60_000}
    (row,) = (row for client in HOSTED_CLIENTS for row in client.requirements if row.kind == "tool-schema")
    for schema in (deep, wide):
        server = Observation("https://example.com/mcp", tools=[{"name": "a", "inputSchema": schema}])
        assert problems_of(row, server) is not None


def test_the_places_of_a_document_about_an_authorization_server() -> None:
    known = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
    assert [*server_places("https://a.example")] == [f"https://a.example{each}" for each in known]
    assert [*server_places("https://a.example/t/?x#y")] == [
        *(f"https://a.example{each}/t" for each in known),
        "https://a.example/t/.well-known/openid-configuration",
    ]
    assert [*server_places("https://[")] == ["https://["]
