"""Cases that the corpus cannot express about shutdown: signals, which traces lack, and notes that must be absent."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from orjson import loads

from analysis.rules.finding import Finding
from captures.envelope import judge
from captures.frames import FrameAssembler
from captures.record import decode, frame_members, members, seal
from tests.analysis.judged import Judged
from tests.analysis.traces import CORPUS, check, read

CASES = [case for case in read(CORPUS / "shutdown.ndjson") if "silent" in case.members]
MS = 1_000_000
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"%b","capabilities":{},'
    b'"clientInfo":{"name":"host","version":"1"}}}'
)
ANSWER = (
    b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"%b","capabilities":{},'
    b'"serverInfo":{"name":"demo","version":"1"}}}'
)
CALL = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def _session(*then: tuple[int, str, dict[str, Any]], version: bytes = b"2025-06-18") -> list[Finding]:
    """The findings in a session that continues after its handshake with these records: milliseconds, type, members."""
    header = members(format=1, capture="0" * 32, segment=1, transport="stdio", observed_start=True)
    said = [("c2s", INITIALIZE % version), ("s2c", ANSWER % version), ("c2s", _INITIALIZED)]
    lines = [seal(0, 0, "header", header)]
    lines += [
        seal(seq, 0, "frame", frame_members(side, raw, judge(raw, side)))  # type: ignore[arg-type]
        for seq, (side, raw) in enumerate(said, 1)
    ]
    for t_ms, rec, told in then:
        raw = told.get("raw")
        middle = members(**told) if raw is None else frame_members(told["dir"], raw, judge(raw, told["dir"]))
        lines.append(seal(len(lines), t_ms * MS, rec, middle))
    checker, assembler, found = Judged(), FrameAssembler(), list[Finding]()
    for line in lines:
        record = decode(line.rstrip(b"\n"), 0, loads)
        assert record is not None
        item = assembler.feed(record)
        found += checker.feed(item) if item is not None else []
    found += checker.finish("closed")
    assert checker.faults == {}
    return [one for one in found if one.rule.startswith(("shutdown/", "timeout/"))]


_INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


def _closed(t_ms: int, dir_: str = "c2s", by: str = "sender") -> tuple[int, str, dict[str, Any]]:
    return t_ms, "eof", {"dir": dir_, "by": by, "bytes": 1}


def _received(t_ms: int, name: str = "SIGTERM", origin: str = "process") -> tuple[int, str, dict[str, Any]]:
    return t_ms, "signal", {"event": "received", "name": name, "origin": origin}


def _sent(t_ms: int, name: str = "SIGTERM", reason: str = "forwarded") -> tuple[int, str, dict[str, Any]]:
    return t_ms, "signal", {"event": "sent", "name": name, "reason": reason, "pids": [1]}


def _ended(t_ms: int, status: int | None = 0, signal: str | None = None) -> tuple[int, str, dict[str, Any]]:
    return t_ms, "process", {"event": "ended", "status": status, "signal": signal}


def _said(t_ms: int, dir_: str, raw: bytes) -> tuple[int, str, dict[str, Any]]:
    return t_ms, "frame", {"dir": dir_, "raw": raw}


def _rules(found: list[Finding]) -> list[tuple[str, str]]:
    return [(one.rule.partition("/")[2], str(one.level)) for one in found]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_near_miss_gives_no_note_either(case: Any) -> None:
    assert not {one.rule for one in check(case)} & set(case.members["silent"])


def test_a_signal_while_stdin_is_open_is_one_too_early() -> None:
    found = _session(_received(100), _sent(100), _ended(200, None, "SIGTERM"))
    assert _rules(found) == [("killed-first", "warning")]
    assert (found[0].frame, found[0].blames) == (4, "client")


@pytest.mark.parametrize("name", ["SIGINT", "SIGQUIT", "SIGKILL"])
def test_any_signal_that_ends_is_one_too_early(name: str) -> None:
    found = _session(_received(100, name), _received(200, "SIGTERM"), _sent(200), _ended(250, None, "SIGTERM"))
    assert [(one.rule, one.frame) for one in found] == [("shutdown/killed-first", 4)]


def test_a_hang_up_says_that_a_terminal_has_gone() -> None:
    assert _session(_received(100, "SIGHUP"), _sent(100, "SIGHUP"), _ended(200, None, "SIGHUP")) == []


def test_a_server_that_is_quicker_than_the_signal_to_the_recorder_was_signalled_too() -> None:
    found = _session(_closed(100, "s2c"), _received(103), _sent(105), _ended(106, None, "SIGTERM"))
    assert _rules(found) == [("killed-first", "warning")]


@pytest.mark.parametrize(("closed_ms", "rules"), [(150, []), (151, ["server-left", "exit-status"])])
def test_a_client_that_closes_at_once_may_have_ended_the_server_itself(closed_ms: int, rules: list[str]) -> None:
    found = _session(_closed(100, "s2c"), _closed(closed_ms), _ended(closed_ms + 5, None, "SIGTERM"))
    assert [name for name, _ in _rules(found)] == rules


@pytest.mark.parametrize(("closed_ms", "rules"), [(149, []), (152, ["server-left", "exit-status"])])
def test_the_end_of_the_process_waits_for_what_the_client_does(closed_ms: int, rules: list[str]) -> None:
    found = _session(_closed(100, "s2c"), _ended(101, None, "SIGTERM"), _closed(closed_ms))
    assert [name for name, _ in _rules(found)] == rules


@pytest.mark.parametrize(
    ("ended", "rules"),
    [
        ((None, "SIGTERM"), []),
        ((None, "SIGSEGV"), ["exit-status", "server-died"]),
        ((None, "SIGKILL"), ["exit-status", "server-died"]),
        ((1, None), ["exit-status", "server-died"]),
    ],
)
def test_a_server_that_crashes_in_a_call_is_not_excused_by_a_client_that_leaves(
    ended: tuple[int | None, str | None], rules: list[str]
) -> None:
    found = _session(_said(50, "c2s", CALL), _closed(100, "s2c"), _closed(102), _ended(104, *ended))
    assert sorted(name for name, _ in _rules(found)) == rules


def test_a_signal_right_after_the_close_is_one_too_early() -> None:
    found = _session(_closed(100), _received(199), _sent(199), _ended(250, None, "SIGTERM"))
    assert _rules(found) == [("killed-first", "warning")]
    assert found[0].related == (4,)


@pytest.mark.parametrize("wait_ms", [100, 999])
def test_a_signal_after_some_patience_is_in_order(wait_ms: int) -> None:
    assert _session(_closed(100), _received(100 + wait_ms), _sent(100 + wait_ms), _ended(1200, None, "SIGTERM")) == []


def test_an_interrupt_at_the_terminal_is_nobodys_fault() -> None:
    call = _said(50, "c2s", CALL)
    assert _session(call, _received(100, "SIGINT", "terminal"), _ended(200, None, "SIGINT")) == []


def test_an_ordinary_signal_ends_nothing() -> None:
    call = _said(50, "c2s", CALL)
    found = _session(call, _received(100, "SIGUSR1"), _sent(100, "SIGUSR1"), _ended(200, 1))
    assert ("server-died", "error") in _rules(found)


@pytest.mark.parametrize(("version", "level"), [(b"2025-06-18", "note"), (b"2026-07-28", "warning")])
def test_a_server_that_has_to_be_killed_lingers(version: bytes, level: str) -> None:
    found = _session(_closed(100), _sent(3100, reason="client_gone"), _ended(3200, None, "SIGTERM"), version=version)
    assert _rules(found) == [("server-lingers", level)]
    assert found[0].frame == 6


def test_a_server_that_the_recorder_was_told_to_kill_has_no_odd_status() -> None:
    found = _session(_closed(100), _sent(5100, "SIGKILL", "client_gone"), _ended(5101, None, "SIGKILL"))
    assert _rules(found) == [("server-lingers", "note")]


def test_a_server_that_stops_reading_has_not_been_closed_by_its_client() -> None:
    found = _session(_said(50, "c2s", CALL), _closed(100, by="receiver"), _closed(101, "s2c"), _ended(110, 2))
    assert sorted(_rules(found)) == [("exit-status", "note"), ("server-died", "error")]


def test_a_client_that_stops_reading_is_gone() -> None:
    found = _session(_said(50, "c2s", CALL), _closed(100, "s2c", by="receiver"), _closed(5000, "s2c"), _ended(5001, 0))
    assert found == []


def test_the_death_of_a_server_names_status_requests_and_last_words() -> None:
    last = [(t, "stderr", {"size": 0}) for t in (60, 61, 62, 63)]
    died = [
        one
        for one in _session(_said(50, "c2s", CALL), *last, _closed(100, "s2c"), _ended(110, 3))
        if one.rule == "shutdown/server-died"
    ]
    assert len(died) == 1
    assert died[0].frame == 9
    text = "the server ends with status 3 before answering ping (id 1)"
    assert died[0].message == f"{text}; its last output on stderr is in record 8"
    assert died[0].related == (4, 6, 7, 8)
    assert "status 3" in died[0].message
    assert "record 8" in died[0].message


def test_a_call_after_the_end_of_stdout_is_open_when_the_process_ends() -> None:
    found = _session(_closed(100, "s2c"), _said(150, "c2s", CALL), _ended(9000, 0))
    assert _rules(found) == [("server-died", "error")]


ODD = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["c2s", "s2c", "sender", "SIGTERM", "ended", ""])


@given(
    st.lists(
        st.tuples(
            st.integers(0, 9),
            st.sampled_from(["eof", "process", "signal", "stderr", "gap", "stall"]),
            st.dictionaries(
                st.sampled_from(["dir", "by", "event", "name", "origin", "status", "signal", "first", "last"]), ODD
            ),
        ),
        max_size=8,
    )
)
def test_no_record_upsets_the_rules(then: list[tuple[int, str, dict[str, Any]]]) -> None:
    times = sorted(t for t, _, _ in then)
    _session(*[(t, rec, told) for t, (_, rec, told) in zip(times, then, strict=True)])
