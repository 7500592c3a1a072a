"""The user's colour rules: what is valid, and what is said about the rest."""

import pytest

from mcpproxy.tui.colours.rules import COLOURS_FILE, MAX_RULES, RowLook, read_colour_rules
from mcpproxy.tui.configuration import MAX_FILE_BYTES, configuration_path


def write(text: str) -> None:
    path = configuration_path(COLOURS_FILE)
    assert path is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_a_file_there_are_no_rules() -> None:
    assert read_colour_rules() == ([], [])


def test_rules_keep_the_order_of_the_file() -> None:
    write(
        '[colours]\n"name:b" = "red"\n\'text:"a b"\' = "#FF8800 Bold"\nbare = "underline reverse"\n"name:a" = "warm"\n'
    )
    found = read_colour_rules()
    assert not found.errors
    assert [(rule.row_filter.text, rule.look) for rule in found.rules] == [
        ("name:b", RowLook("red")),
        ('text:"a b"', RowLook("#ff8800", frozenset({"bold"}))),
        ("bare", RowLook("", frozenset({"underline", "reverse"}))),
        ("name:a", RowLook("warm")),
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('"latency>" = "red"', "colours.toml, line 2: expected"),
        ('"no-such-key:x" = "red"', "colours.toml, line 2: "),
        ('"name:x" = "mauve"', "line 2: there is no colour mauve; expected one such as"),
        ('"name:x" = "red blue"', "line 2: expected one colour, not red and blue"),
        ('"name:x" = ""', "line 2: expected a colour"),
        ('"name:x" = 5', "line 2: expected a colour"),
        ('name.x = "red"', "line 2: expected an operator"),
        ('"name:x" = "#12"', "line 2: there is no colour #12"),
        ("name:x = red", "line 2: "),
        ("x = = 3", 'line 2: Invalid value; expected a line such as "latency>1s" = "yellow"'),
        ('"name:x" = "red', "line 2: "),
        ('"name:ok" = "blue"', "line 3: there is already a line name:ok"),
    ],
)
def test_an_invalid_line_is_named_and_the_others_apply(line: str, problem: str) -> None:
    write(f'[colours]\n{line}\n"name:ok" = "red"\n')
    found = read_colour_rules()
    (error,) = found.errors
    assert problem in error
    assert "\n" not in error
    assert [rule.row_filter.text for rule in found.rules] == ["name:ok"]


@pytest.mark.parametrize("text", ["[other]\na = 1", "[colours]\n[colours.more]\na = 1", "x = 1\n[colours]"])
def test_other_tables_are_no_rules(text: str) -> None:
    write(text)
    found = read_colour_rules()
    assert not found.rules
    assert found.errors


def test_only_so_many_rules_are_kept() -> None:
    write("[colours]\n" + "".join(f'"name:{number}" = "red"\n' for number in range(MAX_RULES + 3)))
    found = read_colour_rules()
    assert len(found.rules) == MAX_RULES
    assert found.errors == [f"colours.toml: only the first {MAX_RULES} of {MAX_RULES + 3} rules apply"]


@pytest.mark.parametrize(
    "text", ["[" * MAX_FILE_BYTES, "\x00\x1b[31m", '"' + "a" * 2 * MAX_FILE_BYTES, "[colours]\n" * 5]
)
def test_hostile_files_are_reported_in_lines(text: str) -> None:
    write(text)
    found = read_colour_rules()
    assert not found.rules
    assert all("\n" not in error for error in found.errors)
