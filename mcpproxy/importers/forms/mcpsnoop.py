"""mcpsnoop sessions.

[mcpsnoop](https://github.com/kerlenton/mcpsnoop) writes a file for each session, with one frame per line:

    {"session_id":"notes-4711-7f3a","server_label":"notes","seq":1,"ts":"2026-03-01T10:12:05.377Z","direction":"c2s","transport":"stdio","raw":{"jsonrpc":"2.0","id":1,"method":"ping"}}

and exports it as JSON (`mcpsnoop export -T json`), or as HAR with URLs that begin with `mcp:` (`-T har`). All three can be imported.

**Where to find it.** `mcpsnoop -- SERVER` and `mcpsnoop http` write to `sessions` in the folder `$MCPSNOOP_HOME`, or else
`$XDG_STATE_HOME/mcpsnoop`, or else `~/.local/state/mcpsnoop`, on macOS, Windows and Linux. Exports are in `exports`
next to it, or where `-o` says.

**What the capture contains.** From sessions, and from exports as JSON: the original messages, but with compacted white space;
lines that are not JSON; the server's stderr; times to the nanosecond. Each session in a file becomes a capture. If
mcpsnoop truncated a frame, it is partial. From HAR: a request for each call, and its response.

**What is missing.** Frames that mcpsnoop itself dropped, which stderr counts; white space; over HTTP, the exchanges. mcpsnoop may have
replaced secrets with `[REDACTED]`. In exports as JSON, numbers may be written differently; exports may be up to 32 MiB long. HAR files
also have no notifications, no stderr and no ids, so `import` numbers the requests. They do not say who sent a request, either, so its
method decides.

Sources: [frame.go](https://github.com/kerlenton/mcpsnoop/blob/main/internal/proxy/frame.go) and
[har.go](https://github.com/kerlenton/mcpsnoop/blob/main/internal/exporter/har.go) of version 0.18.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from orjson import JSONDecodeError, loads

from mcpproxy.importers.form import Form
from mcpproxy.importers.har_start import har_scheme
from mcpproxy.importers.json_text import member_text
from mcpproxy.importers.log_items import Item, LeftOut, LoggedFrame, LoggedStderr, Remark, ServerStart, sorted_by_time
from mcpproxy.importers.source import InvalidLine, Log, first_object, json_of, object_of, whole_json
from mcpproxy.importers.times import stamp_of_date
from mcpproxy.wording.counts import count_text

MAX_SESSIONS: Final = 10_000
"""Sessions whose last frame number is kept, to notice frames that mcpsnoop dropped."""
MILLISECOND_NS: Final = 1_000_000
_MEMBERS: Final = frozenset({"session_id", "server_label", "seq", "ts", "direction"})
_EXPORT: Final = re.compile(rb'\s*\{\s*"generated_at"\s*:\s*"[^"]*"\s*,\s*"session"\s*:\s*\{').match
_TOOL_CALL: Final = "tools/call"


def sniff(head: bytes, _file_name: str) -> bool:
    """Returns whether the log begins with a frame of a session, or like an export."""
    return first_object(head).keys() >= _MEMBERS or bool(_EXPORT(head)) or har_scheme(head) == "mcp"


def read(log: Log) -> Iterator[Item]:
    """Read a log.

    Raises:
        InvalidLine: an export is too long, or mcpsnoop did not write it.
    """
    if har_scheme(log.head) is not None:
        yield from _har_items(whole_json(log, "export a shorter session"), log.name)
    elif _EXPORT(log.head):
        yield from _export_items(whole_json(log, "import the file of the session instead"), log.name)
    else:
        yield from _session_lines(log)


# ---- files of sessions


def _session_lines(log: Log) -> Iterator[Item]:
    gaps = _GapCounter()
    for number, line in log.lines():
        place = f"line {number}"
        try:
            values = object_of(line)
        except InvalidLine as error:
            yield LeftOut(place, str(error))
            continue
        name, session = _text(values.get("server_label")) or log.name, _text(values.get("session_id"))
        gaps.observe(session, values.get("seq"))
        # The original text of a message keeps the digits of its numbers; the parsed value may not.
        yield _frame(values, member_text(line, b"raw"), name, session, values.get("ts"), place)
    yield from gaps.remarks()


def _frame(values: dict[str, Any], raw: bytes | None, name: str, session: str, date: object, place: str) -> Item:
    """Returns the item that a frame of mcpsnoop represents; `raw` is its text if it is an object or an array."""
    stamp_ns, side = stamp_of_date(date), values.get("direction")
    if side == "meta":
        return ServerStart(name, stamp_ns, session)
    if raw is None:
        value = values.get("raw")
        text = _text(values.get("text"))
        raw = text.encode("utf-8", "replace") if value is None else json_of(value)
    if side == "stderr":
        return LoggedStderr(name, raw, stamp_ns, session)
    if side not in ("c2s", "s2c"):
        return LeftOut(place, "expected `c2s`, `s2c`, `stderr` or `meta` in `direction`", name)
    is_whole = values.get("truncated") is not True
    return LoggedFrame(name, side, raw, stamp_ns, stamp_ns is not None, is_whole, session)


class _GapCounter:
    """Counts the frames that mcpsnoop dropped. It numbers the frames of a session from 1."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._missing = 0

    def observe(self, session: str, number: object) -> None:
        """Count the frames that are missing before the next one, by its number."""
        if type(number) is not int or (session not in self._last and len(self._last) == MAX_SESSIONS):
            return
        self._missing += max(0, number - self._last.get(session, number - 1) - 1)
        self._last[session] = number

    def remarks(self) -> Iterator[Remark]:
        """Yields a sentence about the missing frames, if there are any."""
        if self._missing:
            yield Remark(
                f"{count_text(self._missing, 'frame')} missing: mcpsnoop dropped what it could not write in time"
            )


# ---- exports


def _export_items(export: Any, name: str) -> Iterator[Item]:
    session = export.get("session") if isinstance(export, dict) else None
    events = export.get("events") if isinstance(export, dict) else None
    if not isinstance(session, dict) or not isinstance(events, list):
        raise InvalidLine("expected an object in `session` and a list in `events`")
    name, session_id = _text(session.get("label")) or name, _text(session.get("id"))
    for number, event in enumerate(events):
        try:
            if not isinstance(event, dict):
                raise InvalidLine("expected an object")
            yield _frame(event, None, name, session_id, event.get("timestamp"), f"event {number}")
        except InvalidLine as error:
            yield LeftOut(f"event {number}", str(error), name)
    missing_count = session.get("missing_frames")
    if type(missing_count) is int and missing_count > 0:
        yield Remark(f"{count_text(missing_count, 'frame')} missing: mcpsnoop dropped what it could not write in time")


def _har_items(har: Any, name: str) -> Iterator[Item]:
    root = har.get("log") if isinstance(har, dict) else None
    entries = root.get("entries") if isinstance(root, dict) else None
    if not isinstance(entries, list):
        raise InvalidLine("expected a list in `log.entries`")
    frames: list[LoggedFrame] = []
    for number, entry in enumerate(entries, 1):
        try:
            frames += _entry_frames(entry, number, name)
        except (AttributeError, JSONDecodeError, InvalidLine) as error:
            reason = str(error) if isinstance(error, InvalidLine) else "expected an entry as mcpsnoop writes it"
            yield LeftOut(f"entry {number - 1}", reason, name)
    yield from sorted_by_time(frames)
    if isinstance(root, dict) and _text(root.get("comment")).startswith("mcpsnoop: capture incomplete"):
        yield Remark("the file says that mcpsnoop dropped frames")


def _entry_frames(entry: Any, number: int, name: str) -> list[LoggedFrame]:
    """Returns the request of an entry, and its response if there is one."""
    request, response = entry.get("request") or {}, entry.get("response") or {}
    scheme, _, address = _text(request.get("url")).partition("://")
    label, _, method = address.partition("/")
    if scheme != "mcp" or not method:
        raise InvalidLine("expected `mcp://SERVER/METHOD` in `request.url`")
    method = _TOOL_CALL if method.startswith(f"{_TOOL_CALL}/") else method
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method}
    params = _body((request.get("postData") or {}).get("text"))
    if params is not None:
        message["params"] = params
    request_ns = stamp_of_date(entry.get("startedDateTime"))
    frames = [LoggedFrame(label or name, None, json_of(message), request_ns)]
    content, status = _body((response.get("content") or {}).get("text")), response.get("status")
    if status:
        is_error = (
            status != 200 and isinstance(content, dict) and type(content.get("code")) is int and "message" in content
        )
        response_message = {"jsonrpc": "2.0", "id": number, "error" if is_error else "result": content}
        duration_ms = entry.get("time")
        has_times = request_ns is not None and isinstance(duration_ms, int | float) and 0 <= duration_ms < 1e12
        response_ns = request_ns + round(duration_ms * MILLISECOND_NS) if has_times else None
        frames.append(LoggedFrame(label or name, None, json_of(response_message), response_ns))
    return frames


def _body(text: object) -> Any:
    return loads(text) if isinstance(text, str) and text else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


FORM = Form(
    title="an mcpsnoop session",
    sniff=sniff,
    read=read,
    limitation="mcpsnoop compacts the white space of messages, and does not record HTTP",
)
