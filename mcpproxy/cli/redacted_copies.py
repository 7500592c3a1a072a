"""Selects the captures that a command converts; with --redact, makes redacted copies of them first.

The copies are in a private folder that is deleted when the command ends. The redaction also replaces secrets in the
file names of the copies; messages name the original files.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from captures.errors import CannotCreate
from captures.file import create_directory
from captures.private_folder import private_folder
from mcpproxy.cli.diagnostics import Exit, Progress, display_names, say
from mcpproxy.cli.outputs import check_output
from mcpproxy.cli.selection import scope_of, select_captures
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text


class CommandInputs(NamedTuple):
    """The captures that a command reads."""

    paths: list[Path]
    is_damaged: bool = False
    """Whether the original of a copy is damaged, which the copy itself does not show."""

    def exit_code(self, code: int) -> int:
        """Return the exit code of a command that would otherwise end with `exit_code`."""
        return max(code, int(Exit.USAGE)) if self.is_damaged else code


@contextmanager
def command_inputs(
    options: argparse.Namespace, check: Callable[[str, list[Path]], None] = check_output
) -> Iterator[CommandInputs]:
    """Yield the captures that the arguments name or, with --redact, redacted copies of them.

    Args:
        options: the arguments of the command.
        check: a function of the output and the captures that raises an error if the output cannot be written.

    Raises:
        CaptureError: a capture cannot be read, or is the file to write.
    """
    with select_captures(options.capture, scope_of(options)) as selection:
        if options.output is not None:
            check(options.output, selection.paths)
        if options.redact:
            with redacted_copies(selection.paths) as copies:
                yield copies
        else:
            yield CommandInputs(selection.paths)


@contextmanager
def redacted_copies(paths: list[Path]) -> Iterator[CommandInputs]:
    """Yield redacted copies of captures, and report on stderr how much was replaced.

    Raises:
        CaptureError: a capture cannot be read. Nothing may be published then, because it is unknown what is missing.
    """
    from mcpproxy.sharing import ShareOptions, redacted_copy

    progress = Progress()

    def show_progress(done: int, total: int) -> None:
        progress.show(f"redacting, {done / total if total else 1:.0%}")

    with private_folder() as folder, ExitStack() as stack:
        copies, is_damaged = [], False
        for number, path in enumerate(paths):
            # Two captures can have the same name.
            copy_folder = folder / str(number)
            create_directory(str(copy_folder))
            try:
                account = redacted_copy(
                    path, copy_folder, ShareOptions(compares=False, renames=True, progress=show_progress)
                )
            except CannotCreate as error:
                parent = tempfile.gettempdir()
                raise CannotCreate(
                    f"cannot make a redacted copy of {path} in {parent}: {_system_reason(error)}; set "
                    "TMPDIR to another folder"
                ) from error
            finally:
                progress.clear()
            stack.enter_context(display_names({str(account.path): str(path), str(copy_folder): str(path.parent)}))
            copies.append(account.path)
            replacements = count_text(sum(times for times, _ in account.kinds.values()), "replacement")
            say(f"redacted {sanitise(str(path))}: {replacements}; `mcpproxy share` lists them")
            if account.is_damaged:
                is_damaged = True
                original_name = sanitise(str(path))
                say(f"{original_name} is damaged: the copy has only what is intact; `mcpproxy verify` lists the damage")
        yield CommandInputs(copies, is_damaged)


def _system_reason(error: BaseException) -> str:
    """Return the operating system's reason for an error; the error message itself names a private folder."""
    cause = error.__cause__
    if cause is not None:
        return _system_reason(cause)
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
