"""The options of `compare`: their parser, the words of `--fail-on`, and which options go together."""

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from analysis.comparison.change import Comparison, Gap
from analysis.comparison.kind import FailOn
from mcpproxy.cli.arguments import Parser, add_color, add_format
from mcpproxy.wording.nearest import hint

Mode: TypeAlias = Literal["compare", "save", "learn", "each", "explain"]
"""What the command does: compare two sides, or what the option of that name says."""

HTML: Final = "html"
"""The format that is a page for a browser, and always goes to a file."""
DEFAULT_PAGE: Final = "comparison.html"
"""The file of that format if `-o` names none."""
_NEVER: Final = "never"
_SLOWER: Final[FailOn] = "slower"
_PERCENTAGE: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)%?", re.ASCII)
_PERMITTED_OPTIONS: Final[dict[Mode, frozenset[str]]] = {
    "compare": frozenset(
        (
            "--filter",
            "--fail-on",
            "--baseline",
            "--update-baseline",
            "--ignore",
            "--ignore-from",
            "--no-findings",
            "--format",
            "--output",
            "--force",
            "--color",
        )
    ),
    "save": frozenset(("--save", "--filter", "--ignore", "--ignore-from", "--no-findings")),
    "learn": frozenset(("--learn", "--filter", "--ignore", "--ignore-from")),
    "each": frozenset(("--each", "--fail-on", "--format", "--output", "--force", "--color")),
    "explain": frozenset(("--explain", "--format", "--color")),
}
"""The options that may be given in each mode."""


class FailOnChoice(NamedTuple):
    """What makes the exit code 1, as the user chose it."""

    words: frozenset[FailOn]
    slower_percent: float | None = None
    """The percentage of `slower=20%`; None for any."""
    is_given: bool = True
    """Whether the user gave `--fail-on`; otherwise nothing that was not compared is needed."""

    def is_needed(self, gap: Gap) -> bool:
        """Whether the comparison has failed because of this gap."""
        return gap.is_failure or (self.is_given and not self.words.isdisjoint(gap.needed_by))

    def has_failed(self, comparison: Comparison) -> bool:
        """Whether a change is as bad as the user chose."""
        return any(change.fails(self.words) for change in comparison.changes)


FAIL_ON_MEANINGS: Final[Mapping[FailOn | Literal["never"], str]] = {
    "breaking": "the contract is broken, as --explain says for each kind",
    "may-break": "it is broken, may be, or cannot be judged",
    "outcome": "a call ends worse than before",
    "finding": "a rule is violated that was not before",
    "value": "a result has another value",
    "slower": "a call is certainly slower; slower=20% means by at least that much",
    "never": "nothing",
}
"""The words of `--fail-on`, and what fails the comparison with each."""
DEFAULT_FAIL_ON: Final = FailOnChoice(frozenset(("breaking", "outcome")), is_given=False)


class _FailOnAction(argparse.Action):
    """Collects the words of `--fail-on`, which can be repeated and can have several words separated by commas."""

    words: Final = (*get_args(FailOn), _NEVER)

    def __call__(
        self, _parser: argparse.ArgumentParser, options: argparse.Namespace, text: Any, _option: str | None = None
    ) -> None:
        earlier: FailOnChoice = getattr(options, self.dest)
        names: set[str] = {*(earlier.words or (_NEVER,))} if earlier.is_given else set()
        slower_percent = earlier.slower_percent
        for word in map(str.strip, str(text).split(",")):
            name, has_value, value = word.partition("=")
            if name not in self.words:
                raise argparse.ArgumentError(
                    self, f"{word!r:.80} is not one of {', '.join(self.words)}{hint(name, self.words)}"
                )
            if has_value:
                slower_percent = self._percentage(name, value, slower_percent)
            names.add(name)
        if _NEVER in names and len(names) > 1:
            raise argparse.ArgumentError(self, f"{_NEVER} cannot be combined with other words")
        chosen = frozenset(word for word in get_args(FailOn) if word in names)
        setattr(options, self.dest, FailOnChoice(chosen, slower_percent))

    def _percentage(self, name: str, text: str, earlier: float | None) -> float:
        match = _PERCENTAGE.fullmatch(text)
        if name != _SLOWER or match is None:
            reason = f"only {_SLOWER} has a value, a percentage: {_SLOWER}=20%"
            raise argparse.ArgumentError(self, f"{f'{name}={text}'!r:.80} is not valid: {reason}")
        if not float(match[1]):
            raise argparse.ArgumentError(
                self, f"{f'{name}={text}'!r:.80} is not valid: the percentage must be above 0; {_SLOWER} means any"
            )
        percentage = float(match[1])
        if earlier not in (None, percentage):
            raise argparse.ArgumentError(self, f"{_SLOWER} has two values, {earlier:g}% and {percentage:g}%")
        return percentage


def compare_parser(description: str | None, formats: Sequence[str]) -> Parser:
    """Returns the argument parser of `compare`.

    Args:
        description: the beginning of its help.
        formats: the formats in addition to `text` and `json`.
    """
    parser = Parser("compare", description)
    parser.add_argument(
        "side",
        nargs="*",
        default=[],
        metavar="SIDE",
        help="the old and the new side: captures, folders, server names, or - for stdin; the old side can also be a "
        "file that --save wrote; a server name alone compares its newest capture with the one before",
    )
    parser.add_argument("--filter", metavar="EXPR", help="only messages and calls that EXPR selects, on both sides")
    add_fail_on(parser, DEFAULT_FAIL_ON, "breaking,outcome")
    parser.add_argument("--baseline", metavar="F", help="accept the changes in F, and report only others")
    parser.add_argument(
        "--update-baseline",
        action="store_true",
        help="write the changes to the file of --baseline, for the next run to accept",
    )
    add_ignored(parser)
    parser.add_argument("--save", metavar="F", help="write one side to the new file F, to be the old side later")
    parser.add_argument(
        "--learn", metavar="F", help="write to the new file F what varies between two recordings of the same thing"
    )
    parser.add_argument(
        "--each", metavar="SERVER", help="list when each definition changed, in all captures of this server"
    )
    parser.add_argument(
        "--explain",
        nargs="?",
        const="",
        metavar="KIND",
        help="print what a kind of change means, or list all kinds, and exit",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="F",
        help=f"write the result to this file instead of stdout; --format html writes {DEFAULT_PAGE} if none is given",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing file of -o")
    add_color(parser)
    add_format(parser, *formats)
    return parser


def add_fail_on(parser: Parser, default: FailOnChoice, default_words: str) -> None:
    """Add `--fail-on`, with a default, and the words of it for the help."""
    parser.add_argument(
        "--fail-on",
        action=_FailOnAction,
        default=default,
        metavar="|".join(_FailOnAction.words),
        help=f"exit with 1 if there is such a change (default: {default_words}). A set of words, in no order, with "
        "commas between them: "
        + "; ".join(f"{word}: {meaning}".replace("%", "%%") for word, meaning in FAIL_ON_MEANINGS.items()),
    )


def add_ignored(parser: Parser) -> None:
    """Add the options that say what is not compared: `--ignore`, `--ignore-from` and `--no-findings`."""
    parser.add_argument(
        "--ignore",
        action="append",
        metavar="POINTER",
        default=[],
        help="ignore values of results at this JSON Pointer, in which * is any member or index; can be repeated",
    )
    parser.add_argument(
        "--ignore-from", action="append", metavar="F", default=[], help="ignore the values that F lists"
    )
    parser.add_argument("--no-findings", action="store_true", help="do not check the rules, which is faster")


def mode_of(options: argparse.Namespace) -> Mode:
    """Returns what the command is to do."""
    if options.explain is not None:
        return "explain"
    if options.each is not None:
        return "each"
    if options.save is not None:
        return "save"
    return "compare" if options.learn is None else "learn"


def combination_error(options: argparse.Namespace, parser: argparse.ArgumentParser) -> str | None:
    """Returns the error in options that do not go together, if any."""
    mode = mode_of(options)
    # `--json` is another name for a value of `--format`, so the first option of each destination counts.
    names = {action.dest: action.option_strings[-1] for action in reversed(parser._actions) if action.option_strings}
    given = [name for key, name in names.items() if key in options and getattr(options, key) != parser.get_default(key)]
    refused = [name for name in given if name not in _PERMITTED_OPTIONS[mode]]
    if refused:
        return f"--{mode} cannot be combined with {refused[0]}; see mcpproxy compare --help"
    for path_option in ("output", "save", "learn", "baseline"):
        if getattr(options, path_option) == "":
            return f"the name of the file of --{path_option} is empty"
    if mode in ("each", "explain") and options.side:
        return f"--{mode} cannot be combined with sides to compare; see mcpproxy compare --help"
    if options.update_baseline and options.baseline is None:
        return "--update-baseline needs --baseline F, the file to write; see mcpproxy compare --help"
    if options.force and options.output is None and options.format != HTML:
        return "--force needs -o F, the file to replace; see mcpproxy compare --help"
    if options.no_findings and "finding" in options.fail_on.words:
        return "--no-findings cannot be combined with --fail-on finding, which needs them"
    if mode == "each" and options.fail_on.is_given and options.fail_on.words - {"breaking", "may-break"}:
        return "--each compares only definitions: --fail-on can be breaking, may-break or never"
    return None
