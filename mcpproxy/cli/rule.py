"""List the rules, or show the page of one: what it is, why it matters, how it looks on the wire, what to do instead.

With --in the findings of that rule in a capture, too. With --missing the rows of the catalogue that are not built yet:
all, those that a pattern fits, or all about one.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any, Final

from analysis.protocol.revisions import REVISIONS
from analysis.rules.base import Rule
from analysis.rules.catalogue import MARKS, Row, catalogue, today
from analysis.rules.registry import rules
from mcpproxy.cli.arguments import Parser, add_format
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.evidence import SHOWN, Evidence, gathered
from mcpproxy.report import findings_json
from mcpproxy.report.findings import Text
from mcpproxy.report.output import json_line
from mcpproxy.report.rule_pages import (
    about,
    addresses,
    as_text,
    level_in,
    page,
    row_as_text,
    row_of,
    sections,
    summary_of,
)
from mcpproxy.report.text import Span, Style
from mcpproxy.report.wrapping import wrapped
from mcpproxy.sanitise import sanitise

_LEVELS: Final = 11
"""Cells before the id of a rule in a list."""
_NARROWEST: Final = 30
"""Cells in which a summary still stands beside the id; below, it comes in the next line."""


def parser() -> argparse.ArgumentParser:
    """The arguments of `rule`."""
    made = Parser("rule", __doc__)
    made.add_argument(
        "rule",
        nargs="*",
        metavar="RULE",
        help="show the page of this one, or list those that a pattern such as id/* fits",
    )
    made.add_argument(
        "--in",
        dest="captures",
        action="append",
        metavar="CAPTURE",
        help="show what was found of these rules in it, too",
    )
    made.add_argument("--group", metavar="GROUP", help="only rules of this group, such as lifecycle")
    made.add_argument("--level", choices=("error", "warning", "note"), help="only rules of this level in some revision")
    made.add_argument("--version", choices=REVISIONS, help="only rules that hold in this revision of the protocol")
    made.add_argument("--mark", choices=tuple(MARKS), help="only rules with this mark")
    made.add_argument("--missing", action="store_true", help="the rows of the catalogue that are not built yet")
    made.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="default: auto, which respects NO_COLOR"
    )
    add_format(made)
    return made


def run(arguments: list[str]) -> int:
    """Print rules; 2 where one is named that there is not."""
    options = parser().parse_args(arguments)
    patterns = [name for name in options.rule if is_pattern(name)]
    names = [today(name) for name in options.rule if not is_pattern(name)]
    if options.captures and (patterns or not names or options.missing):
        return fail("--in goes with ids of rules, as in `mcpproxy rule id/null --in CAPTURE`")
    code = _list(patterns, options) if patterns or not names else int(Exit.FINE)
    return max(code, _show(names, options, is_first=not patterns)) if names else code


def is_pattern(name: str) -> bool:
    """Whether the name of a rule has signs in it that stand for others."""
    return any(sign in name for sign in "*?[")


def _list(patterns: list[str], options: argparse.Namespace) -> int:
    """The rows that all options choose, and one of the patterns, where there are some."""
    built, groups = rules(), {row.group for row in catalogue().values()}
    if options.group not in (None, *groups):
        return fail(f"there is no group {sanitise(options.group, 64)}; `mcpproxy rule` lists them all")
    for pattern in patterns:
        if not any(fnmatchcase(rule, pattern) for rule in catalogue()):
            return fail(no_rule(pattern))
    missing = (row for row in catalogue().values() if row.id not in built)
    rows = missing if options.missing else map(row_of, built.values())
    chosen = [row for row in rows if _is_chosen(row, patterns, options)]
    if not chosen:
        say(_nothing(patterns, options))
    elif options.format == "json":
        for row in chosen:
            sys.stdout.write(json_line(_as_json(row, built.get(row.id))))
    else:
        _print(chosen, built, options)
    return int(Exit.FINE)


def _nothing(patterns: list[str], options: argparse.Namespace) -> str:
    """Why nothing is listed."""
    groups = {options.group} if options.group is not None else {pattern.partition("/")[0] for pattern in patterns}
    if not options.missing and len(groups) == 1 and groups.isdisjoint(row_of(rule).group for rule in rules().values()):
        (group,) = groups
        if group in {row.group for row in catalogue().values()}:
            return f"no rule of the group {group} is built yet; `mcpproxy rule --missing --group {group}` lists them"
    kind = "row of the catalogue that is not built" if options.missing else "rule that is built"
    return f"no {kind} fits all that was asked for; `mcpproxy rule` lists all rules, --missing the others"


def _is_chosen(row: Row, patterns: list[str], options: argparse.Namespace) -> bool:
    return (
        options.group in (None, row.group)
        and (not patterns or any(fnmatchcase(row.id, pattern) for pattern in patterns))
        and (options.version is None or row.holds(options.version))
        and (options.level is None or _has_level(row, options.level, options.version))
        and (options.mark is None or options.mark in row.marks)
    )


def _has_level(row: Row, level: str, version: str | None) -> bool:
    """Whether a rule has a level: in a revision, or in any."""
    return row.has_level(level) if version is None else level_in(row, version) == level


def _print(rows: Iterable[Row], built: dict[str, type[Rule]], options: argparse.Namespace) -> None:
    """A line a rule; on a terminal as many as it needs."""
    style = Style.chosen(options.color, sys.stdout, os.environ)
    width = max(40, shutil.get_terminal_size().columns) if sys.stdout.isatty() else sys.maxsize
    for number, (group, members) in enumerate(groupby(rows, lambda row: row.group)):
        head = [Span(group, "accent")]
        if not options.missing:
            first, *more = wrapped(about(group), width - len(group) - 2)
            head += [Span(f"  {first}", "dim"), *(Span(f"\n{'':<{len(group) + 2}}{line}", "dim") for line in more)]
        sys.stdout.write(("\n" if number else "") + style.paint(head) + "\n")
        own = list(members)
        longest = max(len(row.id) for row in own)
        is_beside = width - (_LEVELS + longest + 2) >= _NARROWEST
        indent = _LEVELS + longest + 2 if is_beside else _LEVELS
        for row in own:
            rule = built.get(row.id)
            level = row.level.partition(",")[0] if options.version is None else level_in(row, options.version)
            lines = list(wrapped(summary_of(rule) if rule else f"{row.who}, {row.versions}", width - indent))
            named = f"{row.id:<{longest}}  {lines.pop(0)}" if is_beside else row.id
            sys.stdout.write(f"  {level:<7}  {named}\n")
            sys.stdout.write("".join(f"{'':<{indent}}{line}\n" for line in lines))


def _show(names: list[str], options: argparse.Namespace, *, is_first: bool) -> int:
    """The pages of rules, or with --missing what is known of those that are not built."""
    code = int(Exit.FINE)
    evidence: dict[str, Evidence] = {}
    known = [name for name in names if name in rules()]
    if options.captures and known:
        evidence, is_whole = _gathered(known, options)
        code = int(Exit.FINE if is_whole else Exit.USAGE)
    for name in names:
        rule, row = rules().get(name), catalogue().get(name)
        if row is None:
            code = fail(no_rule(name))
        elif options.missing and rule is not None:
            code = fail(f"{row.id} is not missing; see `mcpproxy rule {row.id}`")
        elif not options.missing and rule is None:
            code = fail(f"{row.id} is not built yet: {row.level}, {row.who}, revisions: {row.versions}")
        elif options.format == "json":
            told = _as_json(row if rule is None else row_of(rule), rule)
            sys.stdout.write(json_line(told | _findings(evidence[name]) if name in evidence else told))
        else:
            sys.stdout.write("" if is_first else "\n")
            sys.stdout.write("".join(f"{line}\n" for line in _page(row, rule, options)))
            found = list(evidence[name].lines()) if name in evidence else []
            sys.stdout.write("".join(f"{line}\n" for line in (["", *found] if found else [])))
            is_first = False
    return code


def _gathered(known: list[str], options: argparse.Namespace) -> tuple[dict[str, Evidence], bool]:
    """What captures hold against these rules."""
    encoding = sys.stdout.encoding

    def report() -> Text:
        return Text(
            Style.chosen(options.color, sys.stdout, os.environ),
            notes=True,
            width=_width(),
            encoding=encoding,
            most=SHOWN,
            paged=True,
        )

    return gathered(options.captures, known, report)


def _findings(evidence: Evidence) -> dict[str, Any]:
    """How many there are, and the first few, as `check --json` tells them."""
    return {"found": evidence.count, "findings": [findings_json.row(found) for found in evidence.first]}


def _page(row: Row, rule: type[Rule] | None, options: argparse.Namespace) -> Iterator[str]:
    style, width = Style.chosen(options.color, sys.stdout, os.environ), _width()
    return row_as_text(row, style, width) if rule is None else as_text(rule, style, width)


def _width() -> int:
    return min(100, max(40, shutil.get_terminal_size().columns))


def no_rule(name: str) -> str:
    """That no rule has a name or fits a pattern, with what may be meant."""
    if name in {row.group for row in catalogue().values()}:
        return f"{name} is a group of rules; {name}/* fits them all"
    near = get_close_matches(name[:100], catalogue(), 3, 0.5)
    hint = f"perhaps {' or '.join(near)}" if near else "`mcpproxy rule` lists them"
    if is_pattern(name):
        return f"no rule fits {sanitise(name, 100)}; {hint}"
    return f"there is no rule {sanitise(name, 100)}; {hint}"


def _as_json(row: Row, rule: type[Rule] | None) -> dict[str, Any]:
    fixed = {
        "id": row.id,
        "group": row.group,
        "level": row.level,
        "who": row.who,
        "versions": row.versions,
        "marks": list(row.marks),
        "built": rule is not None,
    }
    if rule is None:
        return fixed
    told = {heading: text for heading, text in sections(rule) if heading}
    return {
        **fixed,
        "replaces": list(rule.replaces),
        "source": rule.source,
        "addresses": addresses(rule.source),
        "summary": summary_of(rule),
        "sections": told,
        "page": page(rule),
    }
