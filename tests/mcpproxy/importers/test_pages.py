"""The pages of the forms are those that `make import-docs` writes, and say what people need to know."""

from pathlib import Path

from mcpproxy.importers.pages import pages

FOLDER = Path(__file__).parents[3] / "docs/imports"


def test_the_pages_are_current() -> None:
    files = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.md")}
    assert files == pages(), "run `make import-docs`"


def test_each_page_says_where_such_logs_are_and_what_is_missing() -> None:
    for name, text in pages().items():
        if name != "README.md":
            for heading in ("**Where to find it.**", "**What the capture contains.**", "**What is missing.**"):
                assert heading in text, name
