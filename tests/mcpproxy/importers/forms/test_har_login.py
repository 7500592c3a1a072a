"""A login in a HAR file is read as one that was recorded."""

from datetime import UTC, datetime, timedelta
from json import dumps
from typing import Any
from urllib.parse import urlencode

from analysis.conversation.login import Login
from analysis.reading import Reading
from captures.reader import assembled_items
from tests.mcpproxy.importers.forms.test_har import PING, PONG, har
from tests.mcpproxy.importers.logs import ImportedCapture, imported

HOST = "https://notes.example"
START = datetime(2026, 3, 1, 10, tzinfo=UTC)
FORM = "application/x-www-form-urlencoded"
BACK = "https://client.example/cb"


def fields(**named: str) -> list[dict[str, str]]:
    return [{"name": name.replace("_", "-"), "value": value} for name, value in named.items()]


def entries(*exchanges: tuple[str, str, str, int, dict[str, str], str, str]) -> list[dict[str, Any]]:
    """Entries, one a second: path, body of the request and its type, status, fields and body of the response, token."""
    made = []
    for number, (path, body, media_type, status, answer, document, token) in enumerate(exchanges):
        request: dict[str, Any] = {"method": "POST" if body else "GET", "url": HOST + path}
        request["headers"] = fields(user_agent="client/1", **({"authorization": f"Bearer {token}"} if token else {}))
        if body:
            request["postData"] = {"text": body, "mimeType": media_type}
            request["headers"] += fields(content_type=media_type)
        content = {"text": document, "mimeType": "application/json"}
        own = fields(content_type="application/json", **answer)
        time = (START + timedelta(seconds=number)).isoformat()
        response = {"status": status, "headers": own, "content": content}
        made.append({"startedDateTime": time, "time": 40, "request": request, "response": response})
    return made


def login_of(capture: ImportedCapture) -> Login:
    reading = Reading(assembled_items(capture.records))
    for _ in reading.to_end():
        pass
    (login,) = reading.fold.logins.all()
    return login


def test_a_login_is_read() -> None:
    names = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "registration_endpoint": "/register"}
    server = dumps({"issuer": HOST} | {name: HOST + path for name, path in names.items()})
    resource = dumps({"resource": f"{HOST}/mcp", "authorization_servers": [HOST]})
    query = urlencode({"response_type": "code", "client_id": "one", "state": "s", "scope": "read"})
    form = urlencode({"grant_type": "authorization_code", "code": "c", "client_id": "one"})
    (capture,) = imported(
        "har",
        har(
            *entries(
                ("/mcp", PING, "application/json", 401, {"www_authenticate": "Bearer"}, "", ""),
                ("/.well-known/oauth-protected-resource/mcp", "", "", 200, {}, resource, ""),
                ("/.well-known/oauth-authorization-server", "", "", 200, {}, server, ""),
                (
                    "/register",
                    dumps({"redirect_uris": [BACK]}),
                    "application/json",
                    201,
                    {},
                    dumps({"client_id": "one"}),
                    "",
                ),
                (f"/authorize?{query}", "", "", 302, {"location": f"{BACK}?code=c&state=s"}, "", ""),
                ("/token", form, FORM, 200, {}, dumps({"access_token": "issued", "token_type": "Bearer"}), ""),
                ("/mcp", PING, "application/json", 200, {}, PONG, "secret"),
            )
        ),
    ).captures
    login = login_of(capture)
    kinds = [leg.kind for leg in login.legs]
    assert kinds == ["challenge", "resource-metadata", "server-metadata", "registration", "authorize", "token"]
    assert (login.outcome, login.guessed_count, login.is_over) == ("granted", 0, True)
    assert login.accepted is not None
    assert login.legs[4].facts["scope"] == "read"
    assert not any(b"issued" in line for line in capture.lines)


def test_a_login_that_fails_is_read() -> None:
    form = urlencode({"grant_type": "refresh_token", "refresh_token": "secret", "client_id": "one"})
    (capture,) = imported(
        "har",
        har(
            *entries(
                ("/mcp", PING, "application/json", 401, {"www_authenticate": "Bearer"}, "", "old"),
                ("/token", form, FORM, 400, {}, dumps({"error": "invalid_grant"}), ""),
            )
        ),
    ).captures
    login = login_of(capture)
    assert (login.outcome, login.is_renewal, login.last.error) == ("failed", True, "invalid_grant")
