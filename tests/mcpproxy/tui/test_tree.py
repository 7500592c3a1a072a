"""JSON as lines: each token as it crossed, duplicate members shown twice, and never too many lines."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.sanitise import sanitise
from mcpproxy.tui.widgets.tree import MAX_TREE_LINES, Tree, tree_lines
from mcpproxy.wording.exact_json import parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="ascii", categories=("L", "N"))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('abc"\\', max_size=3), inner, max_size=4),
    max_leaves=30,
)


def written(text: str) -> str:
    """All lines of a JSON text."""
    tree = Tree(tree_lines(parse(text)))
    return "".join("".join(span.text for span in tree.spans(line)) + "\n" for line in range(len(tree.visible_lines)))


@given(VALUES)
def test_what_is_shown_is_the_value(value: Any) -> None:
    assert json.loads(written(json.dumps(value)).replace("▾ ", "")) == value


@pytest.mark.parametrize("token", ["1.0", "1e400", "12345678901234567890123", "-0.0", "NaN", "-Infinity", "0.10"])
def test_numbers_keep_their_digits(token: str) -> None:
    assert token in written(f'{{"n":{token}}}')


def test_members_come_as_often_as_they_crossed() -> None:
    assert written('{"id":1,"id":2}').count('"id"') == 2


def test_nothing_in_a_text_acts() -> None:
    shown = written(json.dumps({"a\x1b]0;x\x07": "\u202e\x9b[/b]\n"}))
    assert all(char.isprintable() for char in shown.replace("\n", ""))


@pytest.mark.parametrize("text", ["[" + "[]," * 100_000 + "1]", "[" * 400 + "]" * 400, '{"a":' * 400 + "1" + "}" * 400])
def test_large_and_deep_values_are_bounded(text: str) -> None:
    lines = tree_lines(parse(text))
    assert len(lines) <= MAX_TREE_LINES + 1000
    assert all(line.end < len(lines) for line in lines)


def test_long_texts_are_cut_and_say_how_long_they_are() -> None:
    assert "(1,000,000 characters)" in written(json.dumps(["x" * 1_000_000]))


class TestFolding:
    """Objects and arrays fold to one line, and unfold again."""

    TEXT = '{"a":{"b":[1,2],"c":3},"d":4}'

    def test_a_folded_object_tells_its_names(self) -> None:
        tree = Tree(tree_lines(parse(self.TEXT)))
        assert len(tree.visible_lines) == 10
        assert tree.toggle(1) == 1
        assert "".join(span.text for span in tree.spans(1)) == '  ▸ "a": { b, c },'
        assert len(tree.visible_lines) == 4
        tree.toggle(1)
        assert len(tree.visible_lines) == 10

    def test_a_line_inside_folds_what_is_around_it(self) -> None:
        tree = Tree(tree_lines(parse(self.TEXT)))
        assert tree.toggle(3, fold=True) == 2
        assert tree.toggle(2, fold=True) == 2
        assert tree.toggle(2, fold=False) == 2
        assert tree.toggle(99) == 99

    @given(VALUES, st.lists(st.tuples(st.integers(0, 40), st.sampled_from([True, False, None])), max_size=12))
    def test_any_folding_keeps_the_lines_in_order(self, value: Any, steps: list[tuple[int, bool | None]]) -> None:
        tree = Tree(tree_lines(parse(json.dumps(value))))
        for place, fold in steps:
            found = tree.toggle(place, fold=fold)
            assert tree.visible_lines == sorted(set(tree.visible_lines))
            assert found == place or found < len(tree.visible_lines)
        for place in range(len(tree.visible_lines)):
            assert tree.spans(place)


class TestUnfolding:
    """Strings unfold to several lines, and fold again."""

    TREE = '{"a":"one\\ntwo","b":"short","c":"x x x x x x x x x x x x x x x x x x x x"}'

    def lines(self, tree: Tree) -> list[str]:
        return ["".join(span.text for span in tree.spans(line)) for line in range(len(tree))]

    def test_a_string_unfolds_and_folds(self) -> None:
        tree = Tree(tree_lines(parse(self.TREE)))
        tree.fit(30)
        assert [line[2:4] for line in self.lines(tree)[1:4]] == ["▸ ", "  ", "▸ "]
        assert tree.toggle(1) == 1
        assert self.lines(tree)[1:4] == ['  ▾ "a": 7 characters', "      one", "      two"]
        assert tree.toggle(3) == 1
        assert self.lines(tree)[1] == '  ▸ "a": "one\\ntwo",'
        assert tree.toggle(2, fold=False) == 2, "a short string has nothing to unfold"

    def test_it_is_wrapped_again_at_another_width(self) -> None:
        tree = Tree(tree_lines(parse(self.TREE)))
        tree.fit(30)
        tree.toggle(3)
        narrow = len(tree)
        tree.fit(200)
        assert len(tree) < narrow
        assert self.lines(tree)[4].strip() == " ".join("x" * 20)

    def test_what_is_inside_of_something_folded_is_revealed(self) -> None:
        tree = Tree(tree_lines(parse('{"a":[["b"]]}')))
        tree.toggle(2)
        tree.toggle(1)
        tree.reveal(3)
        assert '"b"' in self.lines(tree)[3]
        assert tree.visible_index(3) == 3

    @given(st.text(max_size=200), st.integers(10, 50))
    def test_nothing_in_it_acts(self, text: str, width: int) -> None:
        tree = Tree(tree_lines(parse(json.dumps([text]))))
        tree.fit(width)
        tree.toggle(1)
        assert [line for line in self.lines(tree) if sanitise(line, None) != line] == []
