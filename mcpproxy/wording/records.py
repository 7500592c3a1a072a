"""One line for each record other than a frame: process start and end, stderr, signals, stalls, losses.

Members of a record come from an untrusted file, so each is checked before use, and all text is sanitised.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeGuard

from analysis.conversation.http_exchange import REDIRECT_STATUSES, values_of
from analysis.conversation.response_text import MAX_GIST_CHARS, gist
from analysis.protocol.challenges import NONCE_ERROR
from captures.gaps import lost_count, lost_range, lost_traffic
from captures.record import Record, raw_bytes
from mcpproxy.sanitise import sanitise, sanitise_bytes
from mcpproxy.wording import units
from mcpproxy.wording.bodies import json_lines
from mcpproxy.wording.counts import count_text, lost_text
from mcpproxy.wording.http_head import recorded_head
from mcpproxy.wording.logins import ASKED_FOR_NONCE
from mcpproxy.wording.spans import Role, Span
from mcpproxy.wording.values import excerpt

_shorten_hashes: Final = re.compile(r"hmac:([0-9a-f]{4})[0-9a-f]{12}").sub
_PEER_ENDINGS: Final = ("complete", "client", "server")
_COMMON_MEMBERS: Final = frozenset({"seq", "rec", "t_ns", "crc"})
"""The members that every record has."""
_MAX_COMPACT_CHARS: Final = 80
"""The maximum length of an object or array on one line, in characters."""
_SIDES: Final = {"c2s": ("client", "server"), "s2c": ("server", "client")}


class Remark(NamedTuple):
    """A line that is not a message."""

    glyph: str
    """`·` for information, `▲` if something is missing or wrong, `■` for the end."""
    text: str
    role: Role = "dim"
    is_end: bool = False
    """Whether it says how the session ended."""
    exchange: int | None = None
    """The HTTP exchange that it is about."""
    detail: str = ""
    """More detail, which gets a line of its own if it does not fit."""

    @property
    def full_text(self) -> str:
        """The text and the detail on one line."""
        return f"{self.text}  {self.detail}" if self.detail else self.text


def remark_on(item: object, *, ended: bool) -> Remark | None:
    """Returns a remark on a record or on damage, or None if there is nothing to report.

    Args:
        item: a Record, or damage, whose `str` describes it.
        ended: whether the end of the session has already been reported.
    """
    if not isinstance(item, Record):
        return Remark("▲", sanitise(str(item)), "bad")
    if item.rec == "close":
        return _close(item.members, ended=ended)
    if item.rec == "gap":
        return _gap(item)
    describe = _REMARKS.get(item.rec)
    remark = describe(item.members) if describe is not None else None
    number = item.members.get("exchange")
    return remark._replace(exchange=number) if remark is not None and type(number) is int else remark


def is_routine_stream(members: Mapping[str, Any], *, is_waiting: bool) -> bool:
    """Whether the record of a stream that answers a POST adds nothing to its messages, so that it needs no line.

    This is so for the beginning of a stream, and for its end after the response, regardless of which side ended it. It
    is not so for a stream that ends while a request waits, or that mcpproxy or a fault ended.

    Args:
        members: the members of the record.
        is_waiting: whether a request that the POST carried has no response so far.
    """
    if members.get("event") == "opened":
        return members.get("last_event_id") is None
    return members.get("ended_by") in _PEER_ENDINGS and not is_waiting


def members_of(record: Record) -> Iterator[tuple[str, list[list[Span]]]]:
    """The members of a record: the name of each, and the lines of its value.

    HTTP heads have several lines, and so have long objects and arrays, and the documents of a login. Nothing is cut.
    """
    for name, value in record.members.items():
        if name in _COMMON_MEMBERS:
            continue
        if name in ("request", "response") and isinstance(value, dict):
            yield name, list(recorded_head(value))
        else:
            lines = (
                json_lines(value.encode("utf-8", "backslashreplace"))
                if _is_document(name, value)
                else _value_lines(value)
            )
            yield sanitise(name, 60), [[Span(line)] for line in lines]


def _is_document(name: str, value: object) -> TypeGuard[str]:
    """Whether a member is the text of a document about a login, which is JSON if it has not been cut."""
    return name == "metadata" and isinstance(value, str) and value.lstrip().startswith("{")


def _value_lines(value: object) -> list[str]:
    """Returns a value as lines: a text by itself; JSON in one line if it is short, otherwise indented."""
    if isinstance(value, str):
        return [sanitise(value, None)]
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except RecursionError:
        return [excerpt(value)]
    if len(text) <= _MAX_COMPACT_CHARS or not isinstance(value, dict | list):
        return [sanitise(text, None)]
    return list(json_lines(text.encode("utf-8", "backslashreplace")))


def _process(members: Mapping[str, Any]) -> Remark | None:
    event = members.get("event")
    if event == "spawned":
        pid = members.get("pid")  # a cassette has none
        return Remark("·", "server started" if pid is None else f"server started, pid {_scalar_text(pid)}")
    if event == "failed":
        return Remark("■", f"the server could not be started: {_scalar_text(members.get('errno'))}", "bad", is_end=True)
    return _exit(members) if event == "ended" else None


def _exit(members: Mapping[str, Any]) -> Remark:
    if members.get("signal") is not None:
        return Remark("■", f"server killed by {_scalar_text(members['signal'])}", "bad", is_end=True)
    status = members.get("status")
    role: Role = "plain" if status == 0 else "bad"
    return Remark("■", f"server exited {_scalar_text(status)}", role, is_end=True)


def _close(members: Mapping[str, Any], *, ended: bool) -> Remark | None:
    ending = members.get("ending")
    if ending == "record_error":
        return Remark("▲", "recording stopped: the capture could not be written", "bad", is_end=True)
    if ended or ending == "segment":
        return None
    if "status" in members or "signal" in members:
        return _exit(members)
    words = {"server": "the server ended", "client": "the client disconnected", "signal": "ended by a signal"}
    text = words.get(ending, f"closed: {_scalar_text(ending)}") if isinstance(ending, str) else "closed"
    return Remark("■", text, "plain", is_end=True)


def _stderr(members: Mapping[str, Any]) -> Remark:
    raw = raw_bytes(dict(members))
    skipped = members.get("skipped")
    skipped_text = f" ({_size_text(skipped)} skipped)" if skipped else ""
    return Remark("·", f"stderr{skipped_text}: {sanitise_bytes(raw.rstrip()) if raw is not None else '(unreadable)'}")


def _eof(members: Mapping[str, Any]) -> Remark:
    source, target = _SIDES.get(str(members.get("dir")), ("sender", "receiver"))
    cause = members.get("by")
    if cause == "error":
        return Remark("▲", f"reading from the {source} failed: {_scalar_text(members.get('errno'))}", "bad")
    return Remark("·", f"{target} stopped reading" if cause == "receiver" else f"{source} closed its end")


def _signal(members: Mapping[str, Any]) -> Remark:
    name = _scalar_text(members.get("name"))
    if members.get("event") == "sent":
        return Remark("·", f"{name} sent to the server ({_scalar_text(members.get('reason'))})")
    return Remark("·", f"{name} received (from a {_scalar_text(members.get('origin'))})")


def _stall(members: Mapping[str, Any]) -> Remark:
    _, target = _SIDES.get(str(members.get("dir")), ("", "receiver"))
    first_frame, last_frame, waited_ns = members.get("of"), members.get("to"), members.get("waited_ns")
    count = (
        last_frame - first_frame + 1
        if type(first_frame) is int and type(last_frame) is int and last_frame > first_frame
        else 1
    )
    reason = "mcpproxy's own write was slow" if members.get("cause") == "recorder" else f"the {target} did not read"
    frames = (
        f"frame {_scalar_text(first_frame)}"
        if count == 1
        else f"frames {_scalar_text(first_frame)} to {_scalar_text(last_frame)}"
    )
    waited_text = units.duration(waited_ns) if type(waited_ns) is int and waited_ns >= 0 else "?"
    return Remark("·", f"{frames} waited {waited_text}: {reason}")


def _gap(gap: Record) -> Remark:
    lost = lost_traffic(gap)
    by_side = lost or {}
    detail = ", ".join(
        filter(None, (_lost_frames_text(by_side.get(side, {}), arrow) for side, arrow in (("c2s", "→"), ("s2c", "←"))))
    )
    if lost_range(gap) is None and gap.members.get("reason") == "fault":
        if lost is not None:
            return Remark("▲", f"not recorded after a fault in mcpproxy: {detail or 'no frames'}", "bad")
        return Remark("▲", "a fault in mcpproxy ended the recording of a stream", "bad")
    if lost_range(gap) is None and gap.members.get("reason") == "import":
        return Remark("▲", "something in the log could not be imported here", "bad")
    reason = _scalar_text(gap.members.get("reason"))
    text = f"{lost_text(lost_count(gap))}{f' ({detail})' if detail else ''}: {reason}"
    return Remark("▲", text, "bad")


def _lost_frames_text(lost: Mapping[str, int], arrow: str) -> str:
    if not lost.get("frames"):
        return ""
    return f"{arrow} {count_text(lost['frames'], 'frame')}, {_size_text(lost.get('bytes'))}"


def _exchange(members: Mapping[str, Any]) -> Remark | None:
    """The end of an HTTP exchange, if it adds something to the frames."""
    if members.get("stage") == "request" and _member_of(members.get("request"), "method") == "GET":
        return Remark("·", f"GET {_short_target(_member_of(members.get('request'), 'target'))}")
    if members.get("stage") != "end":
        return None
    request, response = members.get("request"), members.get("response")
    method, target = _member_of(request, "method"), _member_of(request, "target")
    status, ended_by = _member_of(response, "status"), members.get("ended_by")
    flag_names = members.get("flags")
    flags = [flag for flag in flag_names if isinstance(flag, str)] if isinstance(flag_names, list) else []
    is_good = type(status) is int and 200 <= status < 300 and not flags
    # The stream's own line says how the client closed it, and closing it is not an error.
    is_redirect = type(status) is int and status in REDIRECT_STATUSES and ended_by == "complete"
    is_fine = is_good and (ended_by == "complete" or (ended_by == "client" and _is_stream(response)))
    if is_fine and (_is_stream(response) or (method == "POST" and (status == 202 or not members.get("body_hash")))):
        return None
    # A request that is refused on arrival, for example because of --max-connections, is not read.
    unread_text = "a request that was not read" if status == 503 else "a request that could not be read"
    request_text = f"{_scalar_text(method)} {_short_target(target)}" if method is not None else unread_text
    text = f"{request_text} → {_scalar_text(status)}" if status is not None else f"{request_text}: no answer"
    gist_text = "" if is_redirect and not flags else _response_gist(members).removeprefix(f"{_scalar_text(status)} ")
    asks_for_nonce = _member_of(members.get("oauth"), "error") == NONCE_ERROR
    if asks_for_nonce:
        gist_text = ASKED_FOR_NONCE
    location = _location(members) if is_redirect else ""
    text += f" to {location}" if location else ""
    details = [*flags]
    if _member_of(response, "by") == "proxy" or (ended_by == "proxy" and status is None):
        text += " by mcpproxy"
    elif ended_by != "complete":
        text += f", ended by the {_scalar_text(ended_by)}"
    elif members.get("body_hash") and not gist_text:
        text += f", {_size_text(members.get('response_size'))} not stored"
    if gist_text:
        text += f": {gist_text}"
    if isinstance(members.get("error"), str):
        details.append(members["error"])
    is_plain = is_fine or (bool(location) and not flags) or asks_for_nonce
    role: Role = "dim" if is_plain else "bad"
    return Remark("·" if is_plain else "▲", text, role, detail=sanitise(", ".join(details), 300))


def _location(members: Mapping[str, Any]) -> str:
    """The address to which a response sent the client, as the client received it."""
    locations = values_of(_member_of(members.get("response"), "headers"), "location")
    return _short_target(_member_of(members.get("rewritten"), "location") or next(iter(locations), ""))


def _response_gist(members: Mapping[str, Any]) -> str:
    """The gist of a response that is not a message, on one line."""
    text, oauth = members.get("response_text"), members.get("oauth")
    if isinstance(oauth, dict):
        text = _member_of(oauth, "error_description") or _member_of(oauth, "error") or text
    return sanitise(gist(text), MAX_GIST_CHARS) if isinstance(text, str) else ""


def _short_target(target: object) -> str:
    """A target with its hashes shortened, to leave room for the outcome of the request."""
    return _shorten_hashes(r"hmac:\1…", _scalar_text(target))


def _stream(members: Mapping[str, Any]) -> Remark:
    if members.get("event") == "opened":
        resumed_id = members.get("last_event_id")
        return Remark(
            "·",
            "stream opened" + (f", resumed after event {_scalar_text(resumed_id)}" if resumed_id is not None else ""),
        )
    ended_by = members.get("ended_by")
    ending = "" if ended_by == "complete" else f" by the {_scalar_text(ended_by)}"
    events = members.get("events")
    return Remark("·", f"stream ended{ending} after {count_text(events, 'event') if type(events) is int else '?'}")


def _member_of(part: object, name: str) -> object:
    return part.get(name) if isinstance(part, dict) else None


def _is_stream(response: object) -> bool:
    headers = _member_of(response, "headers")
    return any(
        isinstance(pair, list) and len(pair) == 2 and str(pair[1]).lower().startswith("text/event-stream")
        for pair in (headers if isinstance(headers, list) else ())
    )


def _unreadable(_members: Mapping[str, Any]) -> Remark:
    return Remark("▲", "a frame whose record is invalid", "bad")


_REMARKS: Final[dict[str, Callable[[Mapping[str, Any]], Remark | None]]] = {
    "frame": _unreadable,
    "part": _unreadable,
    "process": _process,
    "stderr": _stderr,
    "eof": _eof,
    "exchange": _exchange,
    "stream": _stream,
    "signal": _signal,
    "stall": _stall,
}


def _size_text(value: object) -> str:
    return units.size(value) if type(value) is int and value >= 0 else "?"


def _scalar_text(value: object) -> str:
    """The text of a member that should be a string or a number; `?` if it is neither."""
    return sanitise(str(value), 60) if isinstance(value, str | int) else "?"
