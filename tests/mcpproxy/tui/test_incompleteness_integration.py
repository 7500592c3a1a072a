"""What a capture lacks: said above the traffic, in the rows in their place, and at the request whose answer is lost."""

from pathlib import Path

from captures.record import members
from tests.captures.samples import in_pieces, lines
from tests.mcpproxy.tui.stage import CALL, END, FINE, Stage, captured, conversation, frame_record, play, record


def gapped(folder: Path, *, has_record: bool) -> Path:
    """A capture that lacks two records after a request, with a record of the gap or without."""
    middles = [
        *conversation(1, "gapped"),
        frame_record("c2s", CALL % (7, 7)),
        END,
        END,
        ("gap", members(first=9, last=10, reason="ENOSPC")) if has_record else frame_record("c2s", CALL % (8, 8)),
        frame_record("s2c", FINE % (8, 8)),
        END,
    ]
    made = lines(middles)
    path = folder / "gapped" / f"20261121T101502Z-000{int(has_record)}.mcpcap"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(made[:9] + made[11:]))
    return path


def test_the_lost_answer_is_no_error_and_says_where_it_may_be(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.open()
        await stage.settled()
        await stage.see("▲ 2 records lost: 9 to 10", "2 records lost: ENOSPC", "lost with 9–10?")
        assert "unanswered" not in stage.text()
        assert "lost here" not in stage.text()
        await stage.press("exclamation_mark")
        await stage.settled()
        assert "lost with" not in stage.text()
        await stage.press("escape", "colon", *"8", "enter", "6")
        await stage.see("not recorded: lost with records 9 to 10?")

    play(act, gapped(tmp_path, has_record=True), size=(100, 40))


def test_a_row_after_records_that_no_gap_names_says_so(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.open()
        await stage.settled()
        await stage.see("▲ 2 records lost: 9 to 10", "▲ 2 records lost here", "lost with 9–10?")
        await stage.resize((40, 10))
        await stage.settled()

    play(act, gapped(tmp_path, has_record=False), size=(140, 30))


def test_a_frame_in_parts_is_no_loss(tmp_path: Path) -> None:
    raw = FINE % (7, 7)
    middles = [
        *conversation(1, "parts"),
        frame_record("c2s", CALL % (7, 7)),
        *in_pieces("s2c", raw, len(raw) // 4),
        END,
    ]

    async def act(stage: Stage) -> None:
        await stage.open()
        await stage.settled()
        await stage.see("found 7")
        assert "lost" not in stage.text()

    play(act, record(tmp_path / "parts" / "20261121T101502Z-0003.mcpcap", middles))


def test_a_missing_end_and_damage_are_lines_above(tmp_path: Path) -> None:
    whole = captured(tmp_path)
    made = whole.read_bytes().splitlines(keepends=True)
    torn = tmp_path / "torn" / "20261121T101502Z-0002.mcpcap"
    torn.parent.mkdir()
    torn.write_bytes(b"".join([*made[:6], b"\x00\x1b[31mnoise\n", *made[6:12], made[12][:20]]))

    async def act(stage: Stage) -> None:
        await stage.open()
        await stage.settled()
        await stage.see("▲ 1 place of the file damaged", "▲ no end after record 11: killed or cut", "unfinished record")

    play(act, torn, size=(100, 30))


def test_a_complete_capture_has_no_line(tmp_path: Path) -> None:
    async def act(stage: Stage) -> None:
        await stage.open()
        await stage.settled()
        assert "▲" not in stage.text()

    play(act, captured(tmp_path))


def test_the_list_says_why_a_capture_cannot_be_read(tmp_path: Path) -> None:
    texts = {"none": b"", "text": b"\x1b]0;EVIL\x07hello\n", "later": b""}
    paths = []
    for number, (name, raw) in enumerate(texts.items()):
        path = tmp_path / name / f"20261121T10150{number}Z-4f2a.mcpcap"
        path.parent.mkdir()
        path.write_bytes(raw)
        paths.append(path)
    paths[2].write_bytes(lines([("header", members(format=99))])[0])

    async def act(stage: Stage) -> None:
        await stage.listed()
        await stage.see("cannot be read: it is empty", "cannot be read: it contains no capture records")
        await stage.see("cannot be read: a later version of mcpproxy wrote it")

    play(act, *paths, captured(tmp_path), size=(100, 20))
