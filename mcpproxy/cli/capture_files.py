"""Writes the captures of an import: chooses their paths, and publishes each capture when it is complete."""

import os
import shlex
import sys
import time
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from captures.errors import CannotCreate, CaptureError
from captures.file import CaptureFile, choose_path, create_directory
from captures.paths import SUFFIX, captures_root, file_name, safe_name
from captures.publication import new_capture
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.limited_reports import LimitedReports
from mcpproxy.cli.outputs import written_line
from mcpproxy.importers.conversations import Output
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text

BATCH_BYTES: Final = 64 << 10
"""Lines are written in batches of about this many bytes."""
MAX_STEM_CHARS: Final = 56
"""The maximum length of a name, in characters, to which a number is appended."""


def check_output(output: str | None) -> None:
    """Checks that `output` names a new capture or a folder.

    Raises:
        CaptureError: it is empty, an existing file that is not a capture, or named like one, such as `x.json`.
    """
    # An existing capture is rejected later, when it would be overwritten.
    if output is None or output.endswith(SUFFIX) or os.path.isdir(output):
        return
    if not output or os.path.lexists(output):
        raise CaptureError(f"cannot write {output or repr(output)}: -o must end in {SUFFIX}, or name a folder")
    if Path(output).suffix and not output.endswith("/"):
        raise CaptureError(f"-o {output}: end the name of a file with {SUFFIX}, or of a folder with /")


class CaptureFiles:
    """The new captures of one import. Captures that are still incomplete when the `with` block ends are deleted."""

    def __init__(self, output: str | None) -> None:
        """`output` is a new file, a folder, or None for the default folder of captures; see `check_output`."""
        self._output = output
        self._open_files: list[_CaptureFile] = []
        self._swept_folders: set[Path] = set()
        """Folders from which the leftovers of killed imports have been removed."""
        self._report_error: OSError | None = None
        """The error that prevented captures from being listed on stdout."""
        self._failures = LimitedReports(lambda failure: fail(failure, Exit.CANNOT_CREATE))
        """The captures that could not be created."""
        self._name_counts: dict[str, int] = {}
        """How many captures have each name."""
        self._unpublished_file: _CaptureFile | None = None
        """The complete capture for a single output file. It is published at the end, if no other capture followed."""
        self.count = 0
        """The number of published captures."""
        self.exit_code = int(Exit.FINE)
        """The exit code of the import: `CANNOT_CREATE` if a capture could not be created."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if error is None and self._unpublished_file is not None:
            self._publish(self._unpublished_file)
        for file in list(self._open_files):
            file.discard()
        if error is None and self._failures.unreported_count:
            fail(f"cannot create {count_text(self._failures.unreported_count, 'more capture')}")

    def check_report(self) -> None:
        """Raise the error that prevented captures from being listed on stdout, if any.

        Raises:
            BrokenPipeError: the reader of stdout has closed it.
            CaptureError: stdout cannot be written.
        """
        error = self._report_error
        if isinstance(error, BrokenPipeError):
            raise error
        if error is not None:
            raise CaptureError(f"the captures were written, but cannot be listed on stdout: {error.strerror}")

    def open_capture(self, path: Path) -> AbstractContextManager[CaptureFile]:
        """Returns a new capture at `path`. The first call for each folder removes the leftovers of killed processes."""
        sweeps = path.parent not in self._swept_folders
        self._swept_folders.add(path.parent)
        return new_capture(path, sweeps=sweeps)

    def report(self, line: str) -> None:
        """Write a line to stdout; if that fails, the import goes on, and `check_report` raises the error."""
        if self._report_error is not None:
            return
        try:
            sys.stdout.write(line)
            sys.stdout.flush()
        except OSError as error:
            self._report_error = error

    def create(self, name: str, wall_ns: int | None) -> Output:
        """Create a capture. If that fails, report it and return an output that drops its lines.

        Args:
            name: the name of the conversation.
            wall_ns: when the conversation began, if known.

        Raises:
            CannotCreate: the folder cannot be created.
            CaptureError: the output is a single file, and this is the second capture.
        """
        if self._output is not None and not self._is_file:
            create_directory(self._output)
        try:
            file = _CaptureFile(self, Path(self._path(name, wall_ns)))
        except CannotCreate as error:
            self._report_failure(error)
            return _NullOutput()
        self._open_files.append(file)
        return file

    def close(self, file: "_CaptureFile") -> None:
        """Publish a capture. If the output is a single file, that waits for the end of the import."""
        if self._is_file:
            self._unpublished_file = file
        else:
            self._publish(file)

    def command_for(self, path: Path) -> str:
        """Returns the command that shows a capture; `tui` lists only the default folder of captures."""
        return "mcpproxy tui" if self._output is None else f"mcpproxy show {sanitise(shlex.quote(str(path)))}"

    def forget(self, file: "_CaptureFile") -> None:
        """Remove a capture that was published or deleted from the list of open captures."""
        self._open_files.remove(file)

    @property
    def _is_file(self) -> bool:
        output = self._output
        return output is not None and output.endswith(SUFFIX) and not os.path.isdir(output)

    def _path(self, name: str, wall_ns: int | None) -> str:
        now_ns = time.time_ns()
        if self._output is None:
            return choose_path(None, os.path.join(captures_root(), safe_name(name)), wall_ns or now_ns, say)
        if self._is_file:
            if self._name_counts:
                raise CaptureError(
                    f"cannot write {self._output}: the log contains several conversations, so -o must name a folder"
                )
            self._name_counts[name] = 1
            return choose_path(self._output, "", now_ns)
        path = choose_path(os.path.join(self._output, self._free_name(name)), "", now_ns)
        if os.path.lexists(path):
            raise CannotCreate(f"{path} already exists; choose another folder")
        return path

    def _free_name(self, name: str) -> str:
        """Returns a file name that no other capture of this import has."""
        stem = safe_name(name)
        uses = self._name_counts[stem] = self._name_counts.get(stem, 0) + 1
        while uses > 1 and (numbered_stem := f"{stem[:MAX_STEM_CHARS]}-{uses}") in self._name_counts:
            uses = self._name_counts[stem] = uses + 1
        if uses == 1:
            return file_name(stem)
        self._name_counts[numbered_stem] = 1
        return file_name(numbered_stem)

    def _publish(self, file: "_CaptureFile") -> None:
        self.forget(file)
        try:
            file.publish()
        except CannotCreate as error:
            self._report_failure(error)
        else:
            self.count += 1

    def _report_failure(self, error: CannotCreate) -> None:
        self.exit_code = int(Exit.CANNOT_CREATE)
        self._failures.report_or_count(str(error))


class _NullOutput:
    """The output in place of a capture that could not be created; it drops every line."""

    def append(self, line: bytes) -> None:
        """Drop a line."""

    def close(self) -> None:
        """Does nothing."""

    def discard(self) -> None:
        """Does nothing."""


class _CaptureFile:
    """A capture that is being written."""

    def __init__(self, files: CaptureFiles, path: Path) -> None:
        self._files, self._path = files, path
        self._stack = ExitStack()
        self._capture = self._stack.enter_context(files.open_capture(path))
        self._batch: list[bytes] = []
        self._batch_bytes = self._line_count = 0

    def append(self, line: bytes) -> None:
        """Add a line.

        Raises:
            CannotCreate: it cannot be written.
        """
        self._batch.append(line)
        self._line_count += 1
        self._batch_bytes += len(line)
        if self._batch_bytes >= BATCH_BYTES:
            self._flush()

    def close(self) -> None:
        """Complete the capture."""
        self._files.close(self)

    def discard(self) -> None:
        """Delete the capture."""
        self._files.forget(self)
        with suppress(_DiscardedCapture):
            self._stack.__exit__(_DiscardedCapture, _DiscardedCapture(), None)

    def publish(self) -> None:
        """Write the remaining lines, and give the capture its final name.

        Raises:
            CannotCreate: it cannot be written, or its name is in use by now.
        """
        self._flush()
        size = self._capture.size
        self._stack.close()
        contents = count_text(self._line_count, "record")
        hint = f"`{self._files.command_for(self._path)}` shows it"
        self._files.report(written_line(self._path, contents, size, hint))

    def _flush(self) -> None:
        try:
            self._capture.append(b"".join(self._batch))
        except BaseException:
            if not self._stack.__exit__(*sys.exc_info()):  # raises CannotCreate if the disk is full
                raise
        self._batch.clear()
        self._batch_bytes = 0


class _DiscardedCapture(Exception):
    """Raised into the context of a capture, to delete it instead of publishing it."""
