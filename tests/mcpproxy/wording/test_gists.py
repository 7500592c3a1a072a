"""The gist of a payload, in a few words."""

from typing import Any

from analysis.conversation.message import Request
from mcpproxy.wording.gists import brief_gist, call_gist, gist
from tests.analysis.talk import Talk


def test_a_question_comes_with_its_answer() -> None:
    for asked, answered, shown in (
        ('{"a":1}', "The sum is 3", '{"a":1} ⇒ The sum is 3'),
        ("", "3 tools", "⇒ 3 tools"),
        ("7", "", "7"),
        ("", "", ""),
    ):
        assert call_gist(asked, answered) == shown


def asked(method: str, **params: Any) -> Request:
    """A request of the client."""
    request = Talk().ask(1, method, **params).message
    assert isinstance(request, Request)
    return request


def test_arguments_next_to_an_answer_are_values() -> None:
    for arguments, shown in (
        ({"path": "notes/2.md"}, "notes/2.md"),
        ({"n": 1.50}, "1.5"),
        ({"path": ""}, 'path=""'),
        ({"path": "notes/2.md", "limit": 5, "deep": {"a": [1]}}, 'path=notes/2.md, limit=5, deep={"a":[1]}'),
        ({"edits": [1]}, "edits=[1]"),
        ({"a\x1b[2J": "\u202e", "b": 1}, r"a\x1b[2J=\u202e, b=1"),
    ):
        assert brief_gist(asked("tools/call", name="x", arguments=arguments)) == shown
    assert len(brief_gist(asked("tools/call", name="x", arguments={f"a{n}": "b" * 99 for n in range(9)}))) <= 300
    for other in (asked("tools/call", name="x", arguments={}), asked("tools/list"), asked("tools/call", name="x")):
        assert brief_gist(other) == gist(other)
    assert brief_gist(asked("tools/call", name="x", arguments={"a": 1}, requestState="s")) == "again 1"
