"""Logins in the traffic: which rows fold, and what they say."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from analysis.filter import parse
from analysis.reading import Reading as Whole
from analysis.rules.finding import Finding, Level
from captures.file import CaptureFile
from mcpproxy.tui.data.columns import LEGS, LOGINS, Batch, Columns
from mcpproxy.tui.data.login_folds import MAX_SINGLE_CHANGES, LoginFolds
from mcpproxy.tui.data.scan import Scan
from mcpproxy.tui.details.detail import detail, exchange_lines
from mcpproxy.tui.rows.finding_lines import row_lines
from mcpproxy.tui.rows.login_row_text import row_text_with_logins
from mcpproxy.tui.rows.row_logins import login_at
from mcpproxy.wording.logins import login_text
from tests.mcpproxy.tui.in_process_reading import InProcessReading
from tests.mcpproxy.tui.login_talk import RESOURCE, LoginTalk, failed_login, two_logins, whole_login

EVIL = "\x1b[2J\u202e\x07\ud800<b>" + "x" * 2048
ACTING = {"\x1b", "\u202e", "\x07", "\ud800"}


@contextmanager
def understood(path: Path) -> Iterator[InProcessReading]:
    """A capture that was read to its end."""
    reading = InProcessReading(path)
    while reading.step():
        pass
    try:
        yield reading
    finally:
        reading.close()


def text_at(reading: InProcessReading, row: int) -> str:
    """The text of a row."""
    text = row_text_with_logins(reading, row)
    return f"{text.direction.text}{''.join(span.text for span in text.subject)}"


def rows_of(reading: InProcessReading, folds: LoginFolds, *, omits_successes: bool = False) -> list[str]:
    """The texts of the rows that are listed."""
    base = reading.message_rows if omits_successes else reading.folded_rows
    return [text_at(reading, row) for row in folds.rows(base, omits_successes=omits_successes)]


def starts(texts: Sequence[str], *beginnings: str) -> bool:
    """Whether each text begins as it should."""
    return len(texts) == len(beginnings) and all(map(str.startswith, texts, beginnings))


def test_a_login_that_succeeded_is_one_row_and_one_that_failed_has_a_row_for_each_leg(tmp_path: Path) -> None:
    with understood(two_logins(tmp_path)) as reading:
        texts = rows_of(reading, LoginFolds(reading))
        assert starts(
            texts,
            "·login 1: token issued  7 requests, 2.5 s  challenge → resource metadata",
            *("→initialize", "→initialize", "←initialize", "→notifications/initialized"),
            *("→tools/call", "←tools/call", "→tools/call", "←tools/call"),
            "▲login 2: failed at token: 400 invalid_grant: the code was used before  6 requests",
            "→initialize",
            " ·  challenge          401  12.0 ms  POST /mcp",
            " ·  resource metadata  200  12.0 ms  GET /.well-known/",
            " ·  server metadata    404",
            " ·  server metadata    200",
            " ·  authorization      302  12.0 ms  GET /authorize",
            " ▲  token              400 invalid_grant: the code was used before  12.0 ms  POST /token",
            "■",
        ), texts
        # The requests of legs, which have ended, have no rows of their own.
        assert not any("GET /.well-known" in text and "·  " not in text for text in texts)


def test_a_login_folds_and_unfolds(tmp_path: Path) -> None:
    with understood(two_logins(tmp_path)) as reading:
        folds = LoginFolds(reading)
        before = rows_of(reading, folds)
        folds.fold(1, is_unfolded=True)
        assert len(rows_of(reading, folds)) == len(before) + 7
        folds.fold(2, is_unfolded=False)
        assert len(rows_of(reading, folds)) == len(before) + 7 - 6
        folds.fold(1, is_unfolded=False)
        folds.fold(2, is_unfolded=True)
        assert rows_of(reading, folds) == before
        # A row in a folded login can be reached: its login is unfolded.
        last = [*reading.logins.legs(1)][-1]
        assert last.end not in folds.rows(reading.folded_rows, omits_successes=False)
        folds.reveal(last.end)
        assert last.end in folds.rows(reading.folded_rows, omits_successes=False)
        assert reading.logins.line_of(last.start) == last.end
        assert reading.logins.line_of(reading.logins.head(1)) == reading.logins.head(1)


def test_all_rows_are_listed_the_same_whether_at_once_or_as_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = LoginTalk()
    whole_login(talk)
    for number in range(4):
        failed_login(talk)
        talk.leg("resource-metadata", "GET", RESOURCE, 200, program=f"probe {number}")
    talk.end()
    path = talk.write(tmp_path)
    for most in (MAX_SINGLE_CHANGES, 0):
        monkeypatch.setattr("mcpproxy.tui.data.login_folds.MAX_SINGLE_CHANGES", most)
        for omits in (False, True):
            reading = InProcessReading(path)
            folds, is_busy = LoginFolds(reading), True
            while is_busy:
                is_busy = reading.step()
                base = reading.message_rows if omits else reading.folded_rows
                folds.rows(base, omits_successes=omits)
                folds.grow(None)
            listed = [*folds.rows(base, omits_successes=omits)]
            assert listed == [*LoginFolds(reading).rows(base, omits_successes=omits)]
            assert listed == sorted({*listed})
            reading.close()


def test_among_messages_only_logins_that_did_not_succeed_are_listed(tmp_path: Path) -> None:
    with understood(two_logins(tmp_path)) as reading:
        texts = rows_of(reading, LoginFolds(reading), omits_successes=True)
        assert not any("login 1" in text for text in texts)
        assert any("login 2: failed" in text for text in texts)
        assert sum(text.startswith((" ·", " ▲")) for text in texts) == 6


def test_a_live_login_is_unfolded_until_it_succeeds_and_stays_so_under_the_cursor(tmp_path: Path) -> None:
    for is_watched in (False, True):
        talk = LoginTalk()
        whole_login(talk)
        folder = tmp_path / str(is_watched)
        folder.mkdir()
        writer = CaptureFile(folder / "live.mcpcap")
        third_leg = 11
        for line in talk.records[:third_leg]:
            writer.append(line)
        reading = InProcessReading(folder / "live.mcpcap")
        while reading.step():
            pass
        folds = LoginFolds(reading)
        texts = rows_of(reading, folds)
        assert "·login 1: under way, after server metadata" in texts[0]
        assert starts(texts[1:], "→initialize", " ·  challenge", " ·  resource metadata", " ▲  server metadata")
        cursor_row = folds.rows(reading.folded_rows, omits_successes=False)[3]
        for line in talk.records[third_leg:]:
            writer.append(line)
        while reading.step():
            pass
        folds.grow(cursor_row if is_watched else None)
        texts = rows_of(reading, folds)
        assert "·login 1: token issued" in texts[0]
        assert (cursor_row in folds.rows(reading.folded_rows, omits_successes=False)) == is_watched
        reading.close()
        writer.close()


def test_the_cursor_stays_on_a_row_that_turns_out_to_be_a_leg(tmp_path: Path) -> None:
    for goes_by_key in (False, True):
        talk = LoginTalk()
        failed_login(talk)
        talk.session()
        first = len(talk.records)
        (tmp_path / str(goes_by_key)).mkdir()
        path = tmp_path / str(goes_by_key) / "live.mcpcap"
        writer = CaptureFile(path)
        whole_login(talk)
        for line in talk.records[:first]:
            writer.append(line)
        reading = InProcessReading(path)
        while reading.step():
            pass
        folds = LoginFolds(reading)
        folds.rows(reading.folded_rows, omits_successes=False)
        folds.grow(None)
        assert len(reading.logins) == 1
        for line in talk.records[first:]:
            writer.append(line)
        while reading.step():
            pass
        watched = [*reading.logins.legs(2)][2].end
        if goes_by_key:
            folds.reveal(watched)
        rows = folds.rows(reading.folded_rows, omits_successes=False)
        folds.grow(watched)
        assert watched in rows
        assert sum(reading.logins.login_of(row) == 2 for row in rows) == 8
        reading.close()
        writer.close()


def test_a_login_is_described_in_the_same_words_as_by_every_command(tmp_path: Path) -> None:
    talk = LoginTalk()
    whole_login(talk)
    talk.challenge()
    failed_login(talk)
    for status in (400, 401, 200):
        talk.token(status, program="device")
    talk.challenge(fields=[("Authorization", "Bearer hmac:22")], program="device")
    talk.leg("resource-metadata", "GET", RESOURCE, None, program="silent")
    talk.leg("revocation", "POST", "/revoke", 200, program="other")
    for number in range(100):
        talk.leg("token", "POST", "/token", 400, error="slow_down", program="poll", scope=f"{number}")
    talk.leg("device", "POST", "/device", 200, program="device code")
    for _ in range(60):
        talk.leg("token", "POST", "/token", 400, error="authorization_pending", program="device code")
    talk.leg("token", "POST", "/token", 200, program="device code")
    talk.leg("token", "POST", "/token", 400, error="invalid_grant", program="device code")
    talk.end()
    path = talk.write(tmp_path)
    whole = Whole(path)
    for _ in whole.to_end():
        pass
    with understood(path) as reading:
        logins = whole.fold.logins.all()
        assert len(reading.logins) == len(logins) > 4
        for login in logins:
            shown = login_at(reading, login.number)
            assert shown is not None
            assert login_text(shown) == login_text(login)
            assert (shown.outcome, shown.count, shown.is_over) == (login.outcome, login.count, login.is_over)


def test_the_detail_of_a_login_shows_its_legs_with_their_facts(tmp_path: Path) -> None:
    with understood(two_logins(tmp_path)) as reading:
        head = reading.logins.head(2)
        text = "\n".join("".join(span.text for span in line) for line in detail(reading, head, "text").lines)
        for part in (
            "login 2: failed at token: 400 invalid_grant: the code was used before",
            "203.0.113.7 python-httpx/0.27",
            "6 requests, 2.5 s",
            "▲ +65.",
            "notes:read",
            "https://notes.example/mcp",
            "hmac:5ce1a0b4f3d29e07",
            "S256",
            "invalid_grant",
        ):
            assert part in text, text
        leg = [*reading.logins.legs(2)][-1].end
        text = "\n".join("".join(span.text for span in line) for line in detail(reading, leg, "text").lines)
        assert text.startswith("login 2\n▲ ")
        assert text.index("invalid_grant") < text.index('"stage"' if '"stage"' in text else "stage")
        summary = "\n".join("".join(span.text for span in line) for line in exchange_lines(reading, leg))
        assert "failed at token" in summary


def test_texts_of_peers_do_nothing_on_a_screen(tmp_path: Path) -> None:
    talk = LoginTalk()
    talk.challenge(program=EVIL)
    talk.leg("resource-metadata", "GET", f"{RESOURCE}/{EVIL}", 404, error=EVIL, error_description=EVIL, program=EVIL)
    talk.leg("token", "POST", "/token", 400, error=EVIL, scope=EVIL, resource=EVIL, error_uri=EVIL, program=EVIL)
    talk.leg("not a leg", "POST", "/token", 400, error=EVIL)
    talk.end()
    with understood(talk.write(tmp_path)) as reading:
        assert len(reading.logins) == 1
        for row in range(len(reading.index)):
            lines = [*detail(reading, row, "text").lines, *exchange_lines(reading, row)]
            texts = [text_at(reading, row), *("".join(span.text for span in line) for line in lines)]
            assert not ACTING & set("".join(texts))
            assert len(texts[0]) < 2000


def test_a_login_of_many_legs_is_folded_and_its_detail_is_bounded(tmp_path: Path) -> None:
    talk, count = LoginTalk(), 1500
    for _ in range(count):
        talk.leg("token", "POST", "/token", 400, error="invalid_grant", took_ms=1)
    talk.end()
    with understood(talk.write(tmp_path)) as reading:
        folds = LoginFolds(reading)
        assert len(rows_of(reading, folds)) == count + 2
        folds.fold(1, is_unfolded=False)
        assert starts(rows_of(reading, folds), f"▲login 1: failed at token: 400 invalid_grant  {count:,} requests", "■")
        assert len(detail(reading, reading.logins.head(1), "text").lines) < 200


def test_rows_whose_records_are_gone_say_so(tmp_path: Path) -> None:
    with understood(two_logins(tmp_path)) as reading:
        reading.index.read_item = lambda _row: None  # type: ignore[assignment, method-assign]
        assert login_at(reading, 2) is None
        head = reading.logins.head(2)
        assert "gone" in text_at(reading, head)
        detail(reading, head, "text")


def test_a_capture_without_logins_costs_nothing(tmp_path: Path) -> None:
    talk = LoginTalk()
    talk.session()
    talk.end()
    with understood(talk.write(tmp_path)) as reading:
        folds = LoginFolds(reading)
        folds.grow(None)
        assert folds.rows(reading.folded_rows, omits_successes=False) is reading.folded_rows


def test_cells_of_logins_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with understood(two_logins(tmp_path)) as reading:
        rows = len(reading.index)
        parts = reading.columns.part(LOGINS, 0, 2), reading.columns.part(LEGS, 0, 13)
    fresh = Columns()
    fresh.write(Batch(1, rows, 0, 0, has_ended=False, parts=b"".join(parts)), 0)
    assert len(fresh.logins) == 2
    for wrong_parts, rows_known in ((parts[1:], rows), (parts, 20)):
        with pytest.raises(ValueError, match="refers to nothing"):
            Columns().write(Batch(1, rows_known, 0, 0, has_ended=False, parts=b"".join(wrong_parts)), 0)


def test_a_finding_at_any_record_of_a_leg_is_shown_at_the_leg_and_at_its_login(tmp_path: Path) -> None:
    with understood(two_logins(tmp_path)) as reading:
        legs, head = [*reading.logins.legs(2)], reading.logins.head(2)
        # The challenge and the request for a token: all records of their exchanges, also the refused message.
        for leg in (legs[0], legs[-1]):
            for row in range(leg.start, leg.end + 1):
                seq = reading.index.entry(row).seq
                message = f"at record {seq}"
                reading.findings.add_finding(Finding("auth/login-failed", Level.ERROR, "server", 0, seq, message))
        for leg in (legs[0], legs[-1]):
            text = "\n".join("".join(span.text for span in spans) for spans in row_lines(reading, leg.end, 100))
            assert text.count("at record") == leg.end + 1 - leg.start
            for row in range(leg.start, leg.end + 1):
                is_listed = row == head or reading.index.is_frame(row)
                assert reading.logins.line_of(row) == (row if is_listed else leg.end)
        text = "\n".join("".join(span.text for span in spans) for spans in row_lines(reading, head, 100))
        assert text.count("at record") == sum(leg.end + 1 - leg.start for leg in (legs[0], legs[-1]))


def test_a_live_login_is_among_the_errors_from_its_failure_until_it_succeeds(tmp_path: Path) -> None:
    talk = LoginTalk()
    failed_login(talk)
    count = len(talk.records)
    talk.authorize()
    talk.token()
    talk.session()
    with closing(CaptureFile(tmp_path / "live.mcpcap")) as writer:
        for line in talk.records[:count]:
            writer.append(line)
        reading = InProcessReading(tmp_path / "live.mcpcap")
        scans = [Scan(reading, parse(text)) for text in ("has:failure", 'has:failure not "nothing"')]
        with closing(reading):
            while reading.step() or any(scan.step() for scan in scans):
                pass
            failed = [*reading.logins.legs(1)][-1].end
            assert not reading.logins.state(1).is_over
            assert text_at(reading, reading.logins.head(1)).startswith("▲login 1: failed at token: 400 invalid_grant")
            assert reading.next_bad_row(failed - 1, 1) == failed
            assert all([*scan.rows] == [reading.logins.head(1), 2, failed] for scan in scans)
            for line in talk.records[count:]:
                writer.append(line)
            while reading.step() or any(scan.step() for scan in scans):
                pass
            assert text_at(reading, reading.logins.head(1)).startswith("·login 1: token issued")
            assert reading.next_bad_row(failed - 1, 1) is None
            assert all([*scan.rows] == [2] for scan in scans)
            for scan in scans:
                scan.close()
