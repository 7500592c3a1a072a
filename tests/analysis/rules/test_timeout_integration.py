"""Cases that the corpus cannot express about timeout rules: ways to end, floods, and notes that must be absent."""

from typing import Any, Literal

import pytest
from orjson import dumps, loads

from analysis.rules.finding import Finding
from captures.frames import FrameAssembler
from captures.record import Record, decode, members, seal
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from tests.analysis.judged import Judged
from tests.analysis.traces import CORPUS, check, read

CASES = [case for case in read(CORPUS / "timeout.ndjson") if "silent" in case.members]
NAMED = {case.name: case for case in read(CORPUS / "timeout.ndjson")}


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_near_miss_gives_no_note_either(case: Any) -> None:
    assert not {one.rule for one in check(case)} & set(case.members["silent"])


def _found(
    case: Case, reason: Literal["closed", "killed", "open"], before: int | None = None, extra: bytes = b""
) -> list[Finding]:
    """The timeout findings in a case that ends for `reason`; a gap `extra` replaces the record number `before`."""
    checker, assembler, found = Judged(), FrameAssembler(), list[Finding]()
    for number, (_, line) in enumerate(case.records()):
        record = decode(line.rstrip(b"\n"), 0, loads)
        assert record is not None
        if number == before:
            lost = decode(seal(record.seq, record.t_ns, "gap", extra).rstrip(b"\n"), 0, loads)
            assert isinstance(lost, Record)
            found += checker.feed(lost)
            continue
        item = assembler.feed(record)
        found += checker.feed(item) if item is not None else []
    found += checker.finish(reason)
    assert checker.faults == {}
    return [one for one in found if one.rule.startswith("timeout/")]


def test_what_a_capture_that_was_merely_stopped_leaves_open_is_pending() -> None:
    found = _found(NAMED["call-abandoned"], "open")
    assert [(one.rule, str(one.level)) for one in found] == [("timeout/unanswered", "note")]
    assert "pending" in found[0].message


def test_a_recorder_that_was_killed_has_seen_what_it_has_seen() -> None:
    found = _found(NAMED["call-without-an-answer-2025-11-25"], "killed")
    assert [(one.rule, one.blames) for one in found] == [("timeout/unanswered", "server")]


@pytest.mark.parametrize("name", ["call-without-an-answer-2025-11-25", "ping-without-an-answer"])
def test_an_answer_may_be_in_what_is_lost(name: str) -> None:
    assert _found(NAMED[name], "closed", before=5, extra=members(first=5, last=5, reason="slow")) == []


def test_an_answer_may_be_in_what_is_too_long_to_look_into() -> None:
    deep = '{"jsonrpc":"2.0","id":1,"result":' + '{"a":' * 600 + "1" + "}" * 601
    frames = [*NAMED["call-without-an-answer-2025-11-25"].members["frames"]]
    frames.insert(4, {"dir": "s2c", "raw": deep, "t": 1000})
    assert [one for one in check(_case(frames)) if one.rule.startswith("timeout/")] == []


def test_a_flood_of_pings_is_watched_up_to_a_bound() -> None:
    frames: list[Any] = NAMED["ping-without-an-answer"].members["frames"][:3]
    ping = '{"jsonrpc":"2.0","id":%d,"method":"ping"}'
    frames += [{"dir": "c2s", "raw": ping % (number + 1), "t": 100} for number in range(1_050)]
    frames.append({"dir": "s2c", "raw": '{"jsonrpc":"2.0","method":"notifications/x"}', "t": 9000})
    frames.append({"dir": "s2c", "raw": '{"jsonrpc":"2.0","method":"notifications/x"}', "t": 11_000})
    frames.append({"dir": "c2s", "raw": "", "k": "eof", "t": 12_000})
    found = [one for one in check(_case(frames)) if one.rule.startswith("timeout/")]
    assert {one.rule for one in found} == {"timeout/ping-unanswered"}
    assert len(found) == 1_050
    assert sum("sends other messages" in one.finding.message for one in found) == 1_000


def _case(frames: list[Any]) -> Case:
    (made,) = cases([dumps({"name": "made", "transport": "stdio", "frames": frames})])
    assert isinstance(made, Case), made
    return made
