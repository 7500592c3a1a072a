"""Generates the pages of all verdicts, docs/doctor, from their docstrings.

python -m mcpproxy.doctor.pages docs/doctor     rewrites the pages, and removes obsolete ones
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Final

from mcpproxy.doctor.verdict import Verdict
from mcpproxy.doctor.verdicts import VERDICTS
from mcpproxy.wording.page_files import write_pages

INDEX: Final = "README.md"
_HEADING: Final = re.compile(r"^\*\*([^*]+)\.\*\* ", re.MULTILINE)


def file_name(verdict: type[Verdict]) -> str:
    """Return the file name of a verdict's page."""
    return f"{verdict.id.replace('/', '-')}.md"


def page(verdict: type[Verdict]) -> str:
    """Return the page of a verdict, in Markdown."""
    title, _, body = (inspect.getdoc(verdict) or "").partition("\n\n")
    kind = "The server cannot be used." if verdict.fails else "This is a remark: the server may still work."
    text = _HEADING.sub(lambda match: f"## {match[1]}\n\n", body)
    return f"# {verdict.id}\n\n{title} {kind}\n\n{text}\n"


def paragraphs(verdict: type[Verdict]) -> list[str]:
    """Return the page of a verdict for a terminal: a list of paragraphs without line breaks."""
    text = page(verdict).replace("## ", "").lstrip("# ").rstrip()
    return [paragraph.replace("\n", " ") for paragraph in text.split("\n\n")]


def pages() -> dict[str, str]:
    """Return all pages, including the index, by file name."""
    rows = "\n".join(f"| [{verdict.id}]({file_name(verdict)}) | {verdict.title()} |" for verdict in VERDICTS)
    index = (
        "# Verdicts\n\nWhat [`mcpproxy doctor`](../commands/doctor.md) can find, in the order in which it looks. "
        f"Generated from `mcpproxy/doctor/verdicts.py`.\n\n| verdict | what is wrong |\n|---|---|\n{rows}\n"
    )
    return {INDEX: index, **{file_name(verdict): page(verdict) for verdict in VERDICTS}}


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]), pages())
