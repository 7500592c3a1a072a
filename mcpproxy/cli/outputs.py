"""Checks the output path of a command: it must be neither the command's input nor what the user meant as input."""

import errno
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from captures.errors import CannotCreate, CaptureError
from captures.listing import segments
from captures.publication import check_replaceable
from captures.reader import Capture
from mcpproxy.cli.selection import named_captures
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.units import size


def check_output(output: str | Path, paths: Iterable[Path]) -> None:
    """Check that writing `output` would not overwrite a capture that is read, even through another name of its file.

    Args:
        output: the file to write.
        paths: the captures to read.

    Raises:
        CannotCreate: the file is a segment of one of the captures.
    """
    if not os.path.lexists(output):
        return
    for path in paths:
        for segment in segments(path):
            # A file that cannot be examined cannot be replaced either.
            with suppress(OSError):
                if os.path.samefile(output, segment):
                    raise CannotCreate(f"cannot write {output}: it is the capture that is read; choose another file")


def check_copy_output(output: str, path: Path, *, force: bool) -> None:
    """Check before the work begins that a redacted copy may be written to a path.

    Args:
        output: the file to write, or a folder.
        path: the capture to read.
        force: whether an earlier redacted copy at that path may be replaced.

    Raises:
        CannotCreate: there is a file that is the capture to read, is not a redacted copy, or may not be replaced.
    """
    if not os.path.lexists(output) or os.path.isdir(output):
        return
    check_output(output, [path])
    if not force:
        try:
            check_replaceable(Path(output))
        except CannotCreate:
            return  # the error on writing will give the reason
        raise CannotCreate(f"{output} exists; --force replaces it")


def check_file_output(output: str, paths: Sequence[Path], *, force: bool) -> None:
    """Check before the work begins that a file can be written at the end.

    Args:
        output: the file to write.
        paths: the captures to read.
        force: whether an existing file may be replaced.

    Raises:
        CannotCreate: the file is a capture to read, or a folder, or exists and may not be replaced; or its folder does
            not exist.
        CaptureError: the file exists, but there would be nothing to write: no capture can be read.
    """
    check_output(output, paths)
    if os.path.isdir(output):
        raise CannotCreate(f"cannot write {output}: it is a folder; name a file in it")
    if not os.path.isdir(os.path.dirname(output) or os.curdir):
        raise CannotCreate(f"cannot write {output}: {os.strerror(errno.ENOENT)}")
    if not force and os.path.lexists(output):
        _check_readable(paths)
        raise CannotCreate(f"{output} exists; --force replaces it")


def _check_readable(paths: Sequence[Path]) -> None:
    """Raise the error of the first capture if none of the captures can be read."""
    for path in paths:
        with suppress(CaptureError):
            Capture(path)
            return
    if paths:
        Capture(paths[0])


def names_recording(argument: str) -> bool:
    """Whether an argument names an existing capture, a recorded server or stdin; a folder does not."""
    if argument == "-":
        return True
    try:
        meaning = named_captures(argument)
        if meaning.kind == "file":
            Capture(meaning.paths[0])
    except (CaptureError, OSError):
        return False
    # `./files` is a path, even if there is a server called files.
    return meaning.kind in ("file", "listed") or (meaning.kind == "server" and "/" not in argument)


def written_line(path: Path, contents: str, written: int, advice: str) -> str:
    """Return the last line of output of a command that has written a file.

    Args:
        path: the file.
        contents: a description of its contents.
        written: its size in bytes.
        advice: what to do with the file.
    """
    return f"{sanitise(str(path))}: {contents}, {size(written)}; {advice}\n"
