"""mcphawk, a recorder with checks: its own recorder gets the messages, and its store is queried as its pages do."""

import contextlib
import importlib
import importlib.metadata
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from orjson import loads

from captures.frame import Frame
from mcpproxy.importers.case import Case
from mcpproxy.wire.http1 import RequestHead
from mcpproxy.wire.response import ResponseHead
from tests.bench.neighbours.shown import Found, Message, Row

ACCEPTED: Final = 202
"""The status of responses whose body its proxy does not keep."""


def hawk_rows(place: Path) -> list[Row]:
    """One row for the findings of its rules, and one for all problems that it would show, failed calls included."""
    store, query = importlib.import_module("mcphawk.store"), importlib.import_module("mcphawk.query")
    problems, sessions = (
        importlib.import_module(f"mcphawk.{it}") for it in ("analysis.problems", "capture.http_sessions")
    )
    recorder = store.Recorder(place / "hawk.db", mask=False)
    began = time.time() - 86_400
    asked = query.Query(place / "hawk.db")

    def record(case: Case, messages: list[Message]) -> tuple[set[str], dict[int, int]]:
        over_http = None if case.transport == "stdio" else _Http(case, sessions.HttpSessions(recorder, "proxy"))
        pipe = "" if over_http else recorder.open_session(capture="wrap", transport="stdio", name="x", ts=began)
        used, rows = set(), {}
        for index, frame in messages:
            session, headers = over_http.session(frame) if over_http else (pipe, None)
            if session is not None:
                used.add(session)
                if not frame.event:
                    now = began + frame.t_ns / 1e9
                    with contextlib.suppress(UnicodeError):  # mcphawk loses such a message
                        recorded = recorder.record(session, frame.dir, frame.raw, headers=headers, ts=now)
                        rows.update(dict.fromkeys(recorded, index))
        for session in used:
            recorder.end_session(session, ts=began + 3600)
        return used, rows

    def finder(*, everything: bool) -> Callable[[Case, list[Message]], Found]:
        def find(case: Case, messages: list[Message]) -> Found:
            used, rows = record(case, messages)
            found: Found = {}
            for session in used:
                pairs = [(it["exchange_id"], rows[it["id"]]) for it in asked.messages_for(session)]
                for one in problems.find_problems(asked, session_id=session, limit=10_000)["problems"]:
                    if everything or one["kind"].startswith("lint:"):
                        places = [
                            at for exchange, at in pairs if exchange is not None and exchange == one["exchange_id"]
                        ]
                        if one["message_id"] is not None:
                            places.append(rows[one["message_id"]])
                        found |= dict.fromkeys(places or [-1], one["title"])
            return found

        return find

    version = importlib.metadata.version("mcphawk")
    rules = Row("mcphawk, its rules", version, finder(everything=False))
    return [rules, Row("mcphawk, all its problems", version, finder(everything=True))]


class _Http:
    """Assigns a message over HTTP to a session of mcphawk, as its proxy does."""

    UPSTREAM: Final = "http://127.0.0.1:8000/mcp"

    def __init__(self, case: Case, sessions: Any) -> None:
        self._sessions = sessions
        self._requests = {step.exchange: step.head for step in case.steps if isinstance(step.head, RequestHead)}
        self._responses = {step.exchange: step.head for step in case.steps if isinstance(step.head, ResponseHead)}
        self._known: dict[int | None, str | None] = {}

    def session(self, frame: Frame) -> tuple[str | None, dict[str, str] | None]:
        request, response = self._requests.get(frame.exchange or 0), self._responses.get(frame.exchange or 0)
        headers = _headers(request)
        if frame.dir == "c2s":
            body = loads(frame.raw) if frame.verdict.kind not in {"invalid", "unjudged"} else []
            sent = [it for it in (body if isinstance(body, list) else [body]) if isinstance(it, dict)]
            query = request.target.partition(b"?")[2].decode("latin-1") if request else ""
            self._known[frame.exchange] = self._sessions.for_request(self.UPSTREAM, headers, sent, query=query)
            return self._known[frame.exchange], headers
        if response is not None and response.status == ACCEPTED:
            return None, None
        if frame.event == "endpoint":
            where = frame.raw.decode("latin-1")
            self._known[frame.exchange] = self._sessions.open_legacy_sse(self.UPSTREAM, where)
        elif frame.exchange not in self._known:
            self._known[frame.exchange] = self._sessions.for_sse_stream(self.UPSTREAM, headers)
        session = self._known[frame.exchange]
        if session is not None:
            given = _headers(response).get("mcp-session-id")
            self._sessions.bind_session_header(session, self.UPSTREAM, given)
        return session, None


def _headers(head: RequestHead | ResponseHead | None) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in (head.headers if head else ())}
