"""One line for each record other than a frame: process start and end, stderr, signals, stalls, losses.

Members of a record come from an untrusted file, so each is checked before use, and all text is sanitised.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from analysis.conversation.http_exchange import REDIRECTS, values_of
from analysis.conversation.response_text import MAX_GIST_CHARS, gist
from captures.gaps import lost_count, lost_range, lost_traffic
from captures.record import Record, raw_bytes
from mcpproxy.sanitise import sanitise, sanitise_bytes
from mcpproxy.wording import units
from mcpproxy.wording.counts import count_text, lost_text
from mcpproxy.wording.http_head import recorded_head
from mcpproxy.wording.spans import Role, Span
from mcpproxy.wording.values import excerpt

_HASH: Final = re.compile(r"hmac:([0-9a-f]{4})[0-9a-f]{12}").sub
_BY_PEERS: Final = ("complete", "client", "server")
_EVERYWHERE: Final = frozenset({"seq", "rec", "t_ns", "crc"})
"""The members that every record has."""
_SIDES: Final = {"c2s": ("client", "server"), "s2c": ("server", "client")}


class Remark(NamedTuple):
    """A line other than a message."""

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
    def whole(self) -> str:
        """All of it in one line."""
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
    word = _WORDS.get(item.rec)
    remark = word(item.members) if word is not None else None
    number = item.members.get("exchange")
    return remark._replace(exchange=number) if remark is not None and type(number) is int else remark


def is_routine_stream(members: Mapping[str, Any], *, is_waiting: bool) -> bool:
    """Whether the record of a stream that answers a POST adds nothing to its messages, so that it needs no line.

    A stream that begins, or that ends after its response, does not, whichever side ended it; one that ends while a
    request waits does, and so does one that mcpproxy or a fault ended.

    Args:
        members: the members of the record.
        is_waiting: whether a request that the POST carried has no response so far.
    """
    if members.get("event") == "opened":
        return members.get("last_event_id") is None
    return members.get("ended_by") in _BY_PEERS and not is_waiting


def members_of(record: Record) -> Iterator[tuple[str, list[list[Span]]]]:
    """What a record says, member by member: the name, and the lines of the value.

    Heads of HTTP are laid out; everything else is text or compact JSON, clipped.
    """
    for name, value in record.members.items():
        if name in _EVERYWHERE:
            continue
        if name in ("request", "response") and isinstance(value, dict):
            yield name, list(recorded_head(value))
        else:
            yield sanitise(name, 60), [[Span(excerpt(value))]]


def _process(members: Mapping[str, Any]) -> Remark | None:
    happened = members.get("event")
    if happened == "spawned":
        return Remark("·", f"server started, pid {_scalar(members.get('pid'))}")
    if happened == "failed":
        return Remark("■", f"the server could not be started: {_scalar(members.get('errno'))}", "bad", is_end=True)
    return _exit(members) if happened == "ended" else None


def _exit(members: Mapping[str, Any]) -> Remark:
    if members.get("signal") is not None:
        return Remark("■", f"server killed by {_scalar(members['signal'])}", "bad", is_end=True)
    status = members.get("status")
    role: Role = "plain" if status == 0 else "bad"
    return Remark("■", f"server exited {_scalar(status)}", role, is_end=True)


def _close(members: Mapping[str, Any], *, ended: bool) -> Remark | None:
    ending = members.get("ending")
    if ending == "record_error":
        return Remark("▲", "recording stopped: the capture could not be written", "bad", is_end=True)
    if ended or ending == "segment":
        return None
    if "status" in members or "signal" in members:
        return _exit(members)
    words = {"server": "the server ended", "client": "the client disconnected", "signal": "ended by a signal"}
    text = words.get(ending, f"closed: {_scalar(ending)}") if isinstance(ending, str) else "closed"
    return Remark("■", text, "plain", is_end=True)


def _stderr(members: Mapping[str, Any]) -> Remark:
    raw = raw_bytes(dict(members))
    skipped = members.get("skipped")
    before = f" ({_size(skipped)} skipped)" if skipped else ""
    return Remark("·", f"stderr{before}: {sanitise_bytes(raw.rstrip()) if raw is not None else '(unreadable)'}")


def _eof(members: Mapping[str, Any]) -> Remark:
    source, target = _SIDES.get(str(members.get("dir")), ("sender", "receiver"))
    by = members.get("by")
    if by == "error":
        return Remark("▲", f"reading from the {source} failed: {_scalar(members.get('errno'))}", "bad")
    return Remark("·", f"{target} stopped reading" if by == "receiver" else f"{source} closed its end")


def _signal(members: Mapping[str, Any]) -> Remark:
    name = _scalar(members.get("name"))
    if members.get("event") == "sent":
        return Remark("·", f"{name} sent to the server ({_scalar(members.get('reason'))})")
    return Remark("·", f"{name} received (from a {_scalar(members.get('origin'))})")


def _stall(members: Mapping[str, Any]) -> Remark:
    _, target = _SIDES.get(str(members.get("dir")), ("", "receiver"))
    first, last, waited = members.get("of"), members.get("to"), members.get("waited_ns")
    count = last - first + 1 if type(first) is int and type(last) is int and last > first else 1
    why = "mcpproxy's own write was slow" if members.get("cause") == "recorder" else f"the {target} did not read"
    frames = f"frame {_scalar(first)}" if count == 1 else f"frames {_scalar(first)} to {_scalar(last)}"
    waited_text = units.duration(waited) if type(waited) is int and waited >= 0 else "?"
    return Remark("·", f"{frames} waited {waited_text}: {why}")


def _gap(gap: Record) -> Remark:
    lost = lost_traffic(gap)
    by_side = lost or {}
    detail = ", ".join(
        filter(None, (_lost(by_side.get(side, {}), arrow) for side, arrow in (("c2s", "→"), ("s2c", "←"))))
    )
    if lost_range(gap) is None and gap.members.get("reason") == "fault":
        if lost is not None:
            return Remark("▲", f"not recorded after a fault in mcpproxy: {detail or 'no frames'}", "bad")
        return Remark("▲", "a fault in mcpproxy ended the recording of a stream", "bad")
    if lost_range(gap) is None and gap.members.get("reason") == "import":
        return Remark("▲", "something in the log could not be imported here", "bad")
    reason = _scalar(gap.members.get("reason"))
    text = f"{lost_text(lost_count(gap))}{f' ({detail})' if detail else ''}: {reason}"
    return Remark("▲", text, "bad")


def _lost(lost: Mapping[str, int], arrow: str) -> str:
    if not lost.get("frames"):
        return ""
    return f"{arrow} {count_text(lost['frames'], 'frame')}, {_size(lost.get('bytes'))}"


def _exchange(members: Mapping[str, Any]) -> Remark | None:
    """The end of an HTTP exchange, if it adds something to the frames."""
    if members.get("stage") == "request" and _of(members.get("request"), "method") == "GET":
        return Remark("·", f"GET {_short(_of(members.get('request'), 'target'))}")
    if members.get("stage") != "end":
        return None
    request, response = members.get("request"), members.get("response")
    method, target = _of(request, "method"), _of(request, "target")
    status, by = _of(response, "status"), members.get("ended_by")
    flag_names = members.get("flags")
    flags = [flag for flag in flag_names if isinstance(flag, str)] if isinstance(flag_names, list) else []
    is_good = type(status) is int and 200 <= status < 300 and not flags
    # The stream's own line says how the client left it, and leaving is not an error.
    is_redirect = type(status) is int and status in REDIRECTS and by == "complete"
    is_fine = is_good and (by == "complete" or (by == "client" and _is_stream(response)))
    if is_fine and (_is_stream(response) or (method == "POST" and (status == 202 or not members.get("body_hash")))):
        return None
    # A request that is refused on arrival, for example because of --max-connections, is not read.
    unread = "a request that was not read" if status == 503 else "a request that could not be read"
    request_text = f"{_scalar(method)} {_short(target)}" if method is not None else unread
    text = f"{request_text} → {_scalar(status)}" if status is not None else f"{request_text}: no answer"
    said = "" if is_redirect and not flags else _said(members).removeprefix(f"{_scalar(status)} ")
    location = _location(members) if is_redirect else ""
    text += f" to {location}" if location else ""
    details = [*flags]
    if _of(response, "by") == "proxy" or (by == "proxy" and status is None):
        text += " by mcpproxy"
    elif by != "complete":
        text += f", ended by the {_scalar(by)}"
    elif members.get("body_hash") and not said:
        text += f", {_size(members.get('response_size'))} not stored"
    if said:
        text += f": {said}"
    if isinstance(members.get("error"), str):
        details.append(members["error"])
    is_plain = is_fine or (bool(location) and not flags)
    role: Role = "dim" if is_plain else "bad"
    return Remark("·" if is_plain else "▲", text, role, detail=sanitise(", ".join(details), 300))


def _location(members: Mapping[str, Any]) -> str:
    """The address to which a response sent the client, as the client received it."""
    sent = values_of(_of(members.get("response"), "headers"), "location")
    return _short(_of(members.get("rewritten"), "location") or next(iter(sent), ""))


def _said(members: Mapping[str, Any]) -> str:
    """The gist of a response that is not a message, in one line."""
    text, oauth = members.get("response_text"), members.get("oauth")
    if isinstance(oauth, dict):
        text = _of(oauth, "error_description") or _of(oauth, "error") or text
    return sanitise(gist(text), MAX_GIST_CHARS) if isinstance(text, str) else ""


def _short(target: object) -> str:
    """A target with its hashes shortened, to leave room for the outcome of the request."""
    return _HASH(r"hmac:\1…", _scalar(target))


def _stream(members: Mapping[str, Any]) -> Remark:
    if members.get("event") == "opened":
        after = members.get("last_event_id")
        return Remark("·", "stream opened" + (f", resumed after event {_scalar(after)}" if after is not None else ""))
    by = members.get("ended_by")
    how = "" if by == "complete" else f" by the {_scalar(by)}"
    events = members.get("events")
    return Remark("·", f"stream ended{how} after {count_text(events, 'event') if type(events) is int else '?'}")


def _of(part: object, name: str) -> object:
    return part.get(name) if isinstance(part, dict) else None


def _is_stream(response: object) -> bool:
    headers = _of(response, "headers")
    return any(
        isinstance(pair, list) and len(pair) == 2 and str(pair[1]).lower().startswith("text/event-stream")
        for pair in (headers if isinstance(headers, list) else ())
    )


def _unreadable(_members: Mapping[str, Any]) -> Remark:
    return Remark("▲", "a frame whose record is invalid", "bad")


_WORDS: Final[dict[str, Callable[[Mapping[str, Any]], Remark | None]]] = {
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


def _size(value: object) -> str:
    return units.size(value) if type(value) is int and value >= 0 else "?"


def _scalar(value: object) -> str:
    """The text of a member that should be a string or a number; `?` if it is neither."""
    return sanitise(str(value), 60) if isinstance(value, str | int) else "?"
