"""The values that `compare` ignores: the places of `--ignore`, and those in the files of `--ignore-from`."""

from collections.abc import Sequence
from typing import Final

from analysis.comparison.values.ignored_places import IgnoreError, parse_place, read_places
from captures.errors import CaptureError
from mcpproxy.importers.source import read_lines
from mcpproxy.sanitise import sanitise

_MAX_SHOWN_CHARS: Final = 80


def ignored_places(typed: Sequence[str], files: Sequence[str]) -> tuple[str, ...]:
    """Returns the places that were typed and those in files, each once, as lines.

    Raises:
        CaptureError: a place is not valid, or a file cannot be read.
    """
    places: dict[str, None] = {}
    for text in typed:
        try:
            places[parse_place(text).line] = None
        except IgnoreError as error:
            raise CaptureError(f"--ignore {sanitise(text, _MAX_SHOWN_CHARS)}: {error}") from error
    for name in files:
        try:
            with open(name, "rb") as file:
                places |= dict.fromkeys(read_places(line.decode("utf-8", "replace") for line in read_lines(file)))
        except OSError as error:
            raise CaptureError(f"cannot read {name}: {error.strerror}") from error
        except IgnoreError as error:
            raise CaptureError(f"cannot read {name}: {error}") from error
    return tuple(places)
