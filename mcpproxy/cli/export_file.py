"""`mcpproxy export` for the formats with a single file, which is private, and appears complete or not at all."""

import argparse
import sys
from pathlib import Path
from typing import Final

from captures.errors import CaptureError
from captures.new_file import new_file
from mcpproxy.cli.diagnostics import Exit, Progress, say
from mcpproxy.cli.message_filter import filter_for_capture
from mcpproxy.cli.outputs import written_line
from mcpproxy.exporters.files import WRITERS, CaptureInput, WriteOptions, empty_output_error
from mcpproxy.wording.units import size

PROGRESS_BYTES: Final = 1 << 20
"""How many bytes are read between two updates of the progress line."""


class ExportInput(CaptureInput):
    """The captures of an export, with a progress line on stderr."""

    def __init__(self, paths: list[Path]) -> None:
        super().__init__(paths, self._say, self._show_progress)
        self._progress = Progress()
        self._bytes_read = self._bytes_shown = 0

    def _say(self, message: str) -> None:
        """Remove the progress line, and report a message on stderr."""
        self._progress.clear()
        say(message)

    def close(self) -> None:
        """Remove the progress line."""
        self._progress.clear()

    def _show_progress(self, count: int) -> None:
        self._bytes_read += count
        if self._bytes_read - self._bytes_shown >= PROGRESS_BYTES:
            self._bytes_shown = self._bytes_read
            self._progress.show(f"read {size(self._bytes_read)}")


_ADVICE: Final = {
    "otlp": "give it to a collector's file receiver",
    "har": "open it in mitmproxy or in a browser's network panel",
    "perfetto": "open it in Perfetto or chrome://tracing",
    "markdown": "paste it into an issue",
}
"""Advice on what to do with a file of each format."""


def export_file(paths: list[Path], options: argparse.Namespace) -> int:
    """Write the file; returns 2 if a capture is damaged or cannot be read."""
    target = Path(options.output)
    captures, filter_ = ExportInput(paths), options.filter
    selection = None if filter_ is None else lambda path: filter_for_capture(path, filter_)
    write_options = WriteOptions(target.parent, selection, options.payloads)
    try:
        with new_file(target, replace=options.force, advice="; --force replaces it") as temporary_path:
            with temporary_path.open("wb") as file:
                contents = WRITERS[options.format](captures, write_options, file)
            if not captures.read_count:
                raise CaptureError("no capture could be read, so nothing was written")
            if not contents:
                raise CaptureError(empty_output_error(options.format, is_filtered=bool(filter_)))
            size_bytes = temporary_path.stat().st_size
    finally:
        captures.close()
    sys.stdout.write(written_line(target, contents, size_bytes, _ADVICE[options.format]))
    return int(Exit.USAGE if captures.has_losses else Exit.FINE)
