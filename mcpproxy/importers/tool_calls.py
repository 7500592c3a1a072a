"""Composes the messages of tool calls from logs that have only the name of the tool and how the call ended.

Such logs have no ids, so the calls are numbered here. The end of a call is assumed to be that of the tool's oldest open
call.
"""

import re
from collections import deque
from typing import Final

from mcpproxy.importers.log_items import LeftOut, LoggedFrame
from mcpproxy.importers.partial_messages import error, request, result

MAX_OPEN_CALLS: Final = 10_000
"""Open calls. The ends of any further ones are left out."""
_MCP_ERROR: Final = re.compile(r"(?:\w*Error: )?MCP error (?P<code>-?\d{1,9}): (?P<text>.*)", re.DOTALL).fullmatch
_CLIENT_ERRORS: Final = ("Connection closed", "Request timed out")
"""The beginnings of errors that a client reports for calls without a response."""


class ToolCalls:
    """The open calls of one log."""

    def __init__(self) -> None:
        self._open_calls: dict[tuple[str, str], dict[str, deque[str]]] = {}
        self._count = self._open_count = 0

    def begin(self, server: str, tool: str, stamp_ns: int | None, session: str = "") -> LoggedFrame:
        """Begin a call; returns its request."""
        self._count += 1
        request_id = f"call {self._count}"
        if self._open_count < MAX_OPEN_CALLS:
            self._open_count += 1
            self._open_calls.setdefault((server, session), {}).setdefault(tool, deque()).append(request_id)
        raw = request(request_id, "tools/call", {"name": tool})
        return LoggedFrame(server, "c2s", raw, stamp_ns, is_whole=False, session=session)

    def succeed(
        self, server: str, tool: str, stamp_ns: int | None, place: str, session: str = ""
    ) -> LoggedFrame | LeftOut:
        """End a call that succeeded; returns its response."""
        request_id = self._end_call(server, tool, session)
        if request_id is None:
            return _unknown_call(server, place)
        return LoggedFrame(server, "s2c", result(request_id), stamp_ns, is_whole=False, session=session)

    def fail(
        self, server: str, tool: str, text: str, stamp_ns: int | None, place: str, session: str = "", *, is_result: bool
    ) -> LoggedFrame | LeftOut | None:
        """End a call that failed; returns its response, or None if there was none.

        Args:
            server: the name of the server.
            tool: the name of the tool.
            text: the error in the log.
            stamp_ns: the time of the failure.
            place: the position of the error in the log.
            session: as in `LoggedFrame`.
            is_result: whether `text`, unless it is a protocol error, is the text of a result.
        """
        request_id = self._end_call(server, tool, session)
        if request_id is None:
            return _unknown_call(server, place)
        match = _MCP_ERROR(text)
        if match and match["text"].startswith(_CLIENT_ERRORS):
            return None
        if match:
            raw = error(request_id, int(match["code"]), match["text"])
        elif is_result:
            raw = result(request_id, {"content": [{"type": "text", "text": text}], "isError": True})
        else:
            return None
        return LoggedFrame(server, "s2c", raw, stamp_ns, is_whole=False, session=session)

    def forget_calls(self, server: str, session: str = "") -> None:
        """End the calls of a server that is started again."""
        calls_by_tool = self._open_calls.pop((server, session), {})
        self._open_count -= sum(map(len, calls_by_tool.values()))

    def _end_call(self, server: str, tool: str, session: str) -> str | None:
        calls_by_tool = self._open_calls.get((server, session), {})
        request_ids = calls_by_tool.get(tool)
        if not request_ids:
            return None
        self._open_count -= 1
        request_id = request_ids.popleft()
        if not request_ids:
            del calls_by_tool[tool]
        return request_id


def _unknown_call(server: str, place: str) -> LeftOut:
    return LeftOut(place, "the end of a call whose start is not in this log", server)
