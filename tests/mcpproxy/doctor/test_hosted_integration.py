"""Every verdict for hosted clients is given for a server that has this fault and no other."""

import json
import re
import shutil
import socket
import subprocess
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.clients.hosted import HOSTED_CLIENTS, INFORMATIVE, HostedClient, hosted_named
from mcpproxy.doctor.examination import ExaminationResult
from mcpproxy.doctor.hosted_examination import examine_hosted
from mcpproxy.doctor.hosted_observation import MAX_PAGES
from mcpproxy.doctor.hosted_verdicts import HOSTED_VERDICTS
from mcpproxy.doctor.http_request import MAX_BODY
from tests.harness import DEADLINE_S
from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.doctor.cases import UNSET, doctor, verdicts
from tests.mcpproxy.doctor.hosted_site import RESOURCE, SERVER, Site, document, site_on_loopback, tool

Change = Callable[[Site], None]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 with its key, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    pem = folder / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "1", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(pem), "-out", str(folder / "cert.pem")],
        check=True, capture_output=True,
    )  # fmt: skip
    pem.write_text(pem.read_text() + (folder / "cert.pem").read_text())
    return pem


@pytest.fixture
def site(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server with https whose certificate is trusted."""
    for name, value in UNSET.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with site_on_loopback(certificate) as running:
        yield running


def examined(
    site: Site, client: str | HostedClient, change: Change | None = None, *, login: bool = False
) -> ExaminationResult:
    """Examine a server that was changed; it is as it was afterwards."""
    saved = {name: json.loads(json.dumps(getattr(site, name))) for name in ("resource", "metadata", "tools", "cors")}
    site.requests.clear()
    site.bodies.clear()
    if login:
        site.require_login()
    if change is not None:
        change(site)
    named = client if isinstance(client, HostedClient) else hosted_named(client)
    result = examine_hosted("x", site.url, named, DEADLINE_S, DEADLINE_S)
    site.answers.clear()
    for name, value in saved.items():
        setattr(site, name, value)
    return result


def trusting(certificate: Path) -> Any:
    """The variables of a command that trusts the certificate."""
    return {**UNSET, "SSL_CERT_FILE": str(certificate)}


def ids(result: ExaminationResult) -> list[str]:
    return [diagnosis.verdict.id for diagnosis in result.diagnoses]


def answers(key: str, status: int = 404, fields: dict[str, str] | None = None) -> Change:
    def change(site: Site) -> None:
        site.answers[key] = status, fields or {}, b""

    return change


def drops(*keys: str) -> Change:
    def change(site: Site) -> None:
        for key in keys:
            del site.answers[key]

    return change


def metadata(**members: object) -> Change:
    def change(site: Site) -> None:
        content = {name: value for name, value in {**site.metadata, **members}.items() if value is not None}
        site.answers[f"GET {SERVER}"] = document(content)

    return change


def resource(**members: object) -> Change:
    def change(site: Site) -> None:
        for path in (RESOURCE, f"{RESOURCE}/mcp"):
            site.answers[f"GET {path}"] = document({**site.resource, **members})

    return change


def tools(*added: dict[str, Any]) -> Change:
    return lambda site: site.tools.extend(added)


def cors(name: str, value: str) -> Change:
    return lambda site: site.cors.update({name: value})


def both(first: Change, second: Change) -> Change:
    def change(site: Site) -> None:
        first(site)
        second(site)

    return change


def opens_a_stream(site: Site) -> None:
    site.answers["POST /mcp"] = 405, {}, b""
    site.answers["GET /mcp"] = 200, {"Content-Type": "text/event-stream"}, b"event: endpoint\ndata: /m\n\n"


# ---- a server without faults


def test_a_server_without_faults_has_no_verdict(site: Site) -> None:
    for client in HOSTED_CLIENTS:
        for login in (False, True):
            result = examined(site, client, login=login)
            assert (ids(result), result.tools) == ([], None if login else 2), (client.id, login)
            assert result.checklist is not None
            checkable = [each for each in client.requirements if each.kind not in INFORMATIVE]
            assert {*result.checklist.checked} | {*dict(result.checklist.unchecked)} == {*checkable}
            assert not any("register" in each or "authorize" in each for each in site.requests)
            assert "tools/call" not in [message.get("method") for message in site.bodies]


def test_the_server_is_asked_as_the_client_would_ask(site: Site) -> None:
    for client in HOSTED_CLIENTS:
        examined(site, client)
        name = site.bodies[0]["params"]["clientInfo"]["name"]
        assert name == (client.speaks_as or "mcpproxy-doctor")
        assert ("OPTIONS /mcp" in site.requests) == (client.id == "browser")
        assert not any(".well-known" in each for each in site.requests), "a server without a login has no documents"
    examined(site, "perplexity", login=True)
    assert site.requests == ["POST /mcp"], "no page says that it reads documents"
    examined(site, "claude", login=True)
    assert site.requests == ["POST /mcp", f"GET {RESOURCE}/mcp", f"GET {RESOURCE}", f"GET {SERVER}"]


# ---- one fault

WITHOUT_LOGIN: list[tuple[str, Change, str, str]] = [
    ("claude", tools(tool("a.b"), tool("c" * 65)), "hosted/tool-name", "a.b, ccc"),
    ("claude", tools(tool("x", annotations={"readOnlyHint": True})), "hosted/tool-annotations", "no title on x"),
    ("claude", tools(tool("x", annotations={"title": "X"})), "hosted/tool-annotations", "no readOnlyHint or destr"),
    ("chatgpt", tools(tool("x", annotations={})), "hosted/tool-annotations", "no readOnlyHint on x"),
    ("chatgpt", lambda site: site.tools.pop(0).clear(), "hosted/missing-tools", "no search"),
    ("copilot-studio", tools(tool("x", inputSchema={"properties": {"a": {"$ref": "#/$defs/b"}}})), "hosted/tool-schema",
     "$ref in x"),
    ("copilot-studio", tools(tool("x", outputSchema={"anyOf": [{"type": ["string", "null"]}]})), "hosted/tool-schema",
     "a list as type in x"),
    ("copilot-studio", tools(tool("x", inputSchema={"items": {"exclusiveMinimum": 0}})), "hosted/tool-schema",
     "a number as exclusiveMinimum in x"),
    ("copilot-studio", tools(*(tool(f"t{n}") for n in range(127))), "hosted/tool-count", "129 tools"),
    ("copilot-studio", opens_a_stream, "hosted/transport", "speaks HTTP+SSE"),
    ("gemini-api", opens_a_stream, "hosted/transport", "speaks HTTP+SSE"),
    ("browser", cors("Access-Control-Allow-Origin", "https://example.com"), "hosted/cors", "without Access-"),
    ("browser", cors("Access-Control-Allow-Headers", "*"), "hosted/cors", "lacks authorization"),
    ("browser", cors("Access-Control-Expose-Headers", ""), "hosted/cors", "does not expose it"),
    ("browser", answers("OPTIONS /mcp", 405), "hosted/cors", "status 405"),
]  # fmt: skip
WITH_LOGIN: list[tuple[str, Change, str, str]] = [
    ("claude", lambda site: site.challenge(403, f'Bearer resource_metadata="{site.base}{RESOURCE}"'),
     "hosted/no-challenge", "status 403"),
    ("claude", lambda site: site.challenge(401, 'Bearer realm="x"'), "hosted/no-pointer", "the challenge is Bearer"),
    ("claude", lambda site: site.challenge(401, ""), "hosted/no-pointer", "there is no WWW-Authenticate"),
    ("chatgpt", drops(f"GET {RESOURCE}", f"GET {RESOURCE}/mcp"), "hosted/no-metadata", "/mcp: status 404; GET "),
    ("chatgpt", lambda site: site.answers.update({f"GET {RESOURCE}{end}": (200, {"Content-Type": "text/html"}, b"<p>")
                                                  for end in ("", "/mcp")}),
     "hosted/no-metadata", "status 200, text/html, not a JSON object"),
    ("claude", resource(resource="https://example.com/mcp?secret=1"), "hosted/resource-mismatch",
     "resource is https://example.com/mcp;"),
    ("claude", resource(authorization_servers=[]), "hosted/no-server-metadata", "no authorization server in"),
    ("claude", drops(f"GET {SERVER}"), "hosted/no-server-metadata", "openid-configuration: status 404"),
    ("chatgpt", drops(f"GET {SERVER}"), "hosted/no-server-metadata", "openid-configuration: status 404"),
    ("claude", metadata(code_challenge_methods_supported=None), "hosted/no-pkce", "no code_challenge_methods_"),
    ("chatgpt", metadata(code_challenge_methods_supported=["plain"]), "hosted/no-pkce", "no S256 in"),
    ("claude", metadata(registration_endpoint=None), "hosted/no-registration", "neither client_id_metadata_document"),
    ("claude", metadata(registration_endpoint=None, client_id_metadata_document_supported=True),
     "hosted/no-registration", "without none in token_endpoint_auth_methods_supported"),
]  # fmt: skip


def test_each_fault_has_its_verdict_and_no_other(site: Site) -> None:
    for login, cases in ((False, WITHOUT_LOGIN), (True, WITH_LOGIN)):
        for client, change, verdict, came in cases:
            result = examined(site, client, change, login=login)
            assert ids(result) == [verdict], (client, verdict, came, result.diagnoses)
            (diagnosis,) = result.diagnoses
            assert came in diagnosis.evidence
            assert re.search(r" requires .* \(https://\S+, read \d{4}-\d\d-\d\d\)$", diagnosis.evidence)
            assert diagnosis.advice
            assert "secret" not in diagnosis.evidence


def test_the_document_is_missing_at_one_of_its_places(site: Site) -> None:
    def at_the_root_only(site: Site) -> None:
        site.challenge(401, f'Bearer resource_metadata="{site.base}{RESOURCE}"')
        del site.answers[f"GET {RESOURCE}/mcp"]

    result = examined(site, "claude", at_the_root_only, login=True)
    assert ids(result) == ["hosted/no-metadata-by-path"]
    assert not result.fails


def test_the_place_of_2025_03_26_is_enough_for_claude(site: Site) -> None:
    gone = drops(f"GET {RESOURCE}", f"GET {RESOURCE}/mcp")
    assert ids(examined(site, "claude", gone, login=True)) == []
    result = examined(site, "claude", both(gone, metadata(code_challenge_methods_supported=None)), login=True)
    assert ids(result) == ["hosted/no-pkce"]


def test_client_id_metadata_documents_replace_registration(site: Site) -> None:
    change = metadata(
        registration_endpoint=None,
        client_id_metadata_document_supported=True,
        token_endpoint_auth_methods_supported=["none"],
    )
    assert ids(examined(site, "claude", change, login=True)) == []


def test_a_document_that_comes_too_late(site: Site) -> None:
    claude = hosted_named("claude")
    rows = tuple(row._replace(value=0.0) if row.kind == "discovery-time" else row for row in claude.requirements)
    result = examined(site, claude._replace(requirements=rows), login=True)
    assert set(ids(result)) == {"hosted/slow-discovery"}
    assert len(result.diagnoses) == 3, "each document is named once"


def test_credentials_in_the_query_are_named_without_their_values(site: Site) -> None:
    url = f"{site.url}?a=1&Token=hunter2#key=2"
    site.answers["POST /mcp?a=1&Token=hunter2"] = document({"jsonrpc": "2.0", "id": 1, "result": {}})
    result = examine_hosted("x", url, hosted_named("claude"), DEADLINE_S, DEADLINE_S)
    assert "hosted/credentials-in-url" in ids(result)
    evidence = " ".join(diagnosis.evidence for diagnosis in result.diagnoses)
    assert "the query of the URL has Token." in evidence
    assert "hunter2" not in evidence


def test_a_server_that_requires_a_login_for_its_tools_only(site: Site) -> None:
    refusal = 401, {"WWW-Authenticate": f'Bearer resource_metadata="{site.base}{RESOURCE}/mcp"'}, b""
    serve = site._mcp
    site._mcp = lambda message: refusal if message["method"] == "tools/list" else serve(message)  # type: ignore[method-assign]

    def documents_only(site: Site) -> None:
        site.require_login()
        del site.answers["POST /mcp"]

    for client in HOSTED_CLIENTS:
        result = examined(site, client, documents_only)
        assert (ids(result), result.tools) == ([], None), client.id
    refusal = 403, {}, b""
    assert ids(examined(site, "claude", documents_only)) == ["hosted/no-challenge"]


def test_a_list_that_fails_is_not_an_empty_list(site: Site) -> None:
    serve = site._mcp
    error = document({"jsonrpc": "2.0", "id": 2, "error": {"code": -32603, "message": "broken"}})
    site._mcp = lambda message: error if message["method"] == "tools/list" else serve(message)  # type: ignore[method-assign]
    result = examined(site, "chatgpt")
    assert (ids(result), result.tools) == (["start/refused"], None)
    assert "tools/list: status 200, application/json: broken" in result.diagnoses[0].evidence


def test_what_could_not_be_checked_has_its_reason(site: Site) -> None:
    def reasons(login: bool, change: Change | None = None) -> dict[str, str]:
        checklist = examined(site, "chatgpt", change, login=login).checklist
        assert checklist is not None
        return {requirement.kind: reason for requirement, reason in checklist.unchecked}

    assert {*reasons(False).values()} == {"the server requires no login"}
    assert {*reasons(True).values()} == {"the server requires a login"}
    assert reasons(True, drops(f"GET {SERVER}"))["pkce"] == "a document is missing"
    assert reasons(False, opens_a_stream)["required-tools"] == "doctor lists no tools over HTTP+SSE"
    assert {*reasons(False, answers("POST /mcp", 500)).values()} == {"the server did not get that far"}


def test_a_url_that_is_none() -> None:
    for url in ("http://[::1/mcp", "http://a b/", "https://x:y/", "http://\x00/"):
        for client in HOSTED_CLIENTS:
            assert examine_hosted("x", url, client, DEADLINE_S, DEADLINE_S).fails, url


def test_a_url_without_https(site: Site) -> None:
    with site_on_loopback(None) as plain:
        for client in HOSTED_CLIENTS:
            wants = any(row.kind == "https" for row in client.requirements)
            assert ids(examined(plain, client)) == (["hosted/not-https"] if wants else []), client.id


# ---- other origins


def test_a_redirect_to_another_origin_is_named_and_not_followed(site: Site, certificate: Path) -> None:
    with site_on_loopback(certificate) as other:
        away = answers("POST /mcp", 307, {"Location": f"{other.url}?token=secret"})
        for client, verdict in (("claude", "hosted/redirected"), ("chatgpt", "http/redirected")):
            result = examined(site, client, away)
            assert ids(result) == [verdict]
            assert f"307 to {other.url}, which" in result.diagnoses[0].evidence
            assert "secret" not in result.diagnoses[0].evidence
        assert ids(examined(site, "claude", answers("POST /mcp", 301, {"Location": "/other"}))) == ["http/redirected"]
        moved = answers(f"GET {RESOURCE}/mcp", 302, {"Location": f"{other.base}{RESOURCE}"})
        result = examined(site, "claude", both(moved, lambda site: site.challenge(401, "Bearer")), login=True)
        assert ids(result) == ["hosted/no-pointer", "hosted/no-metadata-by-path"]
        assert "which was not followed" in result.diagnoses[1].evidence
        assert other.requests == []


def test_a_redirect_within_the_origin_is_followed(site: Site) -> None:
    site.answers["POST /hop"] = 307, {"Location": "/mcp"}, b""
    result = examine_hosted("x", f"{site.base}/hop", hosted_named("perplexity"), DEADLINE_S, DEADLINE_S)
    assert (ids(result), result.tools, result.fails) == (["http/redirect-followed"], 2, False)


def test_an_authorization_server_on_another_host_is_asked_unless_a_hosted_client_could_not(
    site: Site, certificate: Path
) -> None:
    with site_on_loopback(certificate) as other, site_on_loopback(None) as plain:
        other.answers[f"GET {SERVER}/tenant"] = document(site.metadata)
        change = resource(authorization_servers=[f"{other.base}/tenant", plain.base])
        assert ids(examined(site, "claude", change, login=True)) == []
        assert other.requests == [f"GET {SERVER}/tenant"]
        result = examined(site, "claude", resource(authorization_servers=[plain.base]), login=True)
        assert ids(result) == ["hosted/no-server-metadata"]
        assert "not requested: the URL does not begin with https://" in result.diagnoses[0].evidence
        assert plain.requests == []


# ---- hostile servers


@contextmanager
def raw_server(say: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """A server that reads a request and then says what it likes, until the test ends."""
    over = threading.Event()
    threads = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threads.append(threading.Thread(target=serve, args=(connection,)))
                threads[-1].start()

        def serve(connection: socket.socket) -> None:
            with connection:
                connection.settimeout(DEADLINE_S)
                try:
                    connection.recv(65536)
                    say(connection, over)
                except OSError:
                    pass

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for thread in threads:
                thread.join()


def until_over(connection: socket.socket, over: threading.Event, head: bytes, piece: bytes, wait_s: float) -> None:
    connection.sendall(head)
    while not over.wait(wait_s):
        connection.sendall(piece)


@pytest.mark.costly("nine servers send as much as they can until they are given up")
def test_a_hostile_server_costs_bounded_time_and_memory() -> None:
    ok = b"HTTP/1.1 200 OK\r\n"
    kinds: dict[str, tuple[bytes, bytes, float]] = {
        "endless header fields": (ok, b"X: " + b"y" * 60_000 + b"\r\n", 0),
        "endless interim responses": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 0.001),
        "an endless first line": (b"HTTP/1.1 200 ", b"y" * 65536, 0),
        "a body of 1 GiB": (ok + b"Content-Length: 1073741824\r\n\r\n", b" " * 65536, 0),
        "an endless stream": (ok + b"Content-Type: text/event-stream\r\n\r\n", b'data: {"id": 9}\n\n' * 4000, 0),
        "an endless line of a stream": (ok + b"Content-Type: text/event-stream\r\n\r\ndata: ", b"[" * 65536, 0),
        "a trickle of a head": (b"HTTP", b"/", 0.05),
        "a trickle of a body": (ok + b"Content-Length: 999\r\n\r\n", b" ", 0.05),
        "silence": (b"", b"", DEADLINE_S),
    }
    for name, (head, piece, wait_s) in kinds.items():
        with raw_server(lambda connection, over: until_over(connection, over, head, piece, wait_s)) as url:  # noqa: B023
            tracemalloc.start()
            began = time.monotonic()
            result = examine_hosted("x", url, hosted_named("gemini-api"), 0.5, 1.0)
            took_s, (_, peak) = time.monotonic() - began, tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert result.fails, name
        assert ids(result)[0] in ("http/no-answer", "http/not-mcp"), (name, result.diagnoses)
        assert took_s < 10, name
        assert peak < 8 * MAX_BODY, name


def test_a_list_of_tools_without_end_is_given_up(site: Site) -> None:
    padding = ""

    def answer(message: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        if message.get("method") != "tools/list":
            return Site._mcp(site, message)
        result = {"tools": [tool("a", description=padding)], "nextCursor": "more"}
        return document({"jsonrpc": "2.0", "id": message["id"], "result": result})

    site._mcp = answer  # type: ignore[method-assign]
    assert examined(site, "perplexity").tools == MAX_PAGES
    padding = "x" * (MAX_BODY // 2)
    result = examined(site, "perplexity")
    assert (ids(result), result.tools) == ([], 2)


def test_text_of_a_server_is_bounded_and_cannot_act_on_a_terminal(home: Path, site: Site, certificate: Path) -> None:
    site.tools = [tool("\x1b]0;x\x07" + "n" * 5000), *(tool(f"\x1b[31m{n}") for n in range(500))]
    done = mcpproxy("doctor", site.url, "--as", "claude", HOME=str(home), **trusting(certificate))
    assert (done.returncode, b"\x1b" in done.stdout, b"and 496 more" in done.stdout) == (1, False, True)
    assert b"read 20" in done.stdout, "the source is shown however long the evidence is"
    assert len(done.stdout) < 6000


# ---- the command


def test_the_command_examines_for_one_client_or_all(home: Path, site: Site, certificate: Path) -> None:
    variables = trusting(certificate)
    (row,) = doctor(home, site.url, "--as", "claude", code=0, **variables)
    assert (row["client"], row["works"], row["tools"], row["verdicts"]) == ("claude", True, 2, [])
    assert row["checklist"]["as_of"] == hosted_named("claude").as_of
    assert {"requirement", "text", "source", "read"} == {*row["checklist"]["checked"][0]}
    assert {"requirement": "resource", "reason": "the server requires no login"} in row["checklist"]["not_checked"]
    site.tools.append(tool("a.b"))
    rows = {each["client"]: each for each in doctor(home, "--as", "all", site.url, **variables)}
    assert [*rows] == [client.id for client in HOSTED_CLIENTS]
    assert [name for name, each in rows.items() if not each["works"]] == ["claude"]
    assert [*verdicts([rows["claude"]])] == ["hosted/tool-name"]
    text = " ".join(mcpproxy("doctor", site.url, "--as", "all", HOME=str(home), **variables).stdout.decode().split())
    assert text.count("Not visible from here:") == 1
    assert "examined for 8 hosted clients, not working for 1" in text
    assert "checked for Microsoft Copilot Studio, as of 20" in text
    assert "✗ hosted/tool-name: The client does not accept the name of a tool tools/list: a.b. Claude " in text


def test_wrong_usage_of_as(home: Path) -> None:
    for words, hint in (
        (["--as", "claude"], "--as takes the URL of a server"),
        (["--as", "claude", "cursor"], "--as takes the URL of a server"),
        (["--as", "clade", "http://127.0.0.1/"], "did you mean claude?"),
        (["--as", "claude", "ftp://x/", "--json"], "begin with http:// or https://"),
    ):
        done = mcpproxy("doctor", *words, HOME=str(home))
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1), words
        assert hint in done.stderr.decode(), words


def test_every_verdict_for_hosted_clients_has_a_case() -> None:
    tested = {verdict for _, _, verdict, _ in (*WITHOUT_LOGIN, *WITH_LOGIN)}
    tested |= {
        "hosted/credentials-in-url",
        "hosted/no-metadata-by-path",
        "hosted/slow-discovery",
        "hosted/not-https",
        "hosted/redirected",
    }
    assert tested == {verdict.id for verdict in HOSTED_VERDICTS}
