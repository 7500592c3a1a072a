"""The options of `mcpproxy compare`: the words of `--fail-on`, and which options go together."""

import argparse
import re
import shlex

import pytest

from analysis.comparison.change import Gap
from mcpproxy.cli.compare import parser
from mcpproxy.cli.compare_options import DEFAULT_FAIL_ON, FailOnChoice, combination_error, mode_of


def parsed(line: str) -> argparse.Namespace:
    return parser().parse_intermixed_args(shlex.split(line))


def test_words_of_fail_on_can_be_repeated_and_separated_by_commas() -> None:
    for line, expected in (
        ("", DEFAULT_FAIL_ON),
        ("--fail-on 'breaking, outcome'", FailOnChoice(frozenset(("breaking", "outcome")))),
        ("--fail-on breaking", FailOnChoice(frozenset(("breaking",)))),
        ("--fail-on value --fail-on finding,outcome", FailOnChoice(frozenset(("value", "finding", "outcome")))),
        ("--fail-on slower", FailOnChoice(frozenset(("slower",)))),
        ("--fail-on slower=20%", FailOnChoice(frozenset(("slower",)), 20)),
        ("--fail-on=may-break,slower=2.5", FailOnChoice(frozenset(("may-break", "slower")), 2.5)),
        ("--fail-on slower=20% --fail-on slower=20", FailOnChoice(frozenset(("slower",)), 20)),
        ("--fail-on never", FailOnChoice(frozenset())),
        ("--fail-on never,never", FailOnChoice(frozenset())),
    ):
        assert parsed(line).fail_on == expected, line


def test_words_of_fail_on_that_make_no_sense_are_one_line_with_the_reason(capfd: pytest.CaptureFixture[str]) -> None:
    for words, reason in (
        ("braking", "'braking' is not one of breaking, .*did you mean breaking"),
        ("", "'' is not one of"),
        ("breaking,", "'' is not one of"),
        ("breaking=5%", "only slower has a value"),
        ("slower=", "only slower has a value, a percentage: slower=20%"),
        ("slower=0%", "'slower=0%' is not valid: the percentage must be above 0; slower means any"),
        ("slower=-5", "is not valid"),
        ("slower=٢٠", "is not valid"),
        ("slower=1e9", "is not valid"),
        ("slower=" + "9" * 5_000, "is not valid"),
        ("slower=20%,slower=30%", "slower has two values, 20% and 30%"),
        ("never,breaking", "never cannot be combined with other words"),
        ("breaking,never", "never cannot be combined with other words"),
        ("never --fail-on value", "never cannot be combined with other words"),
        ("value --fail-on never", "never cannot be combined with other words"),
        ("\x1b[31m", r"'\\x1b\[31m' is not one of"),
    ):
        with pytest.raises(SystemExit) as stopped:
            parsed(f"--fail-on={words}")
        stderr = capfd.readouterr().err
        assert (stopped.value.code, stderr.count("\n")) == (2, 1), words
        assert "\x1b" not in stderr
        assert len(stderr) < 400
        assert re.search(reason, stderr), stderr


def test_a_gap_is_only_needed_by_words_that_were_given() -> None:
    neither_side = Gap("tools", "neither side lists them", is_failure=False, needed_by=frozenset(("breaking",)))
    assert not DEFAULT_FAIL_ON.is_needed(neither_side)
    assert FailOnChoice(frozenset(("breaking",))).is_needed(neither_side)
    assert not FailOnChoice(frozenset(("value",))).is_needed(neither_side)
    assert not FailOnChoice(frozenset()).is_needed(neither_side)
    assert FailOnChoice(frozenset()).is_needed(neither_side._replace(is_failure=True))


def test_options_of_one_purpose_go_together() -> None:
    for line, mode in (
        ("old new --filter method:tools/* --fail-on breaking --ignore /a --ignore-from f --no-findings", "compare"),
        ("old --baseline f --update-baseline new --format json -o out --force --color never", "compare"),
        ("server --json", "compare"),
        ("old new --format html --force", "compare"),
        ("--save f a b --filter name:x --ignore /a --no-findings", "save"),
        ("--learn f a b --ignore /a", "learn"),
        ("--each server --json --fail-on breaking,may-break", "each"),
        ("--each server --fail-on never", "each"),
        ("--explain", "explain"),
        ("--explain tool/removed --json", "explain"),
    ):
        options = parsed(line)
        assert (mode_of(options), combination_error(options, parser())) == (mode, None), line


def test_options_that_do_not_go_together_are_an_error_that_names_them() -> None:
    for line, reason in (
        ("--save f a --fail-on breaking", "--save cannot be combined with --fail-on"),
        ("--save f a --json", "--save cannot be combined with --format"),
        ("--save f --learn g a b", "--save cannot be combined with --learn"),
        ("--learn f a b --baseline g", "--learn cannot be combined with --baseline"),
        ("--each server --filter name:x", "--each cannot be combined with --filter"),
        ("--each server other", "--each cannot be combined with sides"),
        ("--each server --fail-on value", "--fail-on can be breaking, may-break or never"),
        ("--explain tool/removed other", "--explain cannot be combined with sides"),
        ("--explain --save f", "--explain cannot be combined with --save"),
        ("a b --update-baseline", "--update-baseline needs --baseline F"),
        ("a b --force", "--force needs -o F"),
        ("a b --no-findings --fail-on finding", "--no-findings cannot be combined with --fail-on finding"),
        ("a b -o ''", "the name of the file of --output is empty"),
        ("a b --baseline ''", "the name of the file of --baseline is empty"),
        ("--save '' a", "the name of the file of --save is empty"),
        ("--learn '' a b", "the name of the file of --learn is empty"),
    ):
        error = combination_error(parsed(line), parser())
        assert error is not None, line
        assert reason in error, line
