"""Writes generated pages of the documentation into their folder."""

from collections.abc import Mapping
from pathlib import Path


def write_pages(folder: Path, pages: Mapping[str, str]) -> None:
    """Write pages into a folder, and remove those that are not among them.

    Args:
        folder: the folder, which has no other Markdown files; it is created if necessary.
        pages: the text of each page by its file name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.md"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        (folder / name).write_text(text, "utf-8")
