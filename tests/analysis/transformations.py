"""Changes to a conversation over HTTP that must not change what is reported about it.

No change adds a fault: a cancellation after the end, a body that the capture lacks, a second client that does the same,
a redirect that the client follows, a recording that breaks off. So no change may cause a finding about a peer, and no
error may disappear. Each of `TRANSFORMATIONS` makes one change to a case, and returns what it changed, if anything.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, TypeAlias

from orjson import loads

from analysis.conversation.fold import Fold
from analysis.rules.finding import Finding, Level
from captures.frame import Frame
from captures.frames import FrameAssembler
from captures.record import Record, decode
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from tests.analysis.judged import Judged
from tests.analysis.talk import unanswered
from tests.analysis.traces import Found, check, checked_once

FrameLine: TypeAlias = dict[str, Any]
"""A frame of a trace, as its JSON."""
CUTS: Final = 60
"""The maximum number of points at which a recording is broken off."""
_SESSION = re.compile(r"(?i)(mcp-session-id: *)(\S[^\r\n]*)")
_OF_THE_MESSAGE = ("content-length", "mcp-method", "mcp-name")
"""Header fields that depend on the message."""


def blamed(findings: Iterable[Finding]) -> set[tuple[str, str]]:
    """The errors and warnings about a peer: the rule, and the side at fault."""
    return {(one.rule, one.blames) for one in findings if one.level > Level.NOTE and one.blames in ("client", "server")}


def blames(found: Iterable[Found]) -> set[tuple[str, str]]:
    """The errors and warnings about a peer among the findings of a case."""
    return blamed(one.finding for one in found)


def _cancel(case: Case) -> list[str]:
    """Append a cancellation of the last request: no error may disappear."""

    def errors(found: list[Found]) -> set[tuple[str, int]]:
        return {(one.rule, one.frame) for one in found if one.level == Level.ERROR}

    frames = _frames(case)
    last = _last_request(frames)
    if last is None:
        return []
    head, id_, peer = last
    told = {"requestId": id_, "reason": "the user has lost interest"}
    body = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": told})
    number = _next_number(frames)
    more = [
        {"dir": "c2s", "k": "req", "x": number, "raw": f"{head}\r\n\r\n{body}", **peer},
        {"dir": "s2c", "k": "res", "x": number, "raw": "HTTP/1.1 202 Accepted\r\n\r\n"},
    ]
    return [
        f"hides {rule} of frame {frame}"
        for rule, frame in sorted(errors(checked_once(case)) - errors(check(_made(case, [*frames, *more]))))
    ]


def _drop(kinds: tuple[str, ...], case: Case) -> list[str]:
    """Drop bodies: no peer may be blamed for anything new."""
    frames, gone = _frames(case), set()
    for frame in frames:
        head, _, body = frame.get("raw", "").partition("\r\n\r\n")
        if frame.get("k") in kinds and (body or frame["k"] == "head"):
            frame |= {"raw": f"{head}\r\n\r\n", "body": False}
            if frame["k"] == "head":
                gone.add(frame["x"])
    return _more(case, [frame for frame in frames if frame.get("k") != "sse" or frame["x"] not in gone])


def _double(case: Case, *, is_shared: bool) -> list[str]:
    """Add a second client that does the same at the same time, from its own address or on the same connection."""
    if case.transport == "legacy-sse":
        return []  # its sessions are distinguished by addresses that the server sends
    frames, t = _frames(case), -10.0
    for frame in frames:
        t = frame["t"] = frame["t"] if frame.get("t") is not None else t + 10
    shift, both = _next_number(frames), []
    for frame in frames:
        other = {**frame, "x": frame["x"] + shift}
        other["raw"] = _SESSION.sub(lambda found: f"{found[1]}{found[2]}-of-another", frame.get("raw", ""))
        if frame["k"] == "req":
            address = frame.get("peer", "10.0.0.1:1")
            frame["peer"] = other["peer"] = "10.0.0.1:1" if is_shared else address
            if not is_shared:
                other["peer"] = f"10.9.{address}"
        both += [frame, other]
    return _more(case, both)


def _redirect(case: Case) -> list[str]:
    """Redirect each POST to its own target: blame and outcomes stay the same."""
    frames = _frames(case)
    number, longer = _next_number(frames), list[FrameLine]()
    for frame in frames:
        raw = frame.get("raw", "")
        if frame.get("k") == "req" and raw.startswith("POST"):
            head = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {raw.split(' ')[1]}\r\n\r\n"
            at = {"t": frame["t"]} if frame.get("t") is not None else {}
            longer += [{**frame, "x": number}, {"dir": "s2c", "k": "res", "x": number, "raw": head, **at}]
            number += 1
        longer.append(frame)
    redirected = _made(case, longer)
    told = [f"changes {rule}, {who}" for rule, who in sorted(blames(checked_once(case)) ^ blames(check(redirected)))]
    return told or ([] if _outcomes(case) == _outcomes(redirected) else ["changes the outcomes of requests"])


def _break_off(case: Case) -> list[str]:
    """Break the recording off after each record, or after `CUTS` of them: no peer may be blamed for anything new."""
    lines, whole = [line for _, line in case.records()], blames(checked_once(case))
    wrong = dict[str, None]()
    for count in range(1, len(lines), max(1, len(lines) // CUTS)):
        checker, findings = Judged(), list[Finding]()
        for item in _items(lines[:count]):
            findings += checker.feed(item)
        more = blamed([*findings, *checker.finish("killed")]) - whole
        wrong |= dict.fromkeys(f"blames {who} by {rule} after {count} records" for rule, who in sorted(more))
    return list(wrong)


TRANSFORMATIONS: Final[dict[str, Callable[[Case], list[str]]]] = {
    "a cancellation after the end": _cancel,
    "no bodies of responses": partial(_drop, ("res", "head")),
    "no bodies of requests": partial(_drop, ("req",)),
    "no bodies at all": partial(_drop, ("req", "res", "head")),
    "a second client at another address": partial(_double, is_shared=False),
    "a second client on the same connection": partial(_double, is_shared=True),
    "a redirect that is followed": _redirect,
    "a recording that breaks off": _break_off,
}
"""The name of each change → the function that makes it."""


def _frames(case: Case) -> list[FrameLine]:
    """Copies of the frames of a case."""
    return [dict(frame) for frame in case.members["frames"]]


def _made(case: Case, frames: list[FrameLine]) -> Case:
    """The case with other frames."""
    (changed,) = cases([json.dumps({**case.members, "frames": frames}).encode()])
    assert isinstance(changed, Case), changed
    return changed


def _more(case: Case, frames: list[FrameLine]) -> list[str]:
    """The blame that other frames of the case add."""
    return [
        f"blames {who} by {rule}"
        for rule, who in sorted(blames(check(_made(case, frames))) - blames(checked_once(case)))
    ]


def _outcomes(case: Case) -> Counter[tuple[str, str]]:
    """The number of requests with each method and outcome."""
    fold, counts = Fold(), Counter[tuple[str, str]]()
    for item in _items([line for _, line in case.records()]):
        for context in fold.feed(item):
            if context.answered is not None:
                counts[context.answered.request.method, context.answered.outcome] += 1
        if isinstance(item, Record) and item.rec == "exchange":
            counts.update((one.request.method, one.outcome.value) for one in unanswered(fold))
    counts.update((one.request.method, one.outcome.value) for one in fold.open_calls())
    return counts


def _items(lines: list[bytes]) -> Iterator[Frame | Record]:
    """The items of a capture with these records."""
    assembler = FrameAssembler()
    for line in lines:
        record = decode(line.rstrip(b"\n"), 0, loads)
        assert record is not None
        item = assembler.feed(record)
        if isinstance(item, Frame | Record):
            yield item
    yield from assembler.finish()


def _next_number(frames: list[FrameLine]) -> int:
    """A number that no exchange uses yet."""
    return int(max(frame["x"] for frame in frames)) + 1


def _last_request(frames: list[FrameLine]) -> tuple[str, object, dict[str, str]] | None:
    """The head of the last POST with a request, its id, and the address of its client."""
    for frame in reversed(frames):
        head, _, body = frame.get("raw", "").partition("\r\n\r\n")
        if frame.get("k") != "req" or not head.startswith("POST") or not body.startswith("{"):
            continue
        try:
            message = json.loads(body)
        except ValueError:
            continue
        if "method" in message and isinstance(message.get("id"), int | str):
            lines = [line for line in head.split("\r\n") if not line.lower().startswith(_OF_THE_MESSAGE)]
            return "\r\n".join(lines), message["id"], {"peer": frame["peer"]} if "peer" in frame else {}
    return None
