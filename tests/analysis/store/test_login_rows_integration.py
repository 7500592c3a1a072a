"""The rows of logins, and what those of HTTP exchanges say about their legs."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.store import login_rows, table_rows
from tests.analysis.store.capture_writer import CaptureWriter
from tests.analysis.store.test_load_integration import loaded, row, rows

HOST = "https://mcp.example"
PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}'


class LoginWriter(CaptureWriter):
    """Writes a capture with legs of logins, one exchange every 10 ms."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "own", transport="http", public=f"{HOST}/mcp")
        self.exchanges = 0

    def exchange(
        self, target: str, status: int, program: str = "client/1", token: str = "", body: str = "", **more: Any
    ) -> int:
        """Write an exchange; returns its number."""
        self.exchanges += 1
        place = {"conn": 1, "exchange": self.exchanges}
        headers = [["User-Agent", program], *([["Authorization", f"Bearer {token}"]] if token else [])]
        head = {"method": "POST", "target": target, "headers": headers}
        at = 10.0 * self.exchanges
        self.record(at, "exchange", stage="request", peer="198.51.100.7:1", request=head, **place)
        if body:
            frame = {"dir": "c2s", "unit": "http_body", "kind": "request", "size": len(body), "raw": body}
            self.record(at, "frame", **place, **frame)
        answer = {"status": status, "headers": []}
        self.record(at + 5, "exchange", stage="end", response=answer, ended_by="complete", **place, **more)
        return self.exchanges

    def leg(self, kind: str, status: int, program: str = "client/1", token: str = "", **facts: Any) -> int:
        """Write a leg; returns the number of its exchange."""
        more = {"metadata": "{}"} if kind.endswith("metadata") and status == 200 else {}
        return self.exchange(f"/{kind}", status, program, token, oauth={"leg": kind, **facts}, **more)


@pytest.fixture
def talk(tmp_path: Path) -> LoginWriter:
    return LoginWriter(tmp_path / "a.mcpcap")


def test_a_login(talk: LoginWriter) -> None:
    talk.leg("challenge", 401)
    talk.leg("resource-metadata", 404)
    talk.leg("resource-metadata", 200, resource=f"{HOST}/mcp", as_server=HOST)
    talk.leg("server-metadata", 200, iss=HOST)
    talk.leg("registration", 201, client_id="hmac:1", redirect_uri="http://localhost:1")
    talk.leg("authorize", 302, "Mozilla/5.0", client_id="hmac:1", resource=f"{HOST}/mcp", scope="a b", has_code=True)
    talk.leg("token", 200, client_id="hmac:1", grant_type="authorization_code", scope="a", expires_in=60)
    talk.exchange("/mcp", 200, token="new", body=PING)
    with loaded(talk.close()) as connection:
        assert row(connection, "select * exclude (capture, time) from logins") == {
            "login": 1,
            "outcome": "granted",
            "is_over": True,
            "is_renewal": False,
            "is_unbroken": True,
            "peer": "198.51.100.7",
            "user_agent": "client/1",
            "started_ns": 10_000_000,
            "ended_ns": 75_000_000,
            "leg_count": 7,
            "guessed_legs": 0,
            "legs": [1, 2, 3, 4, 5, 6, 7],
            "kinds": "challenge, resource-metadata, server-metadata, registration, authorize, token",
            "failed_leg": None,
            "failed_exchange": None,
            "failed_frame": None,
            "failed_status": None,
            "error": None,
            "error_description": None,
            "grant_type": "authorization_code",
            "scope": "a",
            "resource": f"{HOST}/mcp",
            "client_id": "hmac:1",
            "redirect_uri": "http://localhost:1",
            "issuer": HOST,
            "server_elsewhere": None,
            "accepted_exchange": 8,
        }
        told = rows(connection, "select exchange, leg, login, oauth from http_exchanges order by 1")
        assert [line[:3] for line in told] == [
            (1, "challenge", 1),
            (2, "resource-metadata", 1),
            (3, "resource-metadata", 1),
            (4, "server-metadata", 1),
            (5, "registration", 1),
            (6, "authorize", 1),
            (7, "token", 1),
            (8, None, None),
        ]
        facts = {"grant_type": "authorization_code", "scope": "a", "client_id": "hmac:1", "expires_in": 60}
        assert json.loads(told[6][3]) == facts
        assert json.loads(told[5][3])["has_code"] is True
        assert (told[0][3], told[7][3]) == (None, None)


def test_logins_that_fail(talk: LoginWriter) -> None:
    talk.leg("token", 400, "a", grant_type="refresh_token", error="invalid_grant", error_description="gone\x1b[0m")
    talk.leg("challenge", 401, "b")
    talk.leg("token", 200, "b", client_id="hmac:2")
    talk.leg("challenge", 401, "b", "new", error="invalid_token")
    talk.leg("resource-metadata", 200, "c", as_server="https://login.example/t")
    columns = (
        "outcome, failed_leg, failed_exchange, failed_frame, failed_status, error, error_description, server_elsewhere"
    )
    with loaded(talk.close()) as connection:
        assert rows(connection, f"select {columns} from logins order by login") == [
            ("failed", "token", 1, 2, 400, "invalid_grant", "gone\x1b[0m", None),
            ("rejected", "challenge", 4, 8, 401, "invalid_token", None, None),
            ("unfinished", None, None, None, None, None, None, "https://login.example/t"),
        ]


def test_a_login_that_is_under_way_while_the_capture_grows(talk: LoginWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    talk.leg("challenge", 401)
    path = talk.close()
    monkeypatch.setattr("analysis.store.load.is_live", lambda _: True)
    with loaded(path) as connection:
        assert rows(connection, "select outcome, is_over from logins") == [("unfinished", False)]


def test_a_row_for_each_login_although_only_some_are_held(talk: LoginWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_rows, "MAX_HELD_LOGINS", 2)
    monkeypatch.setattr(table_rows, "MAX_HELD_HTTP_EXCHANGES", 2)
    for number in range(5):
        talk.leg("challenge", 401, f"client {number}")
    talk.leg("server-metadata", 200, "client 4")
    talk.leg("server-metadata", 200, "client 0")
    with loaded(talk.close()) as connection:
        counts = rows(connection, "select login, leg_count from logins order by login")
        assert counts == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2)]
        assert rows(connection, "select login from http_exchanges order by exchange") == [
            (number,) for number in (1, 2, 3, 4, 5, 5, 1)
        ]


def test_what_passes_a_tunnel_is_counted(talk: LoginWriter) -> None:
    talk.exchange("/ws", 101, tunnelled={"c2s": 7, "s2c": 900})
    talk.exchange("/ws", 101, tunnelled={"c2s": 2**63, "s2c": "x"})
    talk.exchange("/mcp", 200)
    columns = "tunnelled_c2s_bytes, tunnelled_s2c_bytes"
    with loaded(talk.close()) as connection:
        assert rows(connection, f"select {columns} from http_exchanges order by exchange") == [
            (7, 900),
            (None, None),
            (None, None),
        ]


@pytest.mark.parametrize("text", ["\ud800", "\x00", "x" * 100_000, "'); drop table logins; --", "\u202e"])
def test_no_text_makes_a_load_fail(talk: LoginWriter, text: str) -> None:
    names = ("error", "error_description", "scope", "resource", "iss", "as_server", "client_id", "redirect_uri")
    talk.leg("token", 2**40, "client\ud800", grant_type=text, expires_in=2**70, **dict.fromkeys(names, text))
    talk.exchange("/token", 400, oauth={"error": text})
    with loaded(talk.close()) as connection:
        assert row(connection, "select outcome, failed_status, length(scope) as n from logins") == {
            "outcome": "failed",
            "failed_status": None,
            "n": min(len(text), 2048),
        }
        assert rows(connection, "select count(oauth ->> '$.error') from http_exchanges") == [(2,)]
