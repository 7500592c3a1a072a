"""List the rules, or show the page of a rule: what it is, why it matters, what it looks like, what to do instead.

With --in, also show the findings of the rule in a capture.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any, Final

from analysis.protocol.extensions import EXTENSIONS
from analysis.protocol.revisions import REVISIONS
from analysis.rules.base import Rule
from analysis.rules.discovery import GROUPS, group_of, rules
from analysis.rules.old_ids import current_id
from mcpproxy.cli.arguments import Parser, add_color, add_format
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.evidence import MAX_SHOWN_FINDINGS, RuleEvidence, gather_evidence
from mcpproxy.report import findings_json
from mcpproxy.report.findings import TextReporter
from mcpproxy.report.output import json_line, page_width
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.rule_pages import (
    MARKS,
    addresses,
    group_topic,
    has_level,
    is_in_revision,
    level_in,
    levels_text,
    marks,
    page,
    page_lines,
    sections,
    summary_of,
)
from mcpproxy.wording.spans import Span, Style
from mcpproxy.wording.wrapping import wrapped

_LEVEL_COLUMNS: Final = 11
"""How many columns precede the id of a rule in a list."""
_MIN_SUMMARY_COLUMNS: Final = 30
"""The minimum width of a summary on the line of the id, in columns; a narrower one begins on the next line."""


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `rule`."""
    parser = Parser("rule", __doc__)
    parser.add_argument(
        "rule",
        nargs="*",
        metavar="RULE",
        help="an id, to show that rule's page, or a pattern such as id/*, to list rules",
    )
    parser.add_argument(
        "--in",
        dest="captures",
        action="append",
        metavar="CAPTURE",
        help="also show the findings of the rules in this capture; can be repeated",
    )
    parser.add_argument("--group", metavar="GROUP", help="only rules of this group, such as lifecycle")
    parser.add_argument(
        "--level",
        choices=("error", "warning", "note"),
        help="only rules that have this level in some revision, or in that of --version",
    )
    parser.add_argument("--version", choices=REVISIONS, help="only rules that apply in this revision of the protocol")
    parser.add_argument("--mark", choices=tuple(MARKS), help="only rules with this mark")
    add_color(parser)
    add_format(parser)
    return parser


def run(arguments: list[str]) -> int:
    """Print rules; returns 2 if a rule does not exist."""
    options = parser().parse_args(arguments)
    patterns = [name for name in options.rule if is_pattern(name)]
    names = [current_id(name) for name in options.rule if not is_pattern(name)]
    if options.captures and (patterns or not names):
        return fail("--in needs the id of a rule, as in `mcpproxy rule id/null --in CAPTURE`")
    code = _list_rules(patterns, options) if patterns or not names else int(Exit.FINE)
    return max(code, _print_pages(names, options, is_first=not patterns)) if names else code


def is_pattern(name: str) -> bool:
    """Whether a name contains wildcards."""
    return any(wildcard in name for wildcard in "*?[")


def _list_rules(patterns: list[str], options: argparse.Namespace) -> int:
    """List the rules that match all options and at least one of the patterns; returns the exit code."""
    if options.group not in (None, *GROUPS):
        return fail(f"there is no group {sanitise(options.group, 64)}; `mcpproxy rule` lists them all")
    for pattern in patterns:
        if not any(fnmatchcase(rule, pattern) for rule in rules()):
            return fail(unknown_rule_error(pattern))
    selected_rules = [rule for rule in rules().values() if _is_selected(rule, patterns, options)]
    if not selected_rules:
        say("no rule matches all the options; `mcpproxy rule` lists all rules")
    elif options.format == "json":
        for rule in selected_rules:
            sys.stdout.write(json_line(_as_json(rule)))
    else:
        _print_list(selected_rules, options)
    return int(Exit.FINE)


def _is_selected(rule: type[Rule], patterns: list[str], options: argparse.Namespace) -> bool:
    return (
        options.group in (None, group_of(rule.id))
        and (not patterns or any(fnmatchcase(rule.id, pattern) for pattern in patterns))
        and (options.version is None or is_in_revision(rule, options.version))
        and (options.level is None or has_level(rule, options.level, options.version))
        and (options.mark is None or options.mark in marks(rule))
    )


def _print_list(selected_rules: Iterable[type[Rule]], options: argparse.Namespace) -> None:
    """Print the rules by group, one per line; wrap lines on a terminal."""
    style = Style.for_choice(options.color, sys.stdout, os.environ)
    width = max(40, shutil.get_terminal_size().columns) if sys.stdout.isatty() else sys.maxsize
    for number, (group, members) in enumerate(groupby(selected_rules, lambda rule: group_of(rule.id))):
        first_line, *other_lines = wrapped(group_topic(group), width - len(group) - 2)
        head = [Span(group, "accent"), Span(f"  {first_line}", "dim")]
        head += [Span(f"\n{'':<{len(group) + 2}}{line}", "dim") for line in other_lines]
        sys.stdout.write(("\n" if number else "") + style.paint(head) + "\n")
        group_rules = list(members)
        id_width = max(len(rule.id) for rule in group_rules)
        fits_on_one_line = width - (_LEVEL_COLUMNS + id_width + 2) >= _MIN_SUMMARY_COLUMNS
        indent = _LEVEL_COLUMNS + id_width + 2 if fits_on_one_line else _LEVEL_COLUMNS
        for rule in group_rules:
            level = str(rule.level) if options.version is None else level_in(rule, options.version)
            lines = list(wrapped(summary_of(rule), width - indent))
            title = f"{rule.id:<{id_width}}  {lines.pop(0)}" if fits_on_one_line else rule.id
            sys.stdout.write(f"  {level:<7}  {title}\n")
            sys.stdout.write("".join(f"{'':<{indent}}{line}\n" for line in lines))


def _print_pages(names: list[str], options: argparse.Namespace, *, is_first: bool) -> int:
    """Print the pages of rules; returns the exit code."""
    code = int(Exit.FINE)
    evidence: dict[str, RuleEvidence] = {}
    rule_ids = [name for name in names if name in rules()]
    if options.captures and rule_ids:
        evidence, is_complete = _gather_evidence(rule_ids, options)
        code = int(Exit.FINE if is_complete else Exit.USAGE)
    for name in names:
        rule = rules().get(name)
        if rule is None:
            code = fail(unknown_rule_error(name))
        elif options.format == "json":
            members = _as_json(rule)
            sys.stdout.write(json_line(members | _findings_as_json(evidence[name]) if name in evidence else members))
        else:
            style = Style.for_choice(options.color, sys.stdout, os.environ)
            sys.stdout.write("" if is_first else "\n")
            sys.stdout.write("".join(f"{line}\n" for line in page_lines(rule, style, page_width())))
            findings = list(evidence[name].lines()) if name in evidence else []
            sys.stdout.write("".join(f"{line}\n" for line in (["", *findings] if findings else [])))
            is_first = False
    return code


def _gather_evidence(rule_ids: list[str], options: argparse.Namespace) -> tuple[dict[str, RuleEvidence], bool]:
    """Return the evidence for these rules in the captures, and whether everything could be examined."""
    encoding = sys.stdout.encoding

    def new_reporter() -> TextReporter:
        return TextReporter(
            Style.for_choice(options.color, sys.stdout, os.environ),
            notes=True,
            width=page_width(),
            encoding=encoding,
            most=MAX_SHOWN_FINDINGS,
            paged=True,
        )

    return gather_evidence(options.captures, rule_ids, new_reporter)


def _findings_as_json(evidence: RuleEvidence) -> dict[str, Any]:
    """Return the number of findings, and the first few of them as `check --json` prints them."""
    return {
        "found": evidence.count,
        "findings": [findings_json.finding_row(finding) for finding in evidence.first_findings],
    }


def unknown_rule_error(name: str) -> str:
    """Return the error for a name or pattern that matches no rule, with suggestions."""
    if name in GROUPS:
        return f"{name} is a group of rules; {name}/* matches all of them"
    extension = EXTENSIONS.get(name)
    if extension is not None:
        return f"{name} is an extension; {extension.group}/* matches its rules"
    group = name.partition("/")[0]
    if group not in GROUPS and (group.startswith("ext-") or "." in group):
        return f"there is no rule {sanitise(name, 100)}; docs/extensions.md lists the extensions that have rules"
    similar_ids = get_close_matches(name[:100], rules(), 3, 0.5)
    hint = f"perhaps {' or '.join(similar_ids)}" if similar_ids else "`mcpproxy rule` lists all rules"
    if is_pattern(name):
        return f"no rule matches {sanitise(name, 100)}; {hint}"
    return f"there is no rule {sanitise(name, 100)}; {hint}"


def _as_json(rule: type[Rule]) -> dict[str, Any]:
    return {
        "id": rule.id,
        "group": group_of(rule.id),
        "level": levels_text(rule),
        "who": rule.who,
        "versions": str(rule.versions),
        "marks": list(marks(rule)),
        "built": True,
        "replaces": list(rule.replaces),
        "source": rule.source,
        "addresses": addresses(rule.source),
        "summary": summary_of(rule),
        "sections": {heading: text for heading, text in sections(rule) if heading},
        "page": page(rule),
    }
