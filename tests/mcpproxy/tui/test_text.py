"""The text of a row: decoded, wrapped and complete, with nothing hidden in it."""

import base64
import json
import re
import stat
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.tui.copies.saving import save
from mcpproxy.tui.details.detail import detail
from mcpproxy.tui.text import lines as lines_module
from mcpproxy.tui.text.content import Attachment, MessageWriter
from mcpproxy.tui.text.lines import MAX_TEXT_LINES, TextLines, wrap
from mcpproxy.tui.text.messages import write_frame
from tests.captures.samples import header
from tests.mcpproxy.tui.hostile import HOSTILE
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import CALL, frame_record, record


def drawn(lines: TextLines) -> list[str]:
    return ["".join(span.text for span in spans) for spans in lines]


def text(message: Any, width: int = 76) -> list[str]:
    """The lines of a message."""
    raw = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
    writing = MessageWriter(width)
    write_frame(writing, raw)
    return drawn(writing.lines)


def result(value: Any) -> list[str]:
    return text({"id": 1, "result": value})


def block(value: str) -> Any:
    return {"content": [{"type": "text", "text": value}]}


class TestResults:
    """Results of servers."""

    def test_line_ends_and_tabs_are_real(self) -> None:
        assert result(block("one\ntwo\r\n\n\tthree\n")) == ["one", "two", "", "    three"]

    def test_json_in_a_text_is_indented_and_keeps_its_digits(self) -> None:
        lines = result(block('{"a":1.50,"n":12345678901234567890123,"l":[],"o":{"x":"1\\n2"}}'))
        assert lines == [
            "{", '  "a": 1.50,', '  "n": 12345678901234567890123,', '  "l": [],',
            '  "o": {', '    "x": "1\\n2"', "  }", "}",
        ]  # fmt: skip

    def test_text_that_only_begins_like_json_stays_as_it_is(self) -> None:
        assert result(block("[info] started\n[info] done")) == ["[info] started", "[info] done"]

    def test_several_blocks_have_headings(self) -> None:
        lines = result({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})
        assert lines == ["text 1 of 2", "a", "text 2 of 2", "b"]

    def test_structured_content_comes_after_the_text(self) -> None:
        assert result({**block("hi"), "structuredContent": {"n": 1}}) == ["hi", "structuredContent", "n: 1"]

    def test_structured_content_that_repeats_the_text_is_only_mentioned(self) -> None:
        lines = result({**block('{"n":1}'), "structuredContent": {"n": 1}})
        assert lines == ["{", '  "n": 1', "}", "structuredContent says the same"]
        assert "n: 2" in result({**block('{"n":1}'), "structuredContent": {"n": 2}})

    def test_structured_content_that_wraps_the_text_is_only_mentioned(self) -> None:
        assert (
            result({**block("a\nb"), "structuredContent": {"result": "a\nb"}})[-1] == "structuredContent says the same"
        )
        assert result({**block('{"n":1}'), "structuredContent": {"result": {"n": 1}}})[3:] == [
            "structuredContent says the same"
        ]
        assert "result: b" in result({**block("a"), "structuredContent": {"result": "b"}})
        assert "more: 1" in result({**block("a"), "structuredContent": {"result": "a", "more": 1}})

    def test_a_tool_error_is_named(self) -> None:
        assert result({**block("no"), "isError": True}) == ["tool error", "no"]

    def test_images_are_named_with_their_size(self) -> None:
        data = base64.b64encode(bytes(60_000)).decode()
        assert result({"content": [{"type": "image", "mimeType": "image/png", "data": data}]}) == [
            "image/png · 60.0 kB   o saves it"
        ]

    def test_resources(self) -> None:
        contents = [{"uri": "file:///a", "mimeType": "text/plain", "text": "x\ny"}, {"uri": "u", "blob": "aGk="}]
        assert result({"contents": contents}) == [
            "file:///a · text/plain", "x", "y", "u", "blob · 2 B   o saves it",
        ]  # fmt: skip
        inner = {"type": "resource", "resource": contents[0]}
        assert result({"content": [inner]})[-3:] == ["file:///a · text/plain", "x", "y"]

    def test_messages_of_a_prompt_have_their_role(self) -> None:
        messages = [{"role": role, "content": {"type": "text", "text": f"{role}\nsays"}} for role in ("user", "model")]
        assert result({"description": "d", "messages": messages}) == [
            "d", "user:", "  user", "  says", "model:", "  model", "  says",
        ]  # fmt: skip

    def test_meta_has_no_text(self) -> None:
        lines = result({**block("hi"), "_meta": {"secret": "poison"}})
        assert lines == ["hi", "_meta is in pretty"]

    def test_members_that_are_not_known_are_shown(self) -> None:
        assert "odd: member" in result({"content": [{"type": "text", "text": "a", "odd": "member"}]})
        assert "nextCursor: c" in result({"tools": [], "nextCursor": "c"})

    def test_a_second_text_with_the_same_name_is_not_hidden(self) -> None:
        raw = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"poison","text":"fine"}]}}'
        assert text(raw) == ["fine", "text: poison"]

    @pytest.mark.parametrize("value", [{}, {"content": []}, [], None, 5, "x", {"content": {}}, {"content": [5, None]}])
    def test_odd_results_have_a_text(self, value: Any) -> None:
        assert result(value)


class TestOthers:
    """Requests, errors, notifications, and text that is not a message."""

    def test_a_call_shows_its_arguments(self) -> None:
        arguments = {"path": "a/b", "n": "1", "t": True, "text": "1\n  2", "l": ["a", {"x": None}], "_meta": "kept"}
        assert text({"id": 1, "method": "tools/call", "params": {"name": "write", "arguments": arguments}})[:12] == [
            "tools/call write", "  path: a/b", '  n: "1"', "  t: true", "  text:", "    1", "      2", "  l:",
            "    - a", "    -", "      x: null", "  _meta: kept",
        ]  # fmt: skip

    def test_an_error_shows_code_message_and_data(self) -> None:
        error = {"code": -32602, "message": "no\npage", "data": "Trace\n  x"}
        assert text({"id": 1, "error": error}) == ["error -32602", "no", "page", "data", "  Trace", "    x"]
        assert text({"id": 1, "error": {"code": 1, "message": "m", "data": {"a": [1]}}})[-3:] == [
            "data:",
            "  a:",
            "    - 1",
        ]

    def test_notifications(self) -> None:
        log = {"level": "error", "logger": "db", "data": "lost\nit"}
        assert text({"method": "notifications/message", "params": log}) == [
            "notifications/message [error] db", "  lost", "  it",
        ]  # fmt: skip
        progress = {"progressToken": 7, "progress": 3, "total": 10, "message": "half"}
        lines = text({"method": "notifications/progress", "params": progress})
        assert lines[:2] == ["notifications/progress 3/10 (30%)", "  half"]

    def test_what_is_no_message_is_its_text(self) -> None:
        assert text(b"Loaded 3 plugins\xff") == ["Loaded 3 plugins\\xff"]
        assert text(b"") == ["no bytes"]

    def test_batches(self) -> None:
        assert text(b'[{"jsonrpc":"2.0","id":1,"method":"ping"},7]') == [
            "message 1 of 2", "ping", "  without parameters", "message 2 of 2", "7",
        ]  # fmt: skip

    def test_definitions(self) -> None:
        schema = {
            "type": "object",
            "properties": {
                "q": {"type": "string", "description": "What\nto find"},
                "n": {"type": ["integer", "null"], "default": 5, "minimum": 1},
                "kind": {"enum": ["a", "b"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "where": {"type": "object", "properties": {"floor": {"type": "integer"}}, "required": ["floor"]},
            },
            "required": ["q"],
        }
        lines = result({"tools": [{"name": "search", "description": "Finds.\n\nAll.", "inputSchema": schema}]})
        assert [line for line in lines if line.strip()] == [
            "search", "  Finds.", "  All.", "  parameters (5)", "    q string, required", "      What", "      to find",
            "    n integer or null, default 5", "      minimum: 1", "    kind one of a, b", "    tags array of string",
            "    where object", "      floor integer, required",
        ]  # fmt: skip


def much(less: int = 1) -> dict[str, str]:
    """Texts with more of something than is shown, or with `less` times less of it."""
    return {
        "long": "x" * (5_000_000 // less),
        "lines": "\n" * (3_000_000 // less),
        "odd": "é " * (500_000 // less),
        "deep": "[" * 100_000,
        "many": json.dumps([[]] * (600_000 // less)),
        "marks": "e" + "\u0301" * (200_000 // less),
    }


JOINED_EMOJI = r"(?<=[\u2190-\u2bff\U0001f000-\U0001faff\ufe0f])\u200d(?=[\u2190-\u2bff\U0001f000-\U0001faff])"
"""A joiner between two emoji, which hides nothing."""


class TestSafety:
    """Hostile text, odd text, and much text."""

    @pytest.mark.parametrize("evil", HOSTILE)
    def test_nothing_acts_and_nothing_hides(self, evil: str) -> None:
        for made in (result(block(evil)), text(evil.encode("utf-8", "surrogatepass")), result({evil: evil})):
            assert all(char.isprintable() for line in made for char in re.sub(JOINED_EMOJI, "", line))

    def test_hidden_characters_are_pointed_out(self, tmp_path: Path) -> None:
        answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": block("fine\u202e\u200b")}).encode()
        path = record(
            tmp_path / "x.mcpcap",
            [("header", header()), frame_record("c2s", CALL % (1, 1)), frame_record("s2c", answer)],
        )
        reading = Reading(path)
        while reading.step():
            pass
        lines = ["".join(span.text for span in line) for line in detail(reading, 2, "text").lines]
        assert lines == [r"▲ hidden characters are shown as escapes, such as \u202e", r"fine\u202e\u200b"]
        reading.close()

    @given(st.text(max_size=300), st.integers(8, 40))
    def test_a_wrapped_text_is_the_text(self, value: str, width: int) -> None:
        lines = TextLines(width)
        lines.write_foreign(value)
        for number in range(len(lines)):
            assert len(drawn(lines)[number]) <= 12 * width
        joined = "".join(
            ("" if lines.is_continuation(number) or not number else "\n") + lines.text(number)
            for number in range(len(lines))
        )
        whole = TextLines(1 << 20)
        whole.write_foreign(value)
        assert joined == "\n".join(whole.text(number) for number in range(len(whole)))

    @given(st.text("ab é漢 ", max_size=200), st.integers(2, 30))
    def test_pieces_break_at_spaces(self, value: str, width: int) -> None:
        pieces = list(wrap(value, width))
        assert "".join(pieces) == value
        for piece, following in pairwise(pieces):
            assert len(piece) <= width + 1
            assert piece.endswith(" ") or " " not in piece.strip() or following.startswith(" ")

    def test_much_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lines_module, "MAX_TEXT_LINES", MAX_TEXT_LINES // 100)
        for name, value in much(100).items():
            assert 0 < len(result(block(value))) <= MAX_TEXT_LINES // 100 + 1, name

    @pytest.mark.soak
    @pytest.mark.parametrize("name", ["long", "lines", "odd", "deep", "many", "marks"])
    def test_very_much_is_bounded_and_quick(self, name: str) -> None:
        value, began = much()[name], time.process_time()
        assert 0 < len(result(block(value))) <= MAX_TEXT_LINES + 1
        assert time.process_time() - began < 30

    @given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=9),
           lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
               st.sampled_from(["content", "text", "type", "resource", "messages", "tools", "role", "error", "name",
                                "params", "inputSchema", "properties", "required", "enum", "description", "_meta",
                                "anyOf", "items", "annotations", "structuredContent", "blob", "data", "level"])
               | st.text(max_size=3), inner, max_size=5), max_leaves=25))  # fmt: skip
    def test_any_value_has_a_text(self, value: Any) -> None:
        for message in (
            {"id": 1, "result": value},
            {"id": 1, "error": value},
            {"id": 1, "method": "tools/call", "params": value},
            {"method": "notifications/message", "params": value},
            {"id": 1, "result": {"tools": [value], "content": [value]}},
            {"id": 1, "result": {"content": [{"type": "text", "text": value}], "messages": [value]}},
        ):
            assert all("\n" not in line for line in text(message))


class TestSaving:
    """Images, sounds and blobs become files."""

    def test_the_bytes_come_out_as_they_were(self, tmp_path: Path) -> None:
        place = tmp_path / "x.png"
        done = save(
            Attachment("image/png", base64.urlsafe_b64encode(bytes(range(256))).decode().rstrip("=")), str(place)
        )
        assert done.message == f"saved 256 B to {place}"
        assert not done.is_bad
        assert place.read_bytes() == bytes(range(256))
        assert stat.S_IMODE(place.stat().st_mode) == 0o600

    def test_nothing_is_overwritten(self, tmp_path: Path) -> None:
        place = tmp_path / "x.png"
        place.write_bytes(b"mine")
        (tmp_path / "link").symlink_to(tmp_path / "target")
        assert "already exists" in save(Attachment("a/b", "aGk="), str(place)).message
        assert save(Attachment("a/b", "aGk="), str(tmp_path / "link")).is_bad
        assert place.read_bytes() == b"mine"
        assert not (tmp_path / "target").exists()

    @pytest.mark.parametrize("data", ["a", "not base64!", "aGk=aGk="])
    def test_invalid_base64_is_not_written(self, tmp_path: Path, data: str) -> None:
        assert save(Attachment("a/b", data), str(tmp_path / "x")).is_bad
        assert not (tmp_path / "x").exists()


def test_aligned_text_continues_below_itself() -> None:
    lines = TextLines(20)
    lines.write_labelled("why    ", "one two three four", is_aligned=True)
    assert [lines.indent(at) for at in range(len(lines))] == [0, 8]
