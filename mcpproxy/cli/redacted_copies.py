"""The captures of commands that convert them, and redacted copies of the captures: one redaction for all.

The copies are in a private folder that is deleted when the command ends. What the redaction replaces in a capture, it
also replaces in the name of its file; messages name the original.
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
from mcpproxy.cli.selection import scope_of, selected
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text


class Inputs(NamedTuple):
    """The captures that a command reads."""

    paths: list[Path]
    is_damaged: bool = False
    """Whether the original of a copy is damaged, which the copy does not show."""

    def code(self, code: int) -> int:
        """The exit code of a command that would otherwise end with `code`."""
        return max(code, int(Exit.USAGE)) if self.is_damaged else code


@contextmanager
def inputs(options: argparse.Namespace, check: Callable[[str, list[Path]], None] = check_output) -> Iterator[Inputs]:
    """The captures that the arguments name; with --redact, redacted copies of them.

    Args:
        options: the arguments.
        check: given the output and the captures, raises an error if the output cannot be written.

    Raises:
        CaptureError: a capture cannot be read, or is the file to write.
    """
    with selected(options.capture, scope_of(options)) as chosen:
        if options.output is not None:
            check(options.output, chosen.paths)
        if options.redact:
            with redacted_copies(chosen.paths) as copies:
                yield copies
        else:
            yield Inputs(chosen.paths)


@contextmanager
def redacted_copies(paths: list[Path]) -> Iterator[Inputs]:
    """Redacted copies of captures; stderr says how much was replaced.

    Raises:
        CaptureError: a capture cannot be read. Nothing may be published then, because what is missing is unknown.
    """
    from mcpproxy.sharing import ShareOptions, redacted_copy

    progress = Progress()

    def tell(done: int, total: int) -> None:
        progress.show(f"redacting, {done / total if total else 1:.0%}")

    with private_folder() as folder, ExitStack() as stack:
        copies, is_damaged = [], False
        for number, path in enumerate(paths):
            # Two captures can have the same name.
            place = folder / str(number)
            create_directory(str(place))
            try:
                account = redacted_copy(path, place, ShareOptions(compares=False, renames=True, progress=tell))
            except CannotCreate as error:
                room = tempfile.gettempdir()
                raise CannotCreate(
                    f"cannot make a redacted copy of {path} in {room}: {_reason(error)}; set TMPDIR to another folder"
                ) from error
            finally:
                progress.clear()
            stack.enter_context(display_names({str(account.path): str(path), str(place): str(path.parent)}))
            copies.append(account.path)
            replaced = count_text(sum(times for times, _ in account.kinds.values()), "replacement")
            say(f"redacted {sanitise(str(path))}: {replaced}; `mcpproxy share` lists them")
            if account.is_damaged:
                is_damaged = True
                named = sanitise(str(path))
                say(f"{named} is damaged: the copy has only what is intact; `mcpproxy verify` lists the damage")
        yield Inputs(copies, is_damaged)


def _reason(error: BaseException) -> str:
    """The system's reason for an error; the message itself names one of mcpproxy's folders."""
    cause = error.__cause__
    if cause is not None:
        return _reason(cause)
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
