"""List the rules, or show the page of one: what it is, why it matters, how it looks on the wire, what to do instead.

With --missing the rows of the catalogue that are not built yet.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import groupby
from typing import Any

from analysis.catalogue import MARKS, Row, catalogue
from analysis.revisions import REVISIONS
from analysis.rules import Rule, rules
from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.cli.output import add_format, json_line
from mcpproxy.report.rule_pages import about, as_text, page, row_of, sections, summary_of
from mcpproxy.report.text import Span, Style, fit, fit_spans
from mcpproxy.sanitise import sanitise


def parser() -> argparse.ArgumentParser:
    """The arguments of `rule`."""
    made = Parser("rule", __doc__)
    made.add_argument("rule", nargs="*", metavar="RULE", help="show the pages of these; without one, list all")
    made.add_argument("--group", metavar="G", help="only rules of this group, such as lifecycle")
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
    if options.rule:
        return _show(options)
    built = rules()
    missing = (row for row in catalogue().values() if row.id not in built)
    rows = missing if options.missing else map(row_of, built.values())
    chosen = [row for row in rows if _is_chosen(row, options)]
    if not chosen and options.group is not None and options.group not in {row.group for row in catalogue().values()}:
        return fail(f"there is no group {sanitise(options.group, 64)}; `mcpproxy rule` lists them all")
    if options.format == "json":
        for row in chosen:
            sys.stdout.write(json_line(_as_json(row, built.get(row.id))))
    else:
        _print(chosen, built, options)
    return int(Exit.FINE)


def _is_chosen(row: Row, options: argparse.Namespace) -> bool:
    return (
        options.group in (None, row.group)
        and (options.level is None or row.has_level(options.level))
        and (options.version is None or row.holds(options.version))
        and (options.mark is None or options.mark in row.marks)
    )


def _print(rows: Iterable[Row], built: dict[str, type[Rule]], options: argparse.Namespace) -> None:
    style, is_cut = _style(options), sys.stdout.isatty()
    width = max(40, shutil.get_terminal_size().columns)
    for number, (group, members) in enumerate(groupby(rows, lambda row: row.group)):
        head = [Span(group, "accent")] if options.missing else [Span(group, "accent"), Span(f"  {about(group)}", "dim")]
        shown = fit_spans(head, width)[0] if is_cut else head
        sys.stdout.write(("\n" if number else "") + style.paint(shown) + "\n")
        own = list(members)
        longest = max(len(row.id) for row in own)
        for row in own:
            rule = built.get(row.id)
            text = summary_of(rule) if rule is not None else f"{row.who}, {row.versions}"
            line = f"  {row.level.partition(',')[0]:<7}  {row.id:<{longest}}  {text}"
            sys.stdout.write((fit(line, width) if is_cut else line) + "\n")


def _show(options: argparse.Namespace) -> int:
    built, code = rules(), int(Exit.FINE)
    style, width = _style(options), min(100, max(40, shutil.get_terminal_size().columns))
    for number, name in enumerate(options.rule):
        rule = built.get(name)
        if rule is None:
            code = _unknown(name)
        elif options.format == "json":
            sys.stdout.write(json_line(_as_json(row_of(rule), rule)))
        else:
            sys.stdout.write("\n" if number else "")
            sys.stdout.write("".join(f"{line}\n" for line in as_text(rule, style, width)))
    return code


def _unknown(name: str) -> int:
    row = catalogue().get(name)
    if row is not None:
        return fail(f"{row.id} is not built yet: {row.level}, {row.who}, revisions: {row.versions}")
    near = get_close_matches(name[:100], rules(), 3, 0.5)
    hint = f"perhaps {' or '.join(near)}" if near else "`mcpproxy rule` lists them"
    return fail(f"there is no rule {sanitise(name, 100)}; {hint}")


def _style(options: argparse.Namespace) -> Style:
    if options.color == "auto":
        return Style.of(sys.stdout, os.environ)
    return Style(colour=options.color == "always")


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
        "summary": summary_of(rule),
        "sections": told,
        "page": page(rule),
    }
