"""The file: a skeleton, a style sheet, scripts, blocks of data, and a policy that allows nothing else to run or load.

The policy allows exactly the page's style sheet and script, by their hashes, and no other source of anything: no
network, no images, no frames, no forms. It comes before everything that it governs. Nothing from a capture is in the
markup: scripts read it from the blocks and set it as text.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

SOURCE_FOLDER: Final = Path(__file__).parent / "page"
"""The folder with the sources of the page."""


class PageForm(NamedTuple):
    """What a page is made of."""

    command: str
    """The command that writes it. The markup of its body is in `COMMAND.html`."""
    styles: tuple[str, ...]
    """Its style sheets, in their order."""
    scripts: tuple[str, ...]
    """Its scripts, in the order in which they are concatenated; each may use the functions of all."""


REPORT: Final = PageForm(
    "report",
    ("style.css",),
    (
        "elements.js",
        "figures.js",
        "units.js",
        "visible.js",
        "json_text.js",
        "blocks.js",
        "model.js",
        "links.js",
        "list.js",
        "overview.js",
        "charts.js",
        "findings.js",
        "waterfall.js",
        "turns.js",
        "stderr.js",
        "detail.js",
        "filter.js",
        "traffic.js",
        "theme.js",
        "main.js",
    ),
)
"""The page of `report`."""
COMPARISON: Final = PageForm(
    "compare",
    ("style.css", "comparison.css"),
    (
        "elements.js",
        "figures.js",
        "visible.js",
        "json_text.js",
        "blocks.js",
        "links.js",
        "list.js",
        "comparison_overview.js",
        "comparison_difference.js",
        "comparison_detail.js",
        "comparison_changes.js",
        "comparison_tables.js",
        "theme.js",
        "comparison.js",
    ),
)
"""The page of `compare --format html`."""


def pieces(form: PageForm, title: str, first_block: str, other_blocks: Iterable[str]) -> Iterator[str]:
    """Yields the file, piece by piece.

    Args:
        form: which page it is.
        title: the title for the browser's tab.
        first_block: the block that the first screen needs; the screen is drawn before the other blocks are read.
        other_blocks: all other blocks.
    """
    style, script = "".join(map(_source_text, form.styles)), _script(form)
    policy = (
        f"default-src 'none'; script-src '{_policy_hash(script)}'; style-src '{_policy_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    start, middle, end = _source_text("skeleton.html").split("<!-- cut -->\n")
    start = start.replace("{policy}", escape(policy, quote=True)).replace("{command}", form.command)
    yield start.replace("{title}", escape(title))
    yield f"<style>{style}</style>\n"
    yield middle
    yield _source_text(f"{form.command}.html")
    yield first_block
    yield f"<script>{script}</script>\n"
    yield from other_blocks
    yield end


@cache
def _script(form: PageForm) -> str:
    """Returns all scripts of a page, in one function so that they add no names to the window."""
    sources = "\n".join(map(_source_text, form.scripts))
    return f'"use strict";\n(() => {{\n{sources}\n}})();\n'


@cache
def _source_text(name: str) -> str:
    return (SOURCE_FOLDER / name).read_text("utf-8")


def _policy_hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
