"""Where a command writes: never over what it reads, and never into what the user meant as its input."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from captures.errors import CaptureError
from captures.listing import segments
from captures.reader import Capture
from mcpproxy.cli.selection import meaning_of


def check_output(output: str | Path, paths: Iterable[Path]) -> None:
    """Refuse to write over what is being read, also under another name of the same file.

    Args:
        output: the file to write.
        paths: the captures to read.

    Raises:
        CaptureError: it is a segment of one of them.
    """
    for path in paths:
        for segment in segments(path):
            # One that cannot be looked at is not there to be replaced.
            with suppress(OSError):
                if os.path.samefile(output, segment):
                    raise CaptureError(f"cannot write {output}: it is the capture that is read; name another file")


def names_recording(argument: str) -> bool:
    """Whether an argument names an existing capture, a recorded server or stdin; a folder does not."""
    if argument == "-":
        return True
    try:
        meaning = meaning_of(argument)
        if meaning.kind == "file":
            Capture(meaning.paths[0])
    except (CaptureError, OSError):
        return False
    # `./files` is a path, even if there is a server called files.
    return meaning.kind in ("file", "listed") or (meaning.kind == "server" and "/" not in argument)
