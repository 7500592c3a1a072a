"""Captures of logins at the server's own address, as `serve --public` records them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from captures.record import members, seal
from tests.captures.samples import frame, header
from tests.mcpproxy.tui.stage import CALL, FINE, INITIALIZE, INITIALIZED

CLIENT: Final = "python-httpx/0.27"
RESOURCE: Final = "/.well-known/oauth-protected-resource/mcp"
POSTED: Final = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": "2025-06-18",
}
CHALLENGE: Final = f'Bearer resource_metadata="https://notes.example{RESOURCE}", scope="notes:read"'
BEGUN: Final = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
STORED: Final = {"response": {"size": 80}}
SERVER: Final = "/.well-known/oauth-authorization-server"


class LoginTalk:
    """A capture of HTTP exchanges, each a few milliseconds long."""

    def __init__(self, name: str = "notes") -> None:
        self.name = name
        self.records: list[bytes] = []
        self._exchange = 0
        self._ms = 0.0
        self.say(*("header", header(transport="http", name=name)))

    def say(self, rec: str, raw: bytes) -> None:
        """Write a record."""
        self.records.append(seal(len(self.records), int(self._ms * 1e6), rec, raw))

    def pass_time(self, ms: float) -> None:
        """Let time pass."""
        self._ms += ms

    def exchange(
        self,
        method: str,
        target: str,
        status: int | None,
        *bodies: tuple[str, bytes],
        took_ms: float = 12.0,
        fields: Sequence[tuple[str, str]] = (),
        peer: str = "203.0.113.7:5000",
        program: str = CLIENT,
        **more: Any,
    ) -> int:
        """Write an exchange with the frames of its bodies; returns its number."""
        self._exchange += 1
        at = {"conn": 1, "exchange": self._exchange}
        heads = [["Host", "notes.example"], ["User-Agent", program], *map(list, fields)]
        heads += [[name, value] for name, value in POSTED.items() if target == "/mcp"]
        request = {"method": method, "target": target, "version": "HTTP/1.1", "headers": heads}
        answer: dict[str, Any] = {}
        if status is not None:
            kind = [["Content-Type", "application/json"]] * (status != 202)
            kind += [["WWW-Authenticate", CHALLENGE]] * (status == 401)
            answer = {"response": {"status": status, "reason": "X", "version": "HTTP/1.1", "headers": kind}}
        self.say("exchange", members(**at, stage="request", request=request, peer=peer))
        for way, body in bodies:
            if way == "c2s":
                self.say("frame", frame("c2s", body, unit="http_body", **at))
        self.pass_time(took_ms)
        if status is not None:
            self.say("exchange", members(**at, stage="response", request=request, **answer))
        for way, body in bodies:
            if way == "s2c":
                self.say("frame", frame("s2c", body, unit="http_body", **at))
        sizes = {"request_size": 100, "response_size": 80 * (status != 202)}
        ended_by = "complete" if status is not None else "client"
        self.say(
            "exchange",
            members(**at, stage="end", request=request, peer=peer, **answer, ended_by=ended_by, **sizes, **more),
        )
        self.pass_time(8)
        return self._exchange

    def leg(self, leg: str, method: str, target: str, status: int | None, **facts: Any) -> int:
        """Write a leg; facts other than those of `exchange` are members of `oauth`."""
        more = {name: facts.pop(name) for name in ("took_ms", "fields", "peer", "program") if name in facts}
        return self.exchange(method, target, status, oauth={"leg": leg, **facts}, body_hash=STORED, **more)

    def challenge(self, **more: Any) -> None:
        """Write a handshake that is answered with 401."""
        self.exchange(
            "POST", "/mcp", 401, ("c2s", INITIALIZE), oauth={"leg": "challenge", "scope": "notes:read"}, **more
        )

    def discovery(self, at_root: int = 200) -> None:
        """Write the requests for both documents."""
        issuer = "https://notes.example"
        self.leg("resource-metadata", "GET", RESOURCE, 200, resource=f"{issuer}/mcp", as_server=issuer)
        self.leg("server-metadata", "GET", f"{SERVER}/x", 404)
        self.leg("server-metadata", "GET", SERVER, at_root, iss=issuer)

    def registration(self) -> None:
        """Write the registration of a client."""
        self.leg(
            "registration",
            "POST",
            "/register",
            201,
            client_id="hmac:5ce1a0b4f3d29e07",
            redirect_uri="https://claude.ai",
        )

    def authorize(self, **facts: Any) -> None:
        """Write what the browser does."""
        asked = {"client_id": "hmac:5ce1a0b4f3d29e07", "response_type": "code", "code_challenge_method": "S256"}
        browser = {"peer": "198.51.100.20:4100", "program": "Mozilla/5.0"}
        self.pass_time(2400)
        self.leg("authorize", "GET", "/authorize?x=1", 302, scope="notes:read", **asked, **browser, **facts)

    def token(self, status: int = 200, **facts: Any) -> None:
        """Write the exchange of a code for a token."""
        asked = {"client_id": "hmac:5ce1a0b4f3d29e07", "grant_type": "authorization_code"}
        self.leg("token", "POST", "/token", status, **asked, **facts)

    def session(self, credential: str = "Bearer hmac:11", calls: int = 2) -> None:
        """Write a session with a credential."""
        credentials = [("Authorization", credential)]
        self.exchange("POST", "/mcp", 200, ("c2s", INITIALIZE), ("s2c", INITIALIZED), fields=credentials)
        self.exchange("POST", "/mcp", 202, ("c2s", BEGUN), fields=credentials)
        for n in range(1, calls + 1):
            self.exchange("POST", "/mcp", 200, ("c2s", CALL % (n, n)), ("s2c", FINE % (n, n)), fields=credentials)

    def end(self) -> None:
        """Write the end of the capture."""
        self.say("close", members(ending="signal", totals={}))

    def write(self, folder: Path) -> Path:
        """Write the capture; returns its path."""
        path = folder / self.name / "20261130T101502Z-4f2a.mcpcap"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(self.records))
        return path


def whole_login(talk: LoginTalk) -> None:
    """Write a login that succeeds, and the session after it."""
    talk.challenge()
    talk.discovery()
    talk.registration()
    talk.authorize()
    talk.token()
    talk.session()


def failed_login(talk: LoginTalk) -> None:
    """Write a login that fails at its token."""
    talk.challenge()
    talk.discovery()
    talk.authorize()
    talk.token(400, error="invalid_grant", error_description="the code was used before")


def two_logins(folder: Path) -> Path:
    """Write a capture of a login that succeeds, a session, and a login that fails."""
    talk = LoginTalk()
    whole_login(talk)
    talk.pass_time(60_000)
    failed_login(talk)
    talk.pass_time(500)
    talk.end()
    return talk.write(folder)
