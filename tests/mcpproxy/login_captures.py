"""Captures of logins at a server's own address, leg by leg."""

from json import dumps
from pathlib import Path
from typing import Any, Final

from captures.envelope import judge
from captures.record import frame_members
from tests.analysis.store.capture_writer import OPENED, CaptureWriter

CLIENT: Final = "203.0.113.7:4711"
PROGRAM: Final = "connector/1.0"
PUBLIC: Final = "https://mcp.example.org/mcp"
METADATA: Final = "/.well-known/oauth-protected-resource/mcp"
SERVER_METADATA: Final = "/.well-known/oauth-authorization-server"


class LoginCapture(CaptureWriter):
    """A capture of `serve --public`; each leg and each message takes 10 ms and begins 20 ms after the previous one."""

    def __init__(self, path: Path, number: int = 0, wall_ns: int = OPENED) -> None:
        super().__init__(
            path,
            "mcp.example.org",
            number,
            wall_ns,
            transport="http",
            upstream="http://127.0.0.1:8000/mcp",
            public=PUBLIC,
        )
        self.now_ms = 0.0
        self.exchange = 0
        self.client = CLIENT
        self.program = PROGRAM
        self.client_id = "hmac:1"
        self.flags: list[str] = []
        """What the recorder finds fault with in the next exchanges."""
        self.document = ""
        """The metadata in the responses of the next exchanges."""

    def leg(self, kind: str | None, method: str, target: str, status: int | None = 200, **facts: Any) -> int:
        """Write a whole exchange that is a leg, or nothing of a login if `kind` is None; returns its number."""
        number, head = self._begin(method, target)
        self._end(number, head, status, kind, facts)
        return number

    def begin(self, method: str, target: str) -> None:
        """Write an exchange that does not end."""
        self._begin(method, target)

    def message(self, status: int = 200, token: str = "", **facts: Any) -> None:
        """Write a POST with a ping and its answer; one that is refused is a challenge with these facts."""
        number, head = self._begin("POST", "/mcp", *([["authorization", f"Bearer {token}"]] if token else []))
        self._frame(number, "c2s", {"id": number, "method": "ping"})
        if status == 200:
            self._frame(number, "s2c", {"id": number, "result": {}})
        self._end(number, head, status, "challenge" if status in (401, 403) else None, facts)

    def discovery(self) -> None:
        """Write a challenge, and the two documents that lead to the endpoints."""
        self.message(401)
        self.leg("resource-metadata", "GET", METADATA, resource=PUBLIC, as_server="https://mcp.example.org")
        self.leg("server-metadata", "GET", SERVER_METADATA, iss="https://mcp.example.org")

    def authorization(self, **answer: Any) -> None:
        """Write a registration, and an authorization that redirects to the client."""
        self.leg(
            "registration", "POST", "/register", 201, client_id=self.client_id, redirect_uri="https://client.example"
        )
        asked = {"client_id": self.client_id, "scope": "notes", "resource": PUBLIC, "code_challenge_method": "S256"}
        query = f"response_type=code&client_id={self.client_id}&state=hmac:2"
        self.leg("authorize", "GET", f"/authorize?{query}", 302, **asked, **answer)

    def token(self, status: int | None = 200, grant_type: str = "authorization_code", **facts: Any) -> None:
        """Write a request for a token."""
        self.leg("token", "POST", "/token", status, grant_type=grant_type, client_id=self.client_id, **facts)

    def login(self) -> None:
        """Write a login that succeeds, and its first message."""
        self.discovery()
        self.authorization()
        self.token()
        self.message(token="hmac:3")

    def _begin(self, method: str, target: str, *headers: list[str]) -> tuple[int, dict[str, Any]]:
        self.exchange += 1
        self.now_ms += 20
        head = {"method": method, "target": target, "headers": [["user-agent", self.program], *headers]}
        self._stage(self.now_ms, self.exchange, "request", request=head)
        return self.exchange, head

    def _end(
        self,
        number: int,
        head: dict[str, Any],
        status: int | None,
        kind: str | None,
        facts: dict[str, Any],
    ) -> None:
        media = [] if kind is None or status in (302, None) else [["content-type", "application/json"]]
        end: dict[str, Any] = {"request": head, "ended_by": "complete"}
        if status is None:
            end |= {"ended_by": "error", "error": "Connection reset by peer"}
        else:
            end["response"] = {"status": status, "headers": media}
        if kind is not None:
            end["oauth"] = {"leg": kind, **facts}
        if self.document:
            end["metadata"] = self.document
        if self.flags:
            end["flags"] = self.flags
        self._stage(self.now_ms + 10, number, "end", **end)

    def _stage(self, at_ms: float, number: int, stage: str, **more: Any) -> None:
        self.record(at_ms, "exchange", conn=number, exchange=number, stage=stage, peer=self.client, **more)

    def _frame(self, number: int, way: Any, message: dict[str, Any]) -> None:
        raw = dumps({"jsonrpc": "2.0", **message}).encode()
        self._add(
            self.now_ms,
            "frame",
            frame_members(way, raw, judge(raw, way), conn=number, exchange=number, unit="http_body"),
        )
