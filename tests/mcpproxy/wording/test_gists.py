"""The gist of a payload, in a few words."""

from mcpproxy.wording.gists import call_gist


def test_a_question_comes_with_its_answer() -> None:
    for asked, answered, shown in (
        ('{"a":1}', "The sum is 3", '{"a":1} ⇒ The sum is 3'),
        ("", "3 tools", "⇒ 3 tools"),
        ("7", "", "7"),
        ("", "", ""),
    ):
        assert call_gist(asked, answered) == shown
