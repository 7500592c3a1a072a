"""Output caches: which captures are read only once, and the keys of their files in `analysis.output_cache`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from analysis.cached import modules_hash
from analysis.output_cache import OutputCache, Subject
from captures.file import is_live
from captures.listing import segments, total_size

MIN_CACHED_BYTES: Final = 20 << 20
"""The minimum size, in bytes, of a closed capture to cache its results, and to give the rules a separate pass."""
_PRODUCERS: Final = ("mcpproxy/tui/data/*.py", "mcpproxy/wording/*.py", "mcpproxy/sanitise.py")
"""The modules that produce the cached output, in addition to those that read and judge."""


def is_cached(path: Path) -> bool:
    """Whether the output for a capture is cached: the capture must be closed, and large enough."""
    files = segments(path)
    return not is_live(files[-1]) and total_size(files) >= MIN_CACHED_BYTES


def cache_of(path: Path, about: Subject, max_rows: int) -> OutputCache:
    """Returns the cached output for a capture about a subject; the output may not exist yet.

    Args:
        path: the capture.
        about: the subject.
        max_rows: the maximum number of rows.
    """
    return OutputCache(path, about, f"{modules_hash(_PRODUCERS)}\n{max_rows}")


def save_pieces(output: OutputCache, pieces: Iterable[bytes]) -> None:
    """Write pieces of output to the cache, if possible."""
    for piece in pieces:
        output.add(piece)
    output.save()
