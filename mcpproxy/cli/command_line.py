"""The command line as data: every command with its options and operands.

The data comes from the parsers themselves, and from the help text of `run`, which has no parser. Completion scripts are
generated from it, and the tests compare the documentation with it, so both agree with the program.
"""

import argparse
import re
from importlib import import_module
from typing import Final, Literal, NamedTuple

from analysis.comparison.kinds.table import KINDS
from analysis.rules.discovery import rules
from mcpproxy.cli import COMMANDS, module_of
from mcpproxy.clients.catalogue import CLIENTS
from mcpproxy.doctor.verdicts import VERDICTS

Operands = Literal["captures", "files", "server", "words", "word and server", "nothing"]
"""The operands of a command: captures, files, a server's command after `--`, one of a few words, one of a few words
followed by the name of a server, or nothing.
"""

Values = Literal[
    "none", "words", "captures", "servers", "paths", "folders", "files", "rules", "verdicts", "kinds", "views", "text"
]
"""The value of an option: none, one of a few words, a capture, the name of a server, a path for a new capture, a
folder, a file, a rule or a pattern of rules, a verdict of `doctor`, a kind of change, an SQL view or table, or any
text.
"""

_VALUES_OF_METAVAR: Final[dict[str, Values]] = {
    "FILE": "paths",
    "FILE|DIR/": "paths",
    "CAPTURE": "captures",
    "DIR": "folders",
    "SERVER": "servers",
    "F": "files",
    "G": "rules",
    "VERDICT": "verdicts",
    "KIND": "kinds",
    "VIEW": "views",
}
_OPTION_ROW: Final = re.compile(
    r"^  (?P<name>--[a-z-]+)(?: (?P<metavar>\S+))? {2,}(?P<help>\S.*(?:\n {8,}\S.*)*)$", re.MULTILINE
)


class Option(NamedTuple):
    """An option of a command."""

    names: tuple[str, ...]
    """Its names as typed, the short one first: `-f`, `--follow`."""
    help: str
    """Its help text, on one line."""
    metavar: str
    """The name of its value in the help; empty if it has no value, or accepts only `words`."""
    words: tuple[str, ...]
    """Its permitted values; empty if any value is permitted."""

    @property
    def values(self) -> Values:
        """The kind of value that it accepts."""
        if self.words:
            return "words"
        return _VALUES_OF_METAVAR.get(self.metavar, "text") if self.metavar else "none"


class Grammar(NamedTuple):
    """A command with its options and operands."""

    name: str
    summary: str
    """Its line in `mcpproxy --help`."""
    options: tuple[Option, ...]
    operands: Operands
    words: tuple[str, ...] = ()
    """The permitted operands if `operands` is `words`; the permitted first operands if it is `word and server`."""


def rule_patterns() -> list[str]:
    """Return the usual values of options that choose rules: a pattern for each group, then the id of each rule."""
    ids = list(rules())
    return [*dict.fromkeys(f"{rule.partition('/')[0]}/*" for rule in ids), *ids]


def verdict_ids() -> list[str]:
    """Return the ids of all verdicts of `doctor`."""
    return [verdict.id for verdict in VERDICTS]


def kind_ids() -> list[str]:
    """Return the ids of all kinds of changes that `compare` reports."""
    return list(KINDS)


def grammars() -> list[Grammar]:
    """Return the grammar of every command, in the order of `mcpproxy --help`."""
    return [
        _grammar_of_run(COMMANDS[name]) if name == "run" else _grammar_of_parser(name, summary)
        for name, summary in COMMANDS.items()
    ]


def _grammar_of_parser(name: str, summary: str) -> Grammar:
    parser: argparse.ArgumentParser = import_module(module_of(name)).parser()
    options = tuple(_option(action) for action in parser._actions if action.option_strings)
    words: list[str] = []
    operands: Operands = "nothing"
    for action in parser._actions:
        if not action.option_strings:
            words += map(str, action.choices or ())
            words += rules() if action.metavar == "RULE" else ()
            words += [client.id for client in CLIENTS] if action.metavar == "CLIENT" else []
            operands = _operands(action.metavar, words)
    return Grammar(name, summary, options, operands, tuple(words))


def _operands(metavar: str | tuple[str, ...] | None, words: list[str]) -> Operands:
    if metavar == "SERVER":
        return "word and server"
    return "words" if words else "files" if metavar == "FILE" else "captures"


def _option(action: argparse.Action) -> Option:
    words = tuple(map(str, getattr(action, "words", None) or action.choices or ()))
    has_value = action.nargs != 0 and not words
    metavar = str(action.metavar or action.dest.upper()) if has_value else ""
    return Option(tuple(action.option_strings), action.help or "", metavar, words)


def _grammar_of_run(summary: str) -> Grammar:
    from mcpproxy.cli import run

    options = []
    for row in _OPTION_ROW.finditer(run.__doc__ or ""):
        words = run._CHOICES.get(row["name"], ())
        names = ("-h", "--help") if row["name"] == "--help" else (row["name"],)
        options.append(Option(names, " ".join(row["help"].split()), "" if words else row["metavar"] or "", words))
    return Grammar("run", summary, tuple(options), "server")
