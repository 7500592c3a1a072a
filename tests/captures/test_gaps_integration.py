"""The losses that a gap record claims are believed only as far as they are possible."""

from pathlib import Path
from typing import Any

from captures.gaps import MAX_LOST_RECORDS, lost_count, lost_range, lost_traffic
from captures.integrity import inspect_file
from captures.record import Record, members, seal
from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.sharing.written import written

HUGE = 1 << 62


def test_a_range_ends_before_its_gap() -> None:
    for first, last, span in (
        (3, 6, (3, 6)),
        (3, 7, None),
        (6, 3, None),
        (-1, 4, None),
        (3, HUGE, None),
        (3, 5.0, None),
    ):
        gap = Record(7, "gap", 0, {"first": first, "last": last})
        assert lost_range(gap) == span, (first, last)
        assert lost_count(gap) == (span[1] - span[0] + 1 if span else 1)
    assert lost_count(Record(HUGE, "gap", 0, {"first": 3, "last": HUGE - 1})) == MAX_LOST_RECORDS


def test_no_more_traffic_is_lost_than_there_are_numbers() -> None:
    lost = {"c2s": {"frames": 4, "bytes": 90}, "s2c": {"frames": HUGE, "bytes": -1}, "other": {"records": "1"}, "x": {}}
    gap = Record(9, "gap", 0, {"first": 3, "last": 6, "lost": lost})
    assert lost_traffic(gap) == {"c2s": {"frames": 4, "bytes": 90}, "s2c": {}, "other": {}}
    fault = Record(9, "gap", 0, {"lost": {"c2s": {"frames": HUGE, "bytes": 10**30}, "s2c": {"frames": 70, "bytes": 7}}})
    assert lost_traffic(fault) == {"c2s": {}, "s2c": {"frames": 70, "bytes": 7}}
    assert lost_traffic(Record(9, "gap", 0, {"lost": []})) is None


def test_forged_gaps_give_no_absurd_number_anywhere(tmp_path: Path) -> None:
    lines = written([("c2s", {"id": 2, "method": "ping"}), ("s2c", {"id": 2, "result": {}})])[:-1]
    lost = {side: {"frames": HUGE, "records": HUGE, "bytes": HUGE} for side in ("c2s", "s2c", "other")}
    forged: dict[str, tuple[int, dict[str, Any]]] = {
        "range": (len(lines), {"first": 3, "last": HUGE, "lost": lost, "reason": "slow"}),
        "fault": (len(lines), {"lost": lost, "reason": "fault"}),
        "number": (HUGE, {"first": len(lines), "last": HUGE - 1, "lost": lost, "reason": "slow"}),
        "largest": (2**64 - 2, {"first": len(lines), "last": 2**64 - 3, "reason": "slow"}),
    }
    paths = [tmp_path / f"{name}.mcpcap" for name in forged]
    for path, (seq, values) in zip(paths, forged.values(), strict=True):
        path.write_bytes(b"".join([*lines, seal(seq, 9_000_000_000, "gap", members(**values))]))
        for gap in inspect_file(path).gaps:
            assert max((count for side in (gap.lost or {}).values() for count in side.values()), default=0) <= 1 << 60
    sql = "select lost from captures"
    commands: list[tuple[str | Path, ...]] = [("show", path) for path in paths]
    commands += [("stats", *paths), ("check", *paths), ("ls", tmp_path), ("query", sql, *paths)]
    for command in commands:
        done = mcpproxy(*command)
        assert done.returncode in (0, 1), (command, done)
        printed = (done.stdout + done.stderr).replace(b",", b"")
        assert str(HUGE)[:9].encode() not in printed, (command, done)
        assert b"18446744" not in printed, (command, done)
