"""The text about what a mock did not have, from the errors with which it answered."""

from types import SimpleNamespace
from typing import Any

import pytest

from mcpproxy.testing import mcp_mock
from mcpproxy.testing.misses import OF_CASSETTE, OF_MARKER, OF_MOCK, misses_text


def missed_call(*differences: dict[str, str], **nearest: Any) -> Any:
    """A call of the tool `search` that a mock refused."""
    data: dict[str, Any] = {"mcpproxy": "not-recorded", "method": "tools/call", "name": "search"}
    if nearest or differences:
        data |= {
            "nearest": {"frame": 4, "method": "tools/call", "name": "search", "differences": [*differences]} | nearest
        }
    return SimpleNamespace(method="tools/call", name="search", error={"message": "…", "data": data})


TEXT = {"pointer": "/arguments/text", "recorded": '"milk"', "present": '"train"'}
PASSWORD = {"pointer": "/arguments/password", "recorded": '"secret-1"', "present": '"x"'}


def test_difference_comes_with_both_values_and_what_to_write_in_the_test() -> None:
    assert misses_text([missed_call(TEXT)], "find.mcpcap", OF_MARKER).splitlines() == [
        "1 request is not in find.mcpcap",
        "  tools/call search differs from the nearest recorded request, frame 4, at",
        '    /arguments/text: recorded "milk", now "train"',
        OF_MARKER.renewal,
        'If these values do not matter, ignore them: @pytest.mark.mcp(ignore="/arguments/text")',
    ]
    text = misses_text([missed_call(TEXT, {"pointer": "/a b", "present": "1"})], "x", OF_CASSETTE, ignored=("/now",))
    assert "    /a b: recorded nothing, now 1" in text
    assert text.endswith(r'mcp_record(…, ignore=["/now", "/arguments/text", "tools/call search \"/a b\""])'), (
        "with what is ignored already, and quoted"
    )


def test_recorded_pseudonym_is_named_and_not_to_be_recorded_again() -> None:
    text = misses_text([missed_call(PASSWORD)], "x", OF_MARKER, is_redacted=True)
    assert 'recorded "secret-1", now "x"; the recorded value is a pseudonym, so no value matches it' in text
    assert OF_MARKER.renewal not in text
    assert 'ignore="/arguments/password"' in text
    assert "pseudonym" not in misses_text([missed_call(PASSWORD)], "x", OF_MARKER), "in a recording, it is the value"


def test_miss_without_a_place_says_so() -> None:
    assert "tools/call search: no request of this method was recorded" in misses_text([missed_call()], "x", OF_MOCK)
    for session, where in (
        ({"session": 2}, "session 2, frame 4, but not in this session"),
        ({}, "frame 4, but not at this point"),
    ):
        text = misses_text([missed_call(frame=4, **session)], "x", OF_MOCK)
        assert f"tools/call search: it was recorded in {where}" in text
    other = misses_text([missed_call(name="save")], "x", OF_MOCK)
    assert "  tools/call search: the nearest recorded request is frame 4, tools/call save" in other


def test_hostile_texts_are_sanitised() -> None:
    hostile = {"pointer": "/a\x1b]0;x\x07", "recorded": "\x1b[2J", "present": "\n\x1b"}
    text = misses_text([missed_call(hostile)], "x\x1b", OF_MARKER)
    assert text.replace("\n", "").isprintable()
    wrong: tuple[Any, ...] = ("text", [], {"differences": "x"}, {"differences": [3]})
    for nearest in wrong:
        call = missed_call(TEXT)
        call.error["data"]["nearest"] = nearest
        assert misses_text([call], "x", OF_MARKER)


def test_wrong_place_to_ignore_is_refused_at_once() -> None:
    for wrong in ("arguments.text", ["/a", "b"]):
        with pytest.raises(ValueError, match="expected a JSON Pointer into the params"):
            mcp_mock("x.mcpcap", ignore=wrong)
