"""The drift of a server's definitions in words and as JSON."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from analysis.comparison.change import Change, Witness
from analysis.comparison.definitions.drift import Drift, DriftRow
from analysis.store.definition_history import Sighting, Sightings
from mcpproxy.report.comparison_drift import (
    DRIFT_MEMBERS,
    MAX_SHOWN_CHANGES,
    MAX_SHOWN_ROWS,
    drift_verdict,
    write_drift,
)
from mcpproxy.report.comparison_json import MEMBERS
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import cells
from mcpproxy.wording.spans import Style
from tests.mcpproxy.report.comparisons import ARGUMENT_REQUIRED, HOSTILE, REVISION_CHANGED, VALUE_CHANGED, place

DAY_NS: Final = 86_400_000_000_000
BEGUN_NS: Final = 1_795_000_000_000_000_000


def seen(capture: str, total: int = 1, client: str | None = "inspector 0.17.0", day: int = 0) -> Sightings:
    return Sightings(total, (Sighting(capture, 1, client, BEGUN_NS + day * DAY_NS),))


REQUIRED: Final = Change(
    ARGUMENT_REQUIRED, "tool search", "argument `shelf` is required now", "/inputSchema", old=place(4), new=place(6)
)
REWORDED: Final = Change(VALUE_CHANGED, "tool search", "the description was reworded")
ROW: Final = DriftRow(
    BEGUN_NS,
    "library",
    "search",
    "1.0",
    "1.1",
    seen("day0.mcpcap", 3),
    seen("day1.mcpcap"),
    (REQUIRED, REWORDED),
    True,
    place(4, "day0.mcpcap"),
    place(6, "day1.mcpcap"),
    "a",
    "b",
)
ORDINARY: Final = Drift((ROW, ROW._replace(tool="lend", changes=(REWORDED,))), 7, 8, 12, False, 0, (), (), ())
HOSTILE_PATH: Final = HOSTILE.replace("\0", "").replace("\ud800", "\udcff")
HARD: Final = Drift(
    (
        DriftRow(None, HOSTILE, HOSTILE, HOSTILE, None, Sightings(), seen(HOSTILE, 2**70, HOSTILE), (REQUIRED,) * 9),
        DriftRow(2**80, None, "", None, HOSTILE, seen("", 1, None), Sightings(), (), is_judged=False),
        ROW._replace(server=HOSTILE, old=place(4, HOSTILE_PATH), new=place(2**70, HOSTILE_PATH)),
        ROW._replace(changes=(Change(REVISION_CHANGED, HOSTILE, HOSTILE, f"/{HOSTILE}", HOSTILE, None),)),
        ROW._replace(changes=()),
    ),
    2**70,
    1,
    1,
    True,
    1,
    tuple((Path(HOSTILE_PATH), HOSTILE) for _ in range(9)),
    ((Path("day3.mcpcap"), "records are lost"),),
    (HOSTILE,),
)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def text_of(drift: Drift, width: int = 80) -> str:
    return "".join(write_drift(drift, "text", Style(), width))


def rows_of(drift: Drift) -> list[dict[str, Any]]:
    return [json.loads(line) for line in "".join(write_drift(drift, "json")).splitlines()]


def test_a_drift_says_when_what_changed_and_who_received_it() -> None:
    assert text_of(ORDINARY) == (
        "1 breaking, 2 notes in 2 changed definitions\n"
        "\n"
        "2026-11-18 11:06:40  search  version 1.0 → 1.1\n"
        "  breaking   arguments/newly-required: argument `shelf` is required now, at\n"
        "             /inputSchema\n"
        "  note       value/changed: the description was reworded\n"
        "  before     3 sessions (inspector 0.17.0, …), frame 4 of day0.mcpcap\n"
        "  after      1 session (inspector 0.17.0), frame 6 of day1.mcpcap\n"
        "                     lend\n"
        "  note       value/changed: the description was reworded\n"
        "  before     3 sessions (inspector 0.17.0, …), frame 4 of day0.mcpcap\n"
        "  after      1 session (inspector 0.17.0), frame 6 of day1.mcpcap\n"
        "\n"
        "`mcpproxy show CAPTURE --frame N` shows a frame\n"
    )


def test_values_and_witnesses_of_a_drift_are_shown() -> None:
    change = REWORDED._replace(before="Finds.", after="Seeks.", witness=Witness({"query": ""}, fits_old=True))
    lines = text_of(ORDINARY._replace(rows=(ROW._replace(changes=(change,)),))).splitlines()
    assert '             was "Finds.", now "Seeks."' in lines
    assert '             {"query":""} was valid before and is not now' in lines


def test_captures_have_the_names_that_ls_prints() -> None:
    recorded = "/captures/library/20261118T110640Z-a1b2.mcpcap"
    row = ROW._replace(after=Sightings(), old=place(4, recorded), new=place(6, str(Path.cwd() / "day1.mcpcap")))
    text = text_of(ORDINARY._replace(rows=(row,)))
    assert "frame 4 of a1b2\n" in text
    assert "  after      not listed: frame 6 of day1.mcpcap\n" in text


def test_what_holds_now_of_tools_that_changed_several_times_is_said() -> None:
    later = place(6, "day2.mcpcap")
    unchanged = "since 2026-11-18 11:06:40 the same as before its first change"
    for hash_, end in (("a", unchanged), (None, "not listed since")):
        rows = (ROW, ROW._replace(new=later, hash_before="b", hash=hash_))
        assert f"\nnow\n  · search: {end[:30]}" in text_of(ORDINARY._replace(rows=rows)), hash_
    assert "\nnow\n" not in text_of(ORDINARY)


def test_a_history_with_missing_captures_or_judgements_never_sounds_clean() -> None:
    nothing = ORDINARY._replace(rows=())
    assert drift_verdict(nothing) == "nothing changed in 12 definitions, 8 sessions, 7 captures"
    assert drift_verdict(nothing._replace(definitions=0)) == "nothing to compare: no tools were listed"
    refused = nothing._replace(refused=((Path("day2.mcpcap"), "it is damaged"),))
    assert drift_verdict(refused) == "incomplete, because 1 capture could not be read: no changes in the rest"
    assert "  ▲ day2.mcpcap: it is damaged\n" in text_of(refused)
    holes = refused._replace(incomplete=((Path("day3.mcpcap"), "records are lost"),))
    assert drift_verdict(holes).startswith(
        "incomplete, because 1 capture could not be read and 1 capture may lack definitions: "
    )
    assert "  ▲ day3.mcpcap: records are lost\n" in text_of(holes)
    unjudged = ORDINARY._replace(rows=(ROW._replace(changes=(), is_judged=False),), unjudged=1)
    assert drift_verdict(unjudged) == "1 changed definition, not judged"
    assert "  not judged: too many different changes\n" in text_of(unjudged)


def test_very_many_changes_are_counted_and_the_newest_are_shown() -> None:
    rows = tuple(
        ROW._replace(tool=f"tool{number}", changes=(REQUIRED,) * 9, new=place(6, f"{number}.mcpcap"))
        for number in range(5_000)
    )
    text = text_of(ORDINARY._replace(rows=rows))
    assert f"{5_000 - MAX_SHOWN_ROWS:,} earlier changes are not shown; --format json lists all\n" in text
    assert "tool4999" in text
    assert text.count("2026-11-18") == MAX_SHOWN_ROWS
    assert text.count(f"  and {9 - MAX_SHOWN_CHANGES} more\n") == MAX_SHOWN_ROWS


def test_the_text_of_hostile_captures_is_harmless_at_any_width() -> None:
    for width in (40, 80, 120):
        for line in text_of(HARD, width).splitlines():
            assert cells(line) <= width, line
            assert sanitise(line, None) == line
            assert line == line.rstrip()


def test_json_has_the_members_of_its_tables() -> None:
    for drift in (ORDINARY, HARD):
        rows = rows_of(drift)
        assert [row["type"] for row in rows] == [
            *["drift"] * len(drift.rows),
            *["refused"] * len(drift.refused),
            *["incomplete"] * len(drift.incomplete),
            "summary",
        ]
        for row in rows:
            assert list(row) == ["type", *DRIFT_MEMBERS[row["type"]]]
            for change in row.get("changes", ()):
                assert list(change) == list(MEMBERS["change"])
    assert rows_of(ORDINARY)[0]["time"] == "2026-11-18T11:06:40.000000000Z"
    assert rows_of(ORDINARY)[-1]["counts"] == {"breaking": 1, "note": 2}
