"""A worker process that observes a side for the process that compares."""

from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from analysis.child_process import Parent, PythonChild, as_json, from_json
from analysis.comparison.encoding import decode_side, encode_side
from analysis.comparison.observe import observe
from analysis.comparison.options import ObserveOptions
from analysis.comparison.side import Side
from captures.errors import CaptureError

MAX_LINE_BYTES: Final = 256 << 20
"""The maximum size of a line of a side; the records of all aspects are bounded far below."""
_END: Final = b"end"
_UNREADABLE: Final = b"unreadable "


class ObserveWorker(PythonChild):
    """A worker process, as the process that compares uses it."""

    def __init__(self, name: str, captures: Sequence[tuple[str, Path]], options: ObserveOptions) -> None:
        """Start the process; it begins to observe at once.

        Args:
            name: as for `observe`.
            captures: as for `observe`.
            options: as for `observe`; the filter is known to be valid.

        Raises:
            OSError: the system cannot start a process.
        """
        super().__init__(__name__, longest=MAX_LINE_BYTES)
        named_paths = [(capture_name, str(path)) for capture_name, path in captures]
        self.send(as_json({"name": name, "captures": named_paths, "options": list(options)}))

    def side(self) -> Side:
        """Wait for the side; return it.

        Raises:
            CaptureError: a capture cannot be read.
            BrokenPipeError: the process has died.
            ValueError: what it sent is not a side.
        """
        lines: list[bytes] = []
        while (line := self.receive()) != _END:
            if line.startswith(_UNREADABLE):
                raise CaptureError(from_json(line.removeprefix(_UNREADABLE)))
            lines.append(line)
        return decode_side(lines)


def main() -> None:
    """Run a worker: observe the side that the parent names."""
    parent = Parent()
    requests: SimpleQueue[bytes] = SimpleQueue()
    parent.listen(requests.put)
    request = from_json(requests.get())
    only, ignored_pointers, with_findings = request["options"]
    options = ObserveOptions(only, tuple(ignored_pointers), with_findings)
    try:
        side = observe(request["name"], [(name, Path(path)) for name, path in request["captures"]], options)
    except CaptureError as error:
        parent.send(_UNREADABLE + as_json(str(error)))
        return
    for line in encode_side(side):
        parent.send(line)
    parent.send(_END)
    requests.get()  # ends with this process's stdin: what was sent must not be lost
