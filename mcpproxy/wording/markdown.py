"""Untrusted text in Markdown, so that it cannot escape its element or take effect.

Issue trackers turn text into links, mentions, references, images and HTML, and the text of a capture is untrusted. So
none of it is written where Markdown is parsed: it is either in a fence that is longer than any run of backticks in it,
or escaped in the `<code>` element of an HTML block. Such a block ends at an empty line, which sanitised text never
contains, and trackers do not process the text of `code` and `pre`.
"""

import re
from collections.abc import Iterable
from html import escape
from typing import Final

MAX_ISSUE_CHARS: Final = 65_536
"""The maximum number of characters that GitHub accepts in an issue or a comment."""
_BACKTICKS: Final = re.compile("`+")


def html_code(text: str) -> str:
    """Return sanitised text, which contains no line breaks, as an HTML element."""
    return f"<code>{escape(text)}</code>"


def fenced_block(lines: Iterable[str], kind: str) -> str:
    """Return lines in a code fence that none of them can close."""
    text = "".join(f"{line}\n" for line in lines)
    longest_run = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest_run + 1)
    return f"{fence}{kind}\n{text}{fence}\n"


def html_row(cells: Iterable[str], heading: str = "") -> str:
    """Return a row of an HTML table; the cells are HTML, and the heading is text of mcpproxy."""
    heading_cell = f"<th>{heading}</th>" if heading else ""
    return f"<tr>{heading_cell}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"
