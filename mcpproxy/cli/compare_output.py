"""Writes the result of `compare` to stdout, or to the file of `-o`."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from captures.new_file import new_file
from mcpproxy.cli.compare_options import HTML
from mcpproxy.report.output import width_of_stdout
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import UNLIMITED_WIDTH
from mcpproxy.wording.spans import Style
from mcpproxy.wording.units import size

_MAX_COLUMNS: Final = 120
"""The maximum width of the text output, in columns; longer lines are hard to read."""


def write_result(options: argparse.Namespace, pieces: Callable[[Style, int], Iterable[str]], verdict: str) -> None:
    """Write a result to stdout or, with `-o`, to a file; stdout then gets a line with the verdict.

    Args:
        options: the options of `compare`.
        pieces: a function of the colours and the width that returns the result.
        verdict: the result in one line, sanitised.

    Raises:
        CannotCreate: the file cannot be written, or exists and may not be replaced.
    """
    if options.output is None:
        style = Style.for_choice(options.color, sys.stdout, os.environ)
        for piece in pieces(style, width_of_stdout(_MAX_COLUMNS)):
            sys.stdout.write(piece)
        sys.stdout.flush()
        return
    target = Path(options.output)
    with new_file(target, replace=options.force, advice="; --force replaces it") as path:
        with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.writelines(pieces(Style(), UNLIMITED_WIDTH))
        size_bytes = path.stat().st_size
    hint = "; open it in a browser" if options.format == HTML else ""
    sys.stdout.write(f"{sanitise(str(target))}: {verdict}, {size(size_bytes)}{hint}\n")
    sys.stdout.flush()
