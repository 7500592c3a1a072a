"""`compare --explain`: the page of a kind of change, or the table of all kinds."""

import argparse
import os
import sys

from analysis.comparison.kinds.table import KINDS
from analysis.rules.discovery import rules
from mcpproxy.cli.diagnostics import Exit, fail
from mcpproxy.report.output import json_line, page_width
from mcpproxy.wording.change_kinds import kind_row, page_lines, table_lines, unknown_kind_error
from mcpproxy.wording.spans import Style


def explain(options: argparse.Namespace) -> int:
    """Print the page of the kind that `--explain` names, or the table of all kinds; returns the exit code."""
    if options.format not in ("text", "json"):
        return fail("--explain prints text or json; see mcpproxy compare --help")
    name = options.explain
    if name and name not in KINDS and name in rules():
        return fail(f"{name} is a rule of check: mcpproxy rule {name}")
    if name and name not in KINDS:
        return fail(unknown_kind_error(name))
    if options.format == "json":
        sys.stdout.writelines(json_line(kind_row(kind)) for kind in KINDS.values() if name in ("", kind.id))
        return int(Exit.FINE)
    style, width = Style.for_choice(options.color, sys.stdout, os.environ), page_width()
    lines = page_lines(KINDS[name], style, width) if name else table_lines(style, width)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return int(Exit.FINE)
