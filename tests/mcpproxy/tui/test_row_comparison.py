"""Two rows compared: which facts and lines differ, how they are shown, and what is not compared."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from mcpproxy.tui.details.row_comparison import (
    RowComparison,
    RowFact,
    _compared_part,
    compare_rows,
    previous_call_row,
)
from mcpproxy.tui.details.row_comparison_view import comparison_text
from mcpproxy.wording.cells import cells
from tests.captures.samples import header
from tests.mcpproxy.tui.hostile import HOSTILE
from tests.mcpproxy.tui.in_process_reading import InProcessReading
from tests.mcpproxy.tui.stage import END, INITIALIZE, INITIALIZED, Middles, frame_record, record

MEAN = "".join(text for text in HOSTILE if len(text) < 100)


def call(number: int, arguments: Any, result: Any = None, error: Any = None, tool: str = "search") -> Middles:
    """A call and its answer, if there is one."""
    params = {"name": tool, "arguments": arguments}
    request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    answer = {"jsonrpc": "2.0", "id": number} | ({"error": error} if error is not None else {"result": result})
    messages: Middles = [frame_record("c2s", orjson.dumps(request))]
    return (
        [*messages, frame_record("s2c", orjson.dumps(answer))] if result is not None or error is not None else messages
    )


def text(*texts: str, **members: Any) -> dict[str, Any]:
    """A result with texts."""
    return {"content": [{"type": "text", "text": text} for text in texts], **members}


@contextmanager
def read(path: Path, *middles: Middles) -> Iterator[InProcessReading]:
    """A reading of a capture with a handshake, whose next row is 3."""
    start = [("header", header(name="library")), frame_record("c2s", INITIALIZE), frame_record("s2c", INITIALIZED)]
    reading = InProcessReading(
        record(path / "a.mcpcap", [*start, *(middle for part in middles for middle in part), END])
    )
    try:
        while reading.step():
            pass
        yield reading
    finally:
        reading.close()


def compared(path: Path, old: Middles, new: Middles) -> RowComparison:
    """The comparison of two calls."""
    with read(path, old, new) as reading:
        return compare_rows(reading, 3, 3 + len(old))


def shown(comparison: RowComparison, width: int = 120) -> str:
    """The lines of a comparison."""
    lines = comparison_text(comparison, width).lines
    return "\n".join("".join(span.text for span in line).rstrip() for line in lines)


def test_exchanges_that_differ_only_in_ids_times_and_order_of_members_have_no_difference(tmp_path: Path) -> None:
    comparison = compared(tmp_path, call(1, {"a": 1, "b": 2}, text("x")), call(2, {"b": 2, "a": 1.0}, text("x")))
    assert comparison.difference_count == 0
    assert comparison.is_whole
    assert shown(comparison).splitlines()[0] == "no difference"
    assert comparison_text(comparison, 120).difference_lines == []


def test_arguments_outcome_and_answer_are_compared_and_signs_tell_the_sides_apart(tmp_path: Path) -> None:
    old = call(1, {"path": "a/1", "deep": {"n": 1}}, text("fine"))
    new = call(2, {"path": "a/2", "limit": 5, "deep": {"n": 1}}, text("Access denied", isError=True))
    comparison = compared(tmp_path, old, new)
    assert comparison.subject == "tools/call search"
    assert comparison.difference_count == 5
    wide, narrow = shown(comparison), shown(comparison, 80)
    assert wide.splitlines()[0].split() == ["old", "│", "new"]
    for line in (
        ["outcome", "ok", "≠", "outcome", "tool", "error"],
        ['"path":', '"a/1",', "≠", '"path":', '"a/2",'],
        ["+", '"limit":', "5"],
        ['"n":', "1", "│", '"n":', "1"],
        ['"fine"', "≠", '"Access', 'denied"'],
        ["+", '"isError":', "true"],
    ):
        assert line in [shown_line.split() for shown_line in wide.splitlines()], line
    assert "- outcome   ok\n+ outcome   tool error" in narrow
    assert '-   "path": "a/1",\n+   "path": "a/2",' in narrow
    assert '+   "limit": 5\n' in narrow
    assert "- frame     frame 3, +" in narrow
    assert "+ frame     frame 5, +" in narrow
    assert [heading for heading in narrow.splitlines() if heading in ("arguments", "text", "result")] == [
        "arguments", "text", "result",
    ]  # fmt: skip


_VALUES = st.recursive(
    st.sampled_from(["", "{", "}", "a\n{", "{\nb\n}", 1, 1.0, True, None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


@given(_VALUES, _VALUES)
@example("{\nb", "a\nb")
def test_the_number_of_differences_is_the_same_from_both_sides(old: Any, new: Any) -> None:
    facts = [RowFact("call", "", "")]
    counts = [
        RowComparison(facts, [_compared_part("result", *sides)], []).difference_count
        for sides in ((old, new), (new, old))
    ]
    assert counts[0] == counts[1]


def test_an_outcome_keeps_its_colour_on_both_sides(tmp_path: Path) -> None:
    old, new = call(1, {}, text("x", isError=True)), call(2, {}, text("x"))
    for parts, roles in (((old, new), ["bad", "plain"]), ((new, old), ["plain", "bad"])):
        comparison = compared(tmp_path, *parts)
        for width in (80, 120):
            lines = [
                line for line in comparison_text(comparison, width).lines if any("outcome" in s.text for s in line)
            ]
            spans = [span for line in lines for span in line]
            assert [span.role for span in spans if span.text.strip() in ("ok", "tool error")] == roles


def test_texts_are_compared_by_lines_and_json_in_them_by_members(tmp_path: Path) -> None:
    old = call(1, {}, text("one\ntwo\nthree", '{"a":1,"b":[1,2]}'))
    new = call(2, {}, text("one\n2\nthree", '{"b":[1,3],"a":1}'))
    comparison = compared(tmp_path, old, new)
    assert comparison.difference_count == 3
    told = [line.split() for line in shown(comparison).splitlines()]
    assert ["two", "≠", "2"] in told
    assert ["three", "│", "three"] in told
    assert ["-", "2"] in [line.split() for line in shown(comparison, 80).splitlines()]
    assert ['"a":', "1,", "│", '"a":', "1,"] in told


def test_every_run_of_differences_can_be_reached(tmp_path: Path) -> None:
    old, new = ({f"m{number}": number if number % 10 else side for number in range(30)} for side in "ab")
    text_ = comparison_text(compared(tmp_path, call(1, old), call(2, new)), 120)
    assert len(text_.difference_lines) == 3
    for line in text_.difference_lines:
        assert "≠" in "".join(span.text for span in text_.lines[line])


def test_a_call_is_compared_with_the_one_before_of_the_same_method_and_name(tmp_path: Path) -> None:
    parts = (
        call(1, {}, text("1")),
        call(2, {}, text("2"), tool="other"),
        call(3, {}, error={"code": 1, "message": "x"}),
    )
    with read(tmp_path, *parts, [frame_record("c2s", b'{"jsonrpc":"2.0","method":"notifications/x"}')]) as reading:
        assert [previous_call_row(reading, row) for row in range(3, 10)] == [None, None, None, None, 3, 3, None]
        comparison = compare_rows(reading, 3, 8)
    assert "error" in [part.name for part in comparison.parts]
    assert [fact.new for fact in comparison.facts if fact.name == "outcome"] == ["error"]


def test_other_messages_are_compared_by_themselves(tmp_path: Path) -> None:
    lines = [frame_record("s2c", b"Loaded 3 plugins"), frame_record("s2c", b"Loaded 4 plugins")]
    notes = [
        frame_record("s2c", b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"%s"}}' % data)
        for data in (b"a", b"b")
    ]
    with read(tmp_path, lines, notes) as reading:
        assert compare_rows(reading, 3, 4).difference_count == 1
        assert [fact.name for fact in compare_rows(reading, 5, 6).facts] == ["message", "frame", "size"]
        assert compare_rows(reading, 5, 6).difference_count == 1
        assert compare_rows(reading, 3, 6).difference_count >= 2
        assert compare_rows(reading, 3, 3).difference_count == 0


def test_what_is_too_large_is_not_compared_and_said(tmp_path: Path) -> None:
    old, new = (call(number, {"n": number}, text("x" * ((1 << 20) + number))) for number in (1, 2))
    comparison = compared(tmp_path, old, new)
    assert comparison.difference_count == 1
    assert not comparison.is_whole
    assert [remark.partition(" has ")[0] for remark in comparison.remarks] == ["frame 4", "frame 6"]
    assert shown(comparison).startswith("▲ frame 4 has 1.0 MB, so its content is not compared")
    same = compared(tmp_path, call(1, {}, text("x" * (1 << 20))), call(2, {}, text("x" * (1 << 20))))
    assert "no difference in what was compared" in shown(same)


def test_long_lists_and_many_texts_are_bounded(tmp_path: Path) -> None:
    old, new = (call(number, [number + at for at in range(50_000)], text(*"ab" * 5_000)) for number in (1, 100_000))
    comparison = compared(tmp_path, old, new)
    assert not comparison.is_whole
    assert len(comparison_text(comparison, 80).lines) < 50_000
    assert "… more: see the frames" in shown(comparison, 80)
    assert len(comparison.parts) < 30


def test_no_text_of_a_peer_acts_on_the_terminal(tmp_path: Path) -> None:
    old, new = (
        call(number, {MEAN: MEAN + str(number)}, text(MEAN, f"{MEAN}\n{number}"), tool=MEAN * 2_000)
        for number in (1, 2)
    )
    comparison = compared(tmp_path, old, new)
    deep = compared(tmp_path, [frame_record("c2s", b"[" * 200_000)], [frame_record("c2s", b'"' + b"a" * 200_000)])
    for width in (1, 30, 80, 160):
        for told in (shown(comparison, width), shown(deep, width)):
            assert not {"\x1b", "\x07", "\u202e"} & set(told)
            assert max(map(cells, told.splitlines())) <= max(width, 20)
