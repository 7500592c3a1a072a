"""Provides a capture that does not change between two passes.

Records that a recorder adds between the passes would be in the copy, although the first pass did not search them. So a
capture that is still being recorded is first copied, up to its current end, to a private folder.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from captures.errors import CannotCreate
from captures.file import is_live
from captures.private_folder import private_folder
from captures.reader import Capture, open_capture
from captures.stale_files import lock_temporary

_CHUNK_BYTES: Final = 1 << 20


@contextmanager
def unchanging_capture(capture: Capture) -> Iterator[Capture]:
    """Yields the capture, or, while it is being recorded, a copy of its current content.

    The copy is deleted at the end of the block.

    Raises:
        CannotCreate: the copy cannot be written.
        NotACapture: a file cannot be opened.
    """
    if not any(is_live(segment) for segment in capture.segments):
        yield capture
        return
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(private_folder())
            for segment in capture.segments:
                is_growing = is_live(segment)
                _copy(segment, folder / segment.name)
                if is_growing:
                    # The lock shows readers that the end of the copy is not the end of the session.
                    stack.callback(os.close, lock_temporary(folder / segment.name))
        except OSError as error:
            raise CannotCreate(
                f"cannot copy {capture.path}, which is being recorded, to {tempfile.gettempdir()}: {error.strerror}; "
                "set TMPDIR to another folder"
            ) from error
        yield Capture(folder / capture.path.name)


def _copy(segment: Path, target: Path) -> None:
    """Copy only the bytes that a file has now, because it may grow faster than it is copied."""
    with (
        open_capture(segment) as file,
        open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as copy,
    ):
        size = os.fstat(file.fileno()).st_size
        while size > 0 and (chunk := file.read(min(_CHUNK_BYTES, size))):
            copy.write(chunk)
            size -= len(chunk)
