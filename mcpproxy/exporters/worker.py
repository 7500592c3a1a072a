"""The process that writes a capture in a format of another tool, or a report of it, for the screens.

It gets one request, and ends after its reply. It ends with its parent, too; the file appears complete or not at all.

Request: `{"format": "markdown", "har" or "html", "capture": a path, "target": the file to create, "frames": the numbers
         of the messages to write, or null for all, "filter": the expression that selected them, or an empty text}`; a
         report always covers the whole capture.
Replies: `{"temporary": the file until it is complete}`, `{"progress": [done, total]}` now and then, `{"note": text}`
         about what is missing, and at the end `{"written": a description of the contents, "size": bytes}` or
         `{"error": text}`.
"""

import os
import time
from pathlib import Path
from typing import Any, Final

from analysis.child_process import Parent, as_json, from_json
from captures.errors import CaptureError
from captures.listing import segments, total_size
from captures.new_file import new_file
from mcpproxy.exporters.files import WRITERS, CaptureInput, WriteOptions, empty_output_error, filter_of_frames
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text

REPORT_MEMORY_BYTES: Final = 1 << 30
"""How much memory the database of a report may use, in bytes, in addition to this process."""
PROGRESS_INTERVAL_S: Final = 0.2


def main() -> None:
    """Serve one request."""
    parent = Parent()
    request = from_json(parent.receive())
    parent.listen(lambda _: None)  # so that this process ends with its parent
    writer = FileWriter(parent, request)
    try:
        reply: dict[str, Any] = writer.write()
    except (CaptureError, OSError) as error:
        reply = {"error": sanitise(str(error), None)}
    except Exception as error:  # noqa: BLE001 - the screen must show it
        reply = {"error": sanitise(str(error), None) or type(error).__name__}
    parent.send(as_json(reply))
    # The thread that listens would keep the process alive.
    os._exit(0)


class FileWriter:
    """Writes the file of one request."""

    def __init__(self, parent: Parent, request: dict[str, Any]) -> None:
        self._parent, self._request = parent, request
        self._capture, self._target = Path(request["capture"]), Path(request["target"])
        self._bytes_read = 0
        self._total_bytes = total_size(segments(self._capture))
        self._reported_s = 0.0

    def write(self) -> dict[str, Any]:
        """Write the file; returns the reply.

        Raises:
            CaptureError: the capture cannot be read, the file cannot be written, or there is nothing to write.
        """
        is_report = self._request["format"] == "html"
        with new_file(self._target) as path:
            self._parent.send(as_json({"temporary": str(path)}))
            contents = self._write_report(path) if is_report else self._write_messages(path)
            size = path.stat().st_size
        return {"written": contents, "size": size}

    def _write_messages(self, path: Path) -> str:
        format_, frames = self._request["format"], self._request["frames"]
        selection = None if frames is None else filter_of_frames(frozenset(frames), self._request.get("filter", ""))
        source = CaptureInput([self._capture], self._send_note, self._on_bytes_read)
        options = WriteOptions(self._target.parent, None if selection is None else lambda _: selection)
        with path.open("wb") as file:
            contents = WRITERS[format_](source, options, file)
        if not source.read_count:
            raise CaptureError("the capture cannot be read, so nothing was written")
        if not contents:
            raise CaptureError(empty_output_error(format_, is_filtered=selection is not None))
        return contents

    def _write_report(self, path: Path) -> str:
        # Loading DuckDB takes a tenth of a second, which the other formats do not need.
        from mcpproxy.html_report.build import build_report

        report, _, sources = build_report([self._capture], self._send_progress, REPORT_MEMORY_BYTES)
        if report is None:
            raise CaptureError(next((str(error) for _, error in sources.refused), "the capture cannot be read"))
        with path.open("w", encoding="utf-8", newline="") as file:
            file.writelines(report.pieces())
        return f"{count_text(report.frames, 'frame')}, {count_text(report.finding_count, 'finding')}"

    def _on_bytes_read(self, count: int) -> None:
        self._bytes_read += count
        self._send_progress(self._bytes_read, self._total_bytes)

    def _send_progress(self, done: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s - self._reported_s >= PROGRESS_INTERVAL_S:
            self._reported_s = now_s
            self._parent.send(as_json({"progress": [done, total]}))

    def _send_note(self, text: str) -> None:
        self._parent.send(as_json({"note": sanitise(text, None)}))
