"""Every conversation over HTTP of the corpus, changed in ways that must not change what is said of it.

A change adds nothing wrong: a cancellation after the end, a body that the capture lacks, a second client that does the
same, a redirect that the client follows, a recording that breaks off. So no finding about a peer may come of it, and no
error may disappear.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
from orjson import loads

from analysis.checking.checker import Checker
from analysis.conversation.fold import Fold
from analysis.rules.finding import Finding, Level
from captures.frame import Frame
from captures.reader import FrameAssembler
from captures.record import Record, decode
from mcpproxy.importers.trace import Case, cases
from tests.analysis.traces import check, corpus

FrameLine: TypeAlias = dict[str, Any]
"""A frame of a trace as its JSON."""
PICKED = 9
"""The suite takes every ninth conversation; `make soak` takes all."""
_SESSION = re.compile(r"(?i)(mcp-session-id: *)(\S[^\r\n]*)")
_OF_THE_MESSAGE = ("content-length", "mcp-method", "mcp-name")
"""Header fields that depend on the message."""

every = pytest.mark.parametrize(
    "step",
    [
        pytest.param(PICKED, marks=pytest.mark.costly("two checks for each of 70 conversations")),
        pytest.param(1, marks=pytest.mark.soak),
    ],
)


def conversations(step: int) -> Iterator[tuple[Case, list[FrameLine]]]:
    """Conversations over HTTP, each with copies of its frames."""
    for _, case in [told for told in corpus() if told[1].transport != "stdio"][::step]:
        yield case, [dict(frame) for frame in case.members["frames"]]


def made(case: Case, frames: list[FrameLine]) -> Case:
    """The case with other frames."""
    (changed,) = cases([json.dumps({**case.members, "frames": frames}).encode()])
    assert isinstance(changed, Case), changed
    return changed


def blamed(findings: list[Finding]) -> set[tuple[str, str]]:
    """The errors and warnings about a peer: the rule, and who is blamed."""
    return {(one.rule, one.blames) for one in findings if one.level > Level.NOTE and one.blames in ("client", "server")}


def blames(case: Case) -> set[tuple[str, str]]:
    """The same for a case."""
    return blamed([found.finding for found in check(case)])


def compare(step: int, change: Callable[[Case, list[FrameLine]], Case | None]) -> None:
    """Change conversations; nobody may be blamed for anything that nobody was blamed for before."""
    wrong, count = [], 0
    for case, frames in conversations(step):
        changed = change(case, frames)
        if changed is not None:
            count += 1
            more = blames(changed) - blames(case)
            wrong += [f"{case.name}: {sorted(more)}"] if more else []
    assert count
    assert not wrong, "\n".join(wrong)


@every
def test_a_cancellation_after_the_end_hides_no_error(step: int) -> None:
    def errors(case: Case) -> set[tuple[str, int]]:
        return {(found.rule, found.frame) for found in check(case) if found.level == Level.ERROR}

    wrong = []
    for case, frames in conversations(step):
        last = _last_request(frames)
        if last is not None:
            head, id_, peer = last
            told = {"requestId": id_, "reason": "the user has lost interest"}
            body = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": told})
            number = _next_number(frames)
            more = [
                {"dir": "c2s", "k": "req", "x": number, "raw": f"{head}\r\n\r\n{body}", **peer},
                {"dir": "s2c", "k": "res", "x": number, "raw": "HTTP/1.1 202 Accepted\r\n\r\n"},
            ]
            hidden = errors(case) - errors(made(case, [*frames, *more]))
            wrong += [f"{case.name}: {sorted(hidden)}"] if hidden else []
    assert not wrong, "\n".join(wrong)


@every
@pytest.mark.parametrize(
    "kinds", [("res", "head"), ("req",), ("req", "res", "head")], ids=["responses", "requests", "all"]
)
def test_what_is_not_recorded_blames_nobody(kinds: tuple[str, ...], step: int) -> None:
    def drop(case: Case, frames: list[FrameLine]) -> Case:
        gone = set()
        for frame in frames:
            head, _, body = frame.get("raw", "").partition("\r\n\r\n")
            if frame.get("k") in kinds and (body or frame["k"] == "head"):
                frame |= {"raw": f"{head}\r\n\r\n", "body": False}
                if frame["k"] == "head":
                    gone.add(frame["x"])
        return made(case, [frame for frame in frames if frame.get("k") != "sse" or frame["x"] not in gone])

    compare(step, drop)


@every
@pytest.mark.parametrize("is_shared", [False, True], ids=["two addresses", "one connection"])
def test_a_second_client_that_does_the_same_blames_nobody(step: int, *, is_shared: bool) -> None:
    def double(case: Case, frames: list[FrameLine]) -> Case | None:
        if case.transport == "legacy-sse":
            return None  # its sessions are told apart by addresses in what the server sends
        t = -10.0
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
                    other["peer"] = f"10.9.{address.replace(':', '.', 1)}:1"
            both += [frame, other]
        return made(case, both)

    compare(step, double)


@every
def test_a_redirect_that_is_followed_changes_no_figure(step: int) -> None:
    wrong = []
    for case, frames in conversations(step):
        number, longer = _next_number(frames), list[FrameLine]()
        for frame in frames:
            raw = frame.get("raw", "")
            if frame.get("k") == "req" and raw.startswith("POST"):
                head = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {raw.split(' ')[1]}\r\n\r\n"
                at = {"t": frame["t"]} if frame.get("t") is not None else {}
                longer += [{**frame, "x": number}, {"dir": "s2c", "k": "res", "x": number, "raw": head, **at}]
                number += 1
            longer.append(frame)
        redirected = made(case, longer)
        if blames(case) != blames(redirected) or outcomes(case) != outcomes(redirected):
            wrong.append(f"{case.name}: {sorted(blames(case) ^ blames(redirected))}")
    assert not wrong, "\n".join(wrong)


@every
def test_a_recording_that_breaks_off_blames_nobody_for_that(step: int) -> None:
    wrong = []
    for case, _ in conversations(step * (3 if step > 1 else 1)):
        lines, whole = [line for _, line in case.records()], blames(case)
        for count in range(1, len(lines)):
            checker, findings = Checker(), list[Finding]()
            for item in _items(lines[:count]):
                findings += checker.feed(item)
            more = blamed([*findings, *checker.finish("killed")]) - whole
            wrong += [f"{case.name}: after {count} records: {sorted(more)}"] if more else []
    assert not wrong, "\n".join(wrong)


def outcomes(case: Case) -> Counter[tuple[str, str]]:
    """How many requests of each method had each outcome."""
    fold, counts = Fold(), Counter[tuple[str, str]]()
    for item in _items([line for _, line in case.records()]):
        for seen in fold.feed(item):
            if seen.exchange is not None:
                counts[seen.exchange.request.method, seen.exchange.outcome] += 1
        if isinstance(item, Record) and item.rec == "exchange":
            counts.update((one.request.method, one.outcome.value) for one in fold.let_go)
    counts.update((one.request.method, one.outcome.value) for one in fold.finish())
    return counts


def _items(lines: list[bytes]) -> Iterator[Frame | Record]:
    """The items of a capture of these records."""
    assembler = FrameAssembler()
    for line in lines:
        record = decode(line.rstrip(b"\n"), 0, loads)
        assert record is not None
        item = assembler.feed(record)
        if isinstance(item, Frame | Record):
            yield item
    yield from assembler.end()


def _next_number(frames: list[FrameLine]) -> int:
    """A number that no exchange has."""
    return int(max(frame["x"] for frame in frames)) + 1


def _last_request(frames: list[FrameLine]) -> tuple[str, object, dict[str, str]] | None:
    """The head of the last POST of a request, its id, and the address of its client."""
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
