"""Folding logins in the traffic, with keys and mouse, and live."""

from pathlib import Path

from captures.file import CaptureFile
from mcpproxy.tui.rows.finding_lines import findings_in
from tests.mcpproxy.tui.login_talk import LoginTalk, failed_login, two_logins, whole_login
from tests.mcpproxy.tui.stage import Stage, play, play_each


def line_with(stage: Stage, text: str) -> int:
    """The line of the screen that contains a text."""
    return next(number for number, line in enumerate(stage.text().splitlines()) if text in line)


def seq(stage: Stage) -> int:
    """The number of the record at the cursor."""
    entry = stage.traffic.entry
    assert entry is not None
    return stage.traffic.reading.index.entry(entry).seq


async def keys_fold(stage: Stage) -> None:
    """Unfold and fold with the keys that open and close the detail on other rows."""
    await stage.open()
    await stage.settled()
    await stage.press("g")
    assert "registration       201" not in stage.text()
    await stage.press("right")
    await stage.see("registration       201", "▾")
    await stage.press("down", "down", "down", "h")
    assert "registration       201" not in stage.text()
    assert seq(stage) == 1
    await stage.press("l", "right")
    await stage.see("accepted", "authorization server")
    assert stage.traffic.detail.display
    await stage.press("escape", "left", "left", "down", "right")
    await stage.see("protocolVersion")


async def click_folds(stage: Stage) -> None:
    """Unfold with a click on the fold sign only."""
    await stage.open()
    await stage.settled()
    line = line_with(stage, "login 1: token issued")
    sign = stage.text().splitlines()[line].index("▸")
    for column, shows_legs in ((sign + 20, False), (sign, True), (sign, False)):
        await stage.pilot.click("#traffic", offset=(column, line - 1))
        await stage.settled()
        assert ("registration       201" in stage.text()) == shows_legs


async def jumps_unfold(stage: Stage) -> None:
    """Go to records of folded logins by their numbers, and to the next error."""
    await stage.open()
    await stage.settled()
    leg = [*stage.traffic.reading.logins.legs(1)][3]
    for goal in (leg.start, leg.end):
        await stage.press("g", "left")
        await stage.press("colon", *str(stage.traffic.reading.index.entry(goal).seq), "enter")
        await stage.settled()
        assert stage.traffic.entry == leg.end
        assert "registration       201" in stage.text()
    await stage.press("colon", "1", "enter")
    await stage.settled()
    assert seq(stage) == 1
    failed = stage.traffic.reading.logins.state(2).failed
    await stage.press("G", "up", "up", "up", "left")
    await stage.press("g", "n")
    while stage.traffic.entry != failed:
        before = seq(stage)
        await stage.press("n")
        assert seq(stage) > before


async def other_views_have_no_folds(stage: Stage) -> None:
    """Sort, filter by a mark in a folded login, and go to the mark."""
    await stage.open()
    await stage.settled()
    await stage.press("g", "right", "down", "down", "m")
    await stage.see("◆")
    marked = stage.traffic.entry
    await stage.press("left")
    assert "◆" in stage.text().splitlines()[line_with(stage, "login 1:")]
    await stage.press("slash", *"has:mark", "enter")
    await stage.see("1 of")
    await stage.settled()
    assert stage.traffic.entry == marked
    await stage.press("escape")
    await stage.settled()
    await stage.press("s")
    await stage.see("by latency")
    await stage.press("escape")
    await stage.press("b")
    await stage.see("messages only")
    assert "login 1" not in stage.text()
    assert "login 2" in stage.text()
    await stage.press("b", "g", "apostrophe")
    await stage.settled()
    assert stage.traffic.entry == marked
    await stage.press("m")


async def findings_are_at_legs(stage: Stage) -> None:
    """See the finding of a leg on its row, on that of its login, in the detail, and with the keys that lead there."""
    await stage.open()
    await stage.until(lambda: stage.traffic.reading.findings.has_ended)
    await stage.settled()
    failed = stage.traffic.reading.logins.state(2).failed
    stage.traffic.go_to_entry(failed)
    await stage.settled()
    for row, text in ((failed, "12.0 ms  POST /token"), (stage.traffic.reading.logins.head(2), "login 2: failed at")):
        count = len(findings_in(stage.traffic.reading, row))
        assert f"✗ {count} " in stage.text().splitlines()[line_with(stage, text)]
    rule = findings_in(stage.traffic.reading, failed)[0].rule
    await stage.press("enter", "7")
    await stage.see(rule)
    await stage.press("escape", "r")
    await stage.see(rule, "Why it matters")
    await stage.press("escape", "F")
    await stage.see(rule, "findings")
    await stage.press("enter")
    await stage.settled()
    assert stage.traffic.entry == failed


async def errors_lead_to_the_failed_leg(stage: Stage) -> None:
    """Go to the next error, which is not the challenge, and show errors only."""
    await stage.open()
    await stage.until(lambda: stage.traffic.reading.findings.has_ended)
    await stage.settled()
    logins = stage.traffic.reading.logins
    stage.traffic.go_to_entry(logins.head(2))
    await stage.settled()
    await stage.press("n")
    assert stage.traffic.entry == logins.state(2).failed
    await stage.press("N")
    assert logins.login_of(stage.traffic.entry or 0) == 2
    await stage.press("exclamation_mark")
    await stage.see("login 2: failed at token", "400 invalid_grant", "2 of 9 frames and 1 login")
    await stage.press("exclamation_mark")


def test_logins_fold_with_keys_and_mouse(tmp_path: Path) -> None:
    acts = [
        keys_fold,
        click_folds,
        jumps_unfold,
        other_views_have_no_folds,
        findings_are_at_legs,
        errors_lead_to_the_failed_leg,
    ]
    play_each(acts, two_logins(tmp_path), size=(120, 40))


def test_legs_that_come_late_do_not_move_the_cursor(tmp_path: Path) -> None:
    talk = LoginTalk("live")
    failed_login(talk)
    talk.session(calls=8)
    whole_login(talk)
    first = 12
    path = tmp_path / "live" / "20261130T101502Z-4f2a.mcpcap"
    path.parent.mkdir(parents=True)
    live = CaptureFile(path)
    for line in talk.records[:first]:
        live.append(line)

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.press("enter")
        await stage.see("login 1: under way")
        await stage.press("g", "down", "down")
        await stage.settled()
        watched = stage.traffic.entry
        for line in talk.records[first:]:
            live.append(line)
        reading = stage.traffic.reading
        await stage.until(lambda: reading.interpreted_count == len(talk.records) and len(reading.logins) == 2)
        await stage.settled()
        assert stage.traffic.entry == watched
        assert "paused" in stage.text()
        await stage.press("G")
        await stage.see("following", "tools/call")
        await stage.settled()
        assert "login 2: token issued" in stage.text() or "login 2" not in stage.text()

    try:
        play(act, path, size=(120, 30))
    finally:
        live.close()
