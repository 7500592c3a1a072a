"""The gist of a payload, in a few words."""

import pytest

from mcpproxy.wording.gists import asked_and_answered


@pytest.mark.parametrize(
    ("asked", "answered", "room", "shown"),
    [
        ('{"a":1}', "The sum is 3", 40, '{"a":1} ⇒ The sum is 3'),
        ("", "3 tools", 40, "⇒ 3 tools"),
        ("7", "", 40, "7"),
        ("", "", 40, ""),
        ("a" * 30, "b" * 30, 23, "a" * 9 + "… ⇒ " + "b" * 30),
        ("a" * 30, "bb", 23, "a" * 17 + "… ⇒ bb"),
    ],
)
def test_a_question_leaves_room_for_its_answer(asked: str, answered: str, room: int, shown: str) -> None:
    assert asked_and_answered(asked, answered, room) == shown
