"""Which captures are read only once, and what the files of `analysis.output_cache` with their output depend on."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from analysis.cached import version_of
from analysis.output_cache import About, OutputCache
from captures.file import is_live
from captures.listing import segments, total_size

LARGE: Final = 20 << 20
"""The size of a closed capture, in bytes, from which its results are kept, and the rules have a separate pass."""
_MADE_BY: Final = ("mcpproxy/tui/data/*.py", "mcpproxy/wording/*.py", "mcpproxy/sanitise.py")
"""The modules that produce what is kept, in addition to those that read and judge."""


def is_cached(path: Path) -> bool:
    """Whether a capture is closed, and large enough."""
    files = segments(path)
    return not is_live(files[-1]) and total_size(files) >= LARGE


def cache_of(path: Path, about: About, most: int) -> OutputCache:
    """The cached output for a capture about a subject; it may not exist yet.

    Args:
        path: the capture.
        about: the subject.
        most: how many rows are known.
    """
    return OutputCache(path, about, f"{version_of(_MADE_BY)}\n{most}")


def save(telling: OutputCache, pieces: Iterable[bytes]) -> None:
    """Write pieces of output to the cache, if possible."""
    for piece in pieces:
        telling.add(piece)
    telling.save()
