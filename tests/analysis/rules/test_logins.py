"""Rules about logins in captures that lack something, end early, or come from hostile peers."""

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from orjson import loads

from analysis.conversation.logins import MAX_LOGINS
from analysis.reading import End
from analysis.rules.base import ERROR, NOTE, WARNING
from analysis.rules.finding import Finding, Level
from captures.frames import FrameAssembler
from captures.record import Record, decode, members, seal
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from tests.analysis.judged import Judged
from tests.analysis.traces import CORPUS, read

Change = Callable[[Record], dict[str, Any] | None]
"""Returns the members that a record has instead, or None to lose it."""


@cache
def cases_by_name() -> dict[str, Case]:
    return {case.name: case for case in read(CORPUS / "auth-logins.ndjson")}


def case_with(case: Case | str, old: str, new: str) -> Case:
    """A case, of the corpus if it is a name, with another text in place of one in its messages."""
    case_members = (cases_by_name()[case] if isinstance(case, str) else case).members
    assert any(old in frame["raw"] for frame in case_members["frames"])
    frames = [{**frame, "raw": _replaced(frame["raw"], old, new)} for frame in case_members["frames"]]
    (made,) = cases([json.dumps({**case_members, "frames": frames}).encode()])
    assert isinstance(made, Case)
    return made


def _replaced(message: str, old: str, new: str) -> str:
    head, separator, body = message.replace(old, new).partition("\r\n\r\n")
    return re.sub(r"(?<=Content-Length: )\d+", str(len(body)), head) + separator + body


def judged(case: Case | str, change: Change = lambda record: record.members, reason: End = "closed") -> Judged:
    """The findings about logins in a case whose records are changed, in `found` of the result."""
    checker, assembler = Judged(), FrameAssembler()
    found: list[Finding] = []
    for _, line in (cases_by_name()[case] if isinstance(case, str) else case).records():
        record = decode(line.rstrip(b"\n"), 0, loads)
        assert record is not None
        changed = change(record)
        if changed is None:
            continue
        if changed is not record.members:
            record = decode(seal(record.seq, record.t_ns, record.rec, members(**changed)).rstrip(b"\n"), 0, loads)
            assert record is not None
        item = assembler.feed(record)
        found += checker.feed(item) if item is not None else []
    found += checker.finish(reason)
    assert checker.faults == {}
    checker.found = [one for one in found if one.rule.startswith("auth/")]  # type: ignore[attr-defined]
    return checker


def rules_in(case: Case | str, change: Change = lambda record: record.members, reason: End = "closed") -> list[str]:
    found: list[Finding] = judged(case, change, reason).found  # type: ignore[attr-defined]
    return [one.rule.removeprefix("auth/") for one in found]


def texts_in(case: Case | str, change: Change = lambda record: record.members) -> list[str]:
    found: list[Finding] = judged(case, change).found  # type: ignore[attr-defined]
    return [one.message for one in found]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("token-refused-400", "the login failed at the token request: 400 invalid_grant"),
        ("registration-refused-400", "the login failed at registration: 400 invalid_redirect_uri"),
        ("login-denied", "the login failed at authorization: 302 access_denied"),
        ("error-that-is-no-code", "the login failed at the token request: 400"),
        (
            "read-the-metadata-and-left",
            (
                "the client did not go on after the server metadata: it neither registered nor requested "
                "authorization; the metadata has no registration_endpoint and no client_id_metadata_document_supported"
            ),
        ),
        (
            "read-metadata-of-a-server-elsewhere-and-left",
            (
                "the client did not go on after the resource metadata: it did not request the server metadata; "
                "the authorization server is elsewhere"
            ),
        ),
        (
            "read-metadata-of-this-server-and-left",
            "the client did not go on after the resource metadata: it did not request the server metadata",
        ),
        ("code-not-used", "the client did not go on after authorization: it did not request a token"),
        ("user-left", "the client did not go on after authorization: no code was issued"),
        ("challenged-and-left", "the client did not go on after the challenge: it did not request metadata"),
        ("token-refused-by-its-server", "the server refuses the token that it has just issued: 401 invalid_token"),
    ],
)
def test_a_finding_says_where_a_login_ended(name: str, text: str) -> None:
    assert texts_in(name) == [text]


def test_a_description_is_not_quoted() -> None:
    case = case_with("token-refused-400", '"invalid_grant"', '"invalid_grant","error_description":"no"')
    assert texts_in(case) == texts_in("token-refused-400")


@pytest.mark.parametrize("name", ["read-the-metadata-and-left", "read-good-metadata-and-left", "code-not-used"])
def test_while_the_capture_grows_a_client_may_yet_go_on(name: str) -> None:
    assert rules_in(name) == ["login-unfinished"]
    assert rules_in(name, reason="killed") == ["login-unfinished"]
    assert rules_in(name, reason="open") == []


def test_while_the_capture_grows_a_client_may_try_again() -> None:
    assert rules_in("token-refused-400", reason="open") == []
    assert rules_in("token-refused-400") == ["login-failed"]


def without_exchange(number: int) -> Change:
    """Lose the records of an exchange."""
    return lambda record: None if record.members.get("exchange") == number else record.members


@pytest.mark.parametrize("exchange", [1, 2, 3, 4, 5, 6])
def test_a_whole_login_of_which_an_exchange_is_lost_is_no_fault(exchange: int) -> None:
    assert rules_in("whole-login-2025-11-25", without_exchange(exchange)) == []


def in_public(url: str) -> Change:
    """Recorded in front of a server with this public URL."""
    return lambda record: {**record.members, "public": url} if record.rec == "header" else record.members


@pytest.mark.parametrize("name", ["whole-login-2025-11-25", "whole-login-with-the-document-at-the-root"])
def test_the_public_url_is_the_one_to_compare_with(name: str) -> None:
    assert rules_in(name, in_public("https://example.com/mcp")) == []
    case = case_with(name, "Host: example.com", "Host: 127.0.0.1:8000")
    assert rules_in(case, in_public("https://example.com/mcp")) == []
    for other in ("https://other.example.net/mcp", "http://localhost:8000/mcp"):
        assert "metadata-document" in rules_in(case, in_public(other)), "no tunnel can hide another name"


def test_the_same_host_is_not_elsewhere() -> None:
    """The authorization server has the public URL, the address of the endpoint, or the host of the resource."""
    text = "the client did not go on after the resource metadata: it asked for no server metadata"
    elsewhere = "read-metadata-of-a-server-elsewhere-and-left"
    assert texts_in(elsewhere) == [f"{text}; the authorization server is elsewhere"]
    assert texts_in(elsewhere, in_public("https://login.example.net/mcp")) == [text]
    name, servers = "read-metadata-of-this-server-and-left", '"authorization_servers":["'
    behind = case_with(name, "Host: example.com", "Host: 127.0.0.1:8000")
    for server in ("http://127.0.0.1:8000", "http://example.com"):
        assert texts_in(case_with(behind, f"{servers}https://example.com", f"{servers}{server}")) == [text]


def test_a_document_at_the_root_is_about_the_endpoint_or_the_root() -> None:
    name = "whole-login-with-the-document-at-the-root"
    assert rules_in(name, in_public("https://example.com/api")) == ["resource-mismatch"]
    whole = case_with(name, '"resource":"https://example.com/mcp"', '"resource":"https://example.com"')
    assert "resource-mismatch" not in rules_in(whole, in_public("https://example.com/mcp"))


def unread(record: Record) -> dict[str, Any]:
    """The end of an exchange of whose bodies nothing is known."""
    kept = {name: value for name, value in record.members["oauth"].items() if name in ("leg", "grant_type")}
    return {**{name: value for name, value in record.members.items() if name != "metadata"}, "oauth": kept}


def not_imported(record: Record) -> dict[str, Any]:
    """The source of an import had no bodies."""
    return {**unread(record), "missing": ["request", "response"]} if "oauth" in record.members else record.members


def not_decoded(record: Record) -> dict[str, Any]:
    """Bodies are in a coding that the recorder does not know."""
    if "oauth" not in record.members:
        return record.members
    response = record.members["response"]
    response = {**response, "headers": [*response["headers"], ["content-encoding", "x"]]}
    return {**unread(record), "response": response, "body_hash": {"response": {"size": 9, "undecoded": "x"}}}


@pytest.mark.parametrize("change", [not_imported, not_decoded])
@pytest.mark.parametrize(
    "name", ["page-for-metadata", "token-without-type", "registration-without-client-id", "no-s256", "issuer-elsewhere"]
)
def test_what_is_in_a_body_that_was_not_read_is_not_judged(name: str, change: Change) -> None:
    found = rules_in(name)
    assert found
    assert set(found).isdisjoint(rules_in(name, change))


def test_captures_without_legs_have_no_findings_about_them() -> None:
    def without_legs(record: Record) -> dict[str, Any]:
        return {name: value for name, value in record.members.items() if name != "oauth"}

    names = ["no-s256", "token-refused-400", "issuer-elsewhere", "read-the-metadata-and-left", "iss-of-another"]
    assert [rules_in(name, without_legs) for name in names] == [[]] * len(names)


ODD_VALUES: list[Any] = [None, 0, "", "x", "https://[", ["x"], {"x": 1}, [None, 1, "https://["], "\u202e\x1b[31m", True]


@pytest.mark.parametrize("value", ODD_VALUES, ids=repr)
def test_no_rule_raises_for_odd_documents(value: Any) -> None:
    names = ["resource", "authorization_servers", "bearer_methods_supported", "issuer", "authorization_endpoint"]
    names += ["token_endpoint", "registration_endpoint", "grant_types_supported", "response_types_supported"]
    names += ["code_challenge_methods_supported", "authorization_response_iss_parameter_supported"]
    document = json.dumps(dict.fromkeys(names, value))

    def odd(record: Record) -> dict[str, Any]:
        return {**record.members, "metadata": document} if "metadata" in record.members else record.members

    for name in ("whole-login-2025-11-25", "announced-and-not-there", "read-the-metadata-and-left"):
        judged(name, odd)  # which fails if a rule raises


@pytest.mark.parametrize("value", ["", "\u202e", "https://[", "a b c " * 500, "\x1b[31m"])
def test_no_rule_raises_for_odd_facts(value: str) -> None:
    def odd(record: Record) -> dict[str, Any]:
        oauth = record.members.get("oauth")
        if not isinstance(oauth, dict):
            return record.members
        return {**record.members, "oauth": dict.fromkeys(oauth, value) | {"leg": oauth["leg"]}}

    for name in ("whole-login-2025-11-25", "token-refused-400", "iss-of-another", "stepped-up"):
        judged(name, odd)


def test_findings_about_many_logins_are_counted() -> None:
    """Many clients fail in the same way, more than are kept."""
    first, failed = ([*cases_by_name()[name].members["frames"]] for name in ("refreshed", "token-refused-400"))
    frames = first[:2]
    for number in range(MAX_LOGINS + 20):
        own_texts = ("host/1.0", f"host/{number}"), ("client_id=c1&", f"client_id=c{number}&")
        for frame in failed[10:12]:
            raw = frame["raw"]
            for old, new in own_texts:
                raw = raw.replace(old, new)
            frames.append({**frame, "x": number + 2, "t": 1_000 + 10 * len(frames), "raw": raw})
    for frame in frames[2:]:
        head, _, body = frame["raw"].partition("\r\n\r\n")
        frame["raw"] = re.sub("Content-Length: .*", f"Content-Length: {len(body)}", head) + "\r\n\r\n" + body
    made = {"name": "many", "version": "2025-11-25", "transport": "http", "frames": frames}
    (case,) = cases([json.dumps(made).encode()])
    assert isinstance(case, Case)
    checker = judged(case)
    found: list[Finding] = checker.found  # type: ignore[attr-defined]
    assert [one.rule for one in found] == ["auth/login-failed"]
    (count,) = (count for (rule, _, _), count in checker.counts.items() if rule == "auth/login-failed")
    assert count >= MAX_LOGINS


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("resource-with-another-path", ERROR),
        ("resource-above-the-endpoint", WARNING),
        ("token-with-another-redirect", ERROR),
        ("token-for-another-resource", WARNING),
        ("token-without-resource", ERROR),
        ("refreshed-without-resource", WARNING),
        ("iss-promised-and-missing", ERROR),
        ("iss-promised-and-missing-2025-11-25", WARNING),
        ("read-the-metadata-and-left", WARNING),
        ("read-good-metadata-and-left", NOTE),
        ("token-refused-400", WARNING),
        ("login-denied", NOTE),
        ("refresh-token-over", NOTE),
        ("token-refused-by-its-server", WARNING),
        ("token-from-elsewhere-refused", NOTE),
    ],
)
def test_the_level_says_whose_fault_it_may_be(name: str, level: Level) -> None:
    found: list[Finding] = judged(name).found  # type: ignore[attr-defined]
    assert [finding.level for finding in found] == [level]


def test_the_scopes_of_the_challenge_are_enough() -> None:
    assert rules_in(case_with("stepped-up", "scope=files%3Aread+files%3Awrite", "scope=files%3Awrite")) == []


def test_a_renewed_token_may_be_for_another_resource_than_the_first() -> None:
    first, other = ("resource=https%3A%2F%2Fexample.com%2F" + path for path in ("mcp", "api"))
    again = "authorization_code&code=k2"
    address = "client_id=c1&redirect_uri=http%3A%2F%2F127.0.0.1%3A8080%2Fcallback&code_verifier=v1"
    name, old = "stepped-up", f"{again}&{address}&{first}"
    assert rules_in(case_with(name, old, f"{again}&{address}&{other}")) == ["token-request"]
    assert rules_in(case_with(name, old, f"refresh_token&refresh_token=r1&{address}&{other}")) == []


def test_an_empty_response_is_no_page_in_place_of_metadata() -> None:
    assert "metadata-type" in rules_in("page-for-metadata")
    assert "metadata-type" not in rules_in(case_with("page-for-metadata", "<html></html>", ""))


def test_a_client_that_needs_no_metadata_still_names_the_resource() -> None:
    case = case_with("whole-login-of-a-known-client", "v1&resource=https%3A%2F%2Fexample.com%2Fmcp", "v1")
    assert rules_in(case, lambda record: record.members if record.members.get("exchange") not in (2, 3) else None) == [
        "token-request"
    ]


def test_what_may_be_of_two_clients_is_not_compared() -> None:
    """Only the token request of the client itself, with an id of its own, confirms which page is part of its login."""
    case = case_with("whole-login-of-a-known-client", "8080%2Fcallback&code_verifier", "9090%2Fcallback&code_verifier")
    assert rules_in(case) == ["token-request"]
    request = "POST /token HTTP/1.1\r\nHost: example.com\r\nUser-Agent: "
    assert rules_in(case_with(case, f"{request}host/1.0", f"{request}other/1.0")) == []
    shared_id = "client_id=https%3A%2F%2Fapp.example.org%2Fclient.json"
    assert rules_in(case_with(case, "client_id=c1", shared_id)) == []


@pytest.mark.parametrize(("grants", "is_missed"), [('["implicit"]', False), ('["implicit","refresh_token"]', True)])
def test_only_the_implicit_grant_needs_no_token_endpoint(grants: str, is_missed: bool) -> None:
    name = "metadata-without-token-endpoint"
    old = '"grant_types_supported":["authorization_code","refresh_token"]'
    (text,) = texts_in(case_with(name, old, f'"grant_types_supported":{grants}'))
    assert ("token_endpoint" in text) == is_missed
