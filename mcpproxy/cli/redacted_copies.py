"""The captures of commands that hand them on in another form, and redacted copies of them: one redaction for all.

The copies are in a private folder that is deleted when the command ends.
"""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from captures.errors import CaptureError
from captures.file import create_directory
from mcpproxy.cli.diagnostics import Progress, say
from mcpproxy.cli.selection import check_output, scope_of, selected
from mcpproxy.report.text import count_text
from mcpproxy.sanitise import sanitise


@contextmanager
def inputs(options: argparse.Namespace) -> Iterator[list[Path]]:
    """The captures that the arguments name; with --redact, redacted copies of them.

    Raises:
        CaptureError: a capture cannot be read, or is the file to write.
    """
    with selected(options.capture, scope_of(options)) as chosen:
        if options.output is not None:
            check_output(options.output, chosen.paths)
        if options.redact:
            with redacted_copies(chosen.paths) as copies:
                yield copies
        else:
            yield chosen.paths


@contextmanager
def redacted_copies(paths: list[Path]) -> Iterator[list[Path]]:
    """Redacted copies of captures, with the names of the originals; stderr says how much was replaced.

    Raises:
        CaptureError: a capture cannot be read. Nothing may be published then, because what is missing is unknown.
    """
    from mcpproxy.sharing import Wanted, redacted_copy

    progress = Progress()

    def tell(done: int, total: int) -> None:
        progress.show(f"redacting, {done / total if total else 1:.0%}")

    with tempfile.TemporaryDirectory(prefix="mcpproxy-") as folder:
        copies = []
        for number, path in enumerate(paths):
            # Two captures can have the same name.
            place = Path(folder, str(number))
            create_directory(str(place))
            copies.append(place / path.name)
            try:
                account = redacted_copy(path, copies[-1], Wanted(compares=False, progress=tell))
            except CaptureError as error:
                raise CaptureError(str(error).replace(str(place), str(path.parent))) from None
            finally:
                progress.clear()
            replaced = count_text(sum(times for times, _ in account.kinds.values()), "replacement")
            say(f"redacted {sanitise(str(path))}: {replaced}; `mcpproxy share` lists them")
            if account.is_damaged:
                say(f"{sanitise(str(path))} is damaged: the copy has gaps; `mcpproxy verify` lists the damage")
        yield copies
