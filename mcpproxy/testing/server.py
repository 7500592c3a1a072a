"""RecordedServer: what a test gives to its client instead of a server, and the recording of their conversation."""

import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from captures.errors import NotACapture
from captures.listing import find_captures
from mcpproxy.sanitise import sanitise
from mcpproxy.testing.capture import Capture
from mcpproxy.testing.capture_folder import CaptureFolder
from mcpproxy.testing.commands import PROGRAM
from mcpproxy.testing.listening_child import ListeningChild
from mcpproxy.testing.misses import Advice, RequestsMissed, missed_calls, misses_text

if TYPE_CHECKING:
    from mcp import StdioServerParameters

__tracebackhide__: Final = True  # pytest shows the line of the test instead
PASSED: Final = "PASSED/"
"""Stands in the words of a mock for the folder with the captures of its conversations with the real server."""
_UNUSED: Final = "mcpproxy: never asked for: "
"""The beginning of a line in which a mock reports, when it ends, what it was never asked for."""
_NO_SDK: Final = "`parameters` needs the official SDK (pip install mcp); `command` does not"


class Played(NamedTuple):
    """The capture that a mock plays."""

    path: Path
    ignored: tuple[str, ...]
    """Places in params that do not count."""
    advice: Advice
    """What to do about a miss."""
    is_redacted: bool
    """Whether its secrets were replaced."""


class Source(NamedTuple):
    """What the recorder records: a server, or a mock in place of it."""

    command: tuple[str, ...] = ()
    """The command that speaks over stdio; empty if there is none."""
    url: str = ""
    """The URL of a server over HTTP; empty if there is none."""
    listening: tuple[str, ...] = ()
    """The words of the command of mcpproxy that listens and prints its URL; empty if there is none."""
    parameters: "StdioServerParameters | None" = None
    """Parameters of the official SDK, of which environment and working directory are kept."""
    played: Played | None = None
    """The capture that a mock plays; None for a server."""
    name: str = ""
    """The name of the server in captures; empty to derive it from the command or the URL."""
    is_strict: bool = False
    """Whether the mock exits with an error if the client never sent some requests of the capture."""


class RecordedServer:
    """A server, or a mock of one, with a recorder in front.

    Give `parameters`, `command` or `url` to a client. Use it as a context manager, and let the client end before the
    block does; afterwards, `capture` has the whole conversation. If the block fails, the capture is kept, and a note on
    the exception names it.
    """

    def __init__(
        self, source: Source, folder: Path | None = None, at_end: Callable[["RecordedServer"], None] | None = None
    ) -> None:
        """Prepare a server; nothing is started yet.

        Args:
            source: what the recorder records.
            folder: where captures go; None for a temporary folder that is deleted with this object.
            at_end: is called once, when a block has ended without an exception.
        """
        self.source: Final = source
        self.folder: Final = CaptureFolder(folder)
        self._at_end = at_end
        self._children: list[ListeningChild] = []
        self._url = ""
        self._is_closed = False
        self._is_checked = False
        self._reported_misses = 0
        self.failures: Final[list[RequestsMissed]] = []
        """What `check` has raised so far."""

    # ---- for the client

    @property
    def command(self) -> list[str]:
        """The command and its arguments, for any client that starts servers. Each start is recorded on its own.

        Raises:
            TypeError: the server has a URL and no command.
        """
        if not self.source.command:
            raise TypeError("this server is reached over HTTP; give the client its `url`")
        server = self._with_folders(self.source.command)
        return [*PROGRAM, *self._recorder("run"), "--", *server]

    def _recorder(self, command: str) -> tuple[str, ...]:
        name = ("--name", self.source.name) if self.source.name else ()
        return (command, *name, "--capture", f"{self.folder.path}/")

    def _with_folders(self, words: tuple[str, ...]) -> list[str]:
        passed_folder = f"{self.folder.path / 'passed'}/"
        return [passed_folder if word == PASSED else word for word in words]

    @property
    def parameters(self) -> "StdioServerParameters":
        """The command as the official SDK takes it; environment and working directory are those that were given.

        Raises:
            ImportError: the official SDK is not installed.
            TypeError: the server has a URL and no command.
        """
        program, *arguments = self.command
        if self.source.parameters is not None:
            return self.source.parameters.model_copy(update={"command": program, "args": arguments})
        try:
            from mcp import StdioServerParameters
        except ImportError as error:
            raise ImportError(_NO_SDK) from error
        return StdioServerParameters(command=program, args=arguments)

    @property
    def url(self) -> str:
        """The URL for the client; the recorder listens from the first use on.

        Raises:
            RuntimeError: the recorder or the mock could not be started.
            TypeError: the server has a command and no URL.
        """
        if not self._url:
            if self._is_closed:
                raise RuntimeError("the block has ended, so the server no longer listens")
            if not self.source.url and not self.source.listening:
                raise TypeError("this server is started by a command; give the client its `parameters` or `command`")
            upstream = self.source.url or self._listen(self.source.listening)
            self._url = self._listen((*self._recorder("serve"), upstream))
        return self._url

    def _listen(self, arguments: tuple[str, ...]) -> str:
        child = ListeningChild(self._with_folders(arguments), self.folder.path / f"stderr-{len(self._children)}.txt")
        self._children.append(child)
        return child.url

    # ---- for the test

    @property
    def capture(self) -> Capture:
        """The recorded conversation so far; of several starts of a command, the last one.

        A message is in it before the other side gets it. Over HTTP, this may take a moment longer: ask after the block.

        Raises:
            NotACapture: no client has started the server, or connected to it.
        """
        captures = self.folder.captures
        if not captures:
            raise NotACapture("nothing was recorded: no client has started the server, or connected to it")
        return Capture(captures[-1], keeper=self.folder)

    @property
    def captures(self) -> list[Capture]:
        """One capture for each start of the command; for a URL, one."""
        return [Capture(path, keeper=self.folder) for path in self.folder.captures]

    @property
    def passed_captures(self) -> list[Path]:
        """The captures of a mock's conversations with the real server."""
        return find_captures(self.folder.path / "passed")

    def check(self) -> None:
        """Fail if the mock got requests that its capture does not have; do nothing for a real server.

        Each miss is reported once: another check reports only those that came after.

        Raises:
            RequestsMissed: it did; the text names the nearest recorded request of each.
        """
        try:
            self._check()
        except RequestsMissed as missed:
            self.failures.append(missed)
            raise

    def _check(self) -> None:
        played = self.source.played
        if played is None or self._is_checked:
            return
        self._is_checked = self._is_closed  # then, nothing more can come
        missed = [call for capture in self.captures for call in missed_calls(capture.calls())][self._reported_misses :]
        self._reported_misses += len(missed)
        if missed:
            text = misses_text(
                missed, played.path.name, played.advice, ignored=played.ignored, is_redacted=played.is_redacted
            )
            error = RequestsMissed(text)
            error.answers = tuple(str(call.error.get("message")) for call in missed)
            raise error
        if self._is_closed and self.source.is_strict and not self._reported_misses:
            self._check_all_asked()

    def _check_all_asked(self) -> None:
        """Fail if a strict mock reports, when it ends, requests that the client never sent."""
        said = [capture.stderr for capture in self.captures] + [child.stderr_text for child in self._children[:1]]
        lines = [line.removeprefix(_UNUSED) for text in said for line in text.splitlines() if line.startswith(_UNUSED)]
        if lines:
            unused = [f"  {sanitise(line, 400)}" for line in lines]
            raise RequestsMissed("\n".join(["the capture has requests that the client never sent", *unused]))

    def close(self) -> None:
        """End what listens, and wait until the capture is closed. The command of a client ends with its client."""
        if self._is_closed:
            return
        self._is_closed = True
        # What listens last is in front: it is the recorder.
        for child in reversed(self._children):
            child.close()
        if not self.folder.wait_until_closed():
            warnings.warn(
                "the client still runs the server: close it before the block of mcp_record or mcp_mock ends",
                stacklevel=3,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        try:
            self.check()
        except RequestsMissed as missed:
            self.folder.keep()
            missed.add_note(self._kept_text)
            if error is None:
                raise
            error.add_note(str(missed))
        if error is not None:
            self.folder.keep()
            error.add_note(self._kept_text)
        elif self._at_end is not None:
            self._at_end(self)

    @property
    def _kept_text(self) -> str:
        paths = [sanitise(str(path), None) for path in self.folder.captures]
        return f"the capture is kept: {', '.join(paths)}" if paths else "nothing was recorded"
