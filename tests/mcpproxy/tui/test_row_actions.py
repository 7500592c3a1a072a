"""Rows can be marked and noted in a file next to the capture, copied without harm, and exported."""

import os
from pathlib import Path

import pytest

from analysis.filter import KEYS, parse
from mcpproxy.marks import MarkError, Marks, marks_path
from mcpproxy.tui.completion import filter_completion, finished_part
from mcpproxy.tui.copies import copy_forms
from mcpproxy.tui.copies.export_thread import Export
from mcpproxy.tui.data.call_kinds import CallKind
from mcpproxy.wording.resending import insert_placeholders, pretty_json
from tests.captures.samples import CAPTURE
from tests.harness import ROOT
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import captured

HTTP = ROOT / "tests/corpus/captures/http.mcpcap"


class TestMarks:
    """The file next to the capture that holds marks and notes."""

    @pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
    def test_a_directory_that_is_read_only(self, tmp_path: Path) -> None:
        path = captured(tmp_path)
        path.parent.chmod(0o500)
        with pytest.raises(MarkError, match="Permission denied"):
            Marks(path, CAPTURE).toggle(1)

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"[]",
            b"null",
            b"{",
            b'{"marks": 2, "capture": "x", "rows": []}',
            b'{"marks": 1, "capture": "other", "rows": []}',
            b'{"marks": 1, "capture": "x", "rows": 5}',
            b'{"marks": 1, "capture": "x", "rows": [5]}',
            b'{"marks": 1, "capture": "x", "rows": [{"seq": []}, {}]}',
            b"[" * 100_000,
            b"\xff\xfe",
            b" " * (5 << 20),
        ],
        ids=lambda content: content[:30].decode("latin-1"),
    )
    def test_what_is_not_ours_stays_as_it_is(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "a.mcpcap"
        marks_path(path).write_bytes(content)
        marks = Marks(path, "x")
        with pytest.raises(MarkError):
            marks.toggle(1)
        assert marks_path(path).read_bytes() == content
        assert marks.notes == {}

    def test_links_pipes_and_folders_are_not_followed(self, tmp_path: Path) -> None:
        path, other = tmp_path / "a.mcpcap", tmp_path / "other.json"
        other.write_text('{"marks": 1, "capture": "x", "rows": []}')
        marks_path(path).symlink_to(other)
        with pytest.raises(MarkError, match="symbolic link"):
            Marks(path, "x").load()
        marks_path(path).unlink()
        os.mkfifo(marks_path(path))
        with pytest.raises(MarkError, match="is not a regular file"):
            Marks(path, "x").load()
        marks_path(path).unlink()
        marks_path(path).mkdir()
        with pytest.raises(MarkError, match="is not a regular file"):
            Marks(path, "x").load()

    def test_two_windows_keep_each_others_marks_and_segments_share_one_file(self, tmp_path: Path) -> None:
        one, other = Marks(tmp_path / "a.mcpcap", "x"), Marks(tmp_path / "a.3.mcpcap", "x")
        assert one.toggle(1)
        other.set_note(2, "  from\x1b the other ")
        assert one.toggle(3)
        assert one.notes == {1: "", 2: "from\x1b the other", 3: ""}
        assert not other.toggle(1)
        assert [one.next_after(seq) for seq in (0, 1, 2, 3)] == [1, 2, 3, 1]
        with pytest.raises(MarkError, match="Unicode"):
            one.set_note(4, "\ud800")

    def test_a_note_goes_only_where_it_is_meant(self, tmp_path: Path) -> None:
        marks = Marks(captured(tmp_path), CAPTURE)
        marks.set_note(2, "a word")
        assert marks.toggle(2)
        assert marks.notes == {2: "a word"}
        marks.set_note(2, " ")
        assert marks.notes == {}
        marks.set_note(3, "")
        assert marks.notes == {3: ""}
        assert not marks.toggle(3)


class TestCopying:
    """What is copied, and that it has no effect where it is pasted."""

    def test_an_answer_is_copied_with_the_command_of_its_request(self) -> None:
        reading = Reading(HTTP)
        while reading.step():
            pass
        answer = next(row for row in range(len(reading.index)) if reading.index.entry(row).kind == "response")
        found = {form.key: form.text for form in copy_forms.forms(reading, answer)}
        assert found["c"].startswith("curl --globoff --no-buffer --request POST --url https://example.com/mcp ")
        assert "--header 'authorization: <AUTHORIZATION>'" in found["c"]
        assert '"method":"tools/call"' in found["c"]
        assert "hmac:" not in found["c"]
        reading.close()

    def test_placeholders(self) -> None:
        assert insert_placeholders("https://h/?key=hmac:8f3b0c7de1a2946b&x=1") == "https://h/?key=<KEY>&x=1"
        assert insert_placeholders("hmac:8f3b0c7de1a2946b") == "<HIDDEN>"
        assert insert_placeholders("Bearer hmac:8f3b0c7de1a2946b", "authorization") == "Bearer <AUTHORIZATION>"

    def test_pretty_keeps_every_token_and_nothing_acts(self) -> None:
        raw = '{"a":1.0,"a":[],"b":[1e5,{"c":"x\x7f\u202e {:,}[]\\u001b"}],"d":{}}'.encode()
        assert pretty_json(raw).splitlines() == [
            "{",
            '  "a": 1.0,',
            '  "a": [],',
            '  "b": [',
            "    1e5,",
            "    {",
            '      "c": "x\\u007f\\u202e {:,}[]\\u001b"',
            "    }",
            "  ],",
            '  "d": {}',
            "}",
        ]
        assert pretty_json(b'"x"') == '"x"'
        assert pretty_json(b"{") == pretty_json(b"\xff") == ""


class TestCompletion:
    """Completion with Tab in the filter."""

    def test_all_that_is_offered_is_a_filter(self) -> None:
        calls = [
            CallKind("client", method, name)
            for method in ("a/b", 'q"uo te\\', "e\x1b", "größe")
            for name in (None, "x y", "")
        ]
        for key in KEYS:
            term, found = filter_completion(f'"some (text" or ({key}:', calls)
            assert term == f"{key}:"
            for option in found.options if found is not None else ():
                assert parse(option).keys
        _, found = filter_completion("", calls)
        assert found is not None
        assert set(found.options) >= {"latency>", "method:", "not"}
        assert filter_completion('method:"q', calls)[1] == ('method:"q\\"uo te\\\\"', ())

    def test_what_is_half_typed_is_left_out(self) -> None:
        for end in ("", " ", " o", " OR", " and  not ", " a", " an", " no", " or (", " (not", " met", " or ( la"):
            assert finished_part(f"name:x{end}") == "name:x", end
        for text in ("text:or", "name:x oops", '"b or"', "or:x", "name:x of", "(a)", 'a "n', "met or:", "latencies"):
            assert finished_part(text) == text
        assert finished_part(" not ") == finished_part("l") == ""
        assert finished_part("met ") == finished_part("met or ") == "met"


class TestExport:
    """The listed rows are exported as lines of JSON to a new file."""

    def test_leaving_in_between_leaves_nothing_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = captured(tmp_path, calls=6)
        monkeypatch.chdir(tmp_path)
        export = Export(path, range(50), tmp_path / "half")
        assert (tmp_path / "half").exists()
        export.abandon()
        assert not (tmp_path / "half").exists()
        whole = Export(path, range(5), tmp_path / "whole")
        while whole.step():
            pass
        whole.abandon()
        assert len((tmp_path / "whole").read_text().splitlines()) == 5
