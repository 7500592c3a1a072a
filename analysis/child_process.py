"""Child processes that run one of mcpproxy's modules: how they start, exchange messages and end.

`PythonChild` is the parent's end, and `Parent` the child's; a `Team` is several children whose messages are received
together. The modules at the two ends decide what a message contains: JSON, as from `as_json`, or any bytes. In the
pipe, the length of each message precedes it in four bytes, and is checked before the message itself is read: a child
that handles untrusted input may send anything.

Every child ends when its stdin does, so none outlives its parent, however the parent ends. Only the end of the child's
output tells a parent that the child has ended.
"""

import json
import os
import select
import selectors
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import IO, Any, Final, Generic, NoReturn, Self, TypeVar

from analysis.garbage import make_collections_rare

_BOOT_CODE: Final = (
    "import sys; from importlib import import_module; "
    "name = sys.argv[1]; sys.path[:] = sys.argv[2:]; import_module(name).main()"
)
_INHERITED_VARIABLES: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Environment variables that some interpreters need to start."""
_CHUNK_BYTES: Final = 1 << 16
"""The most bytes of one read, and the bytes of messages that a child collects before it writes them."""
_LENGTH: Final = struct.Struct("!I")
_TO_JSON: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def usable_processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def as_json(message: object) -> bytes:
    """A message as JSON in ASCII; unlike orjson, this accepts lone surrogates, as paths and text from peers have."""
    return _TO_JSON(message).encode()


def from_json(message: bytes) -> Any:
    """Returns the value that `as_json` encoded; raises ValueError for anything else."""
    # Given bytes, `json` would first guess the encoding, which takes longer than parsing a short message.
    return json.loads(message.decode("ascii"))


class _MessageReader:
    """Reads messages from a pipe, which it does not close."""

    def __init__(self, pipe: IO[bytes], longest: int) -> None:
        self._pipe, self._max_message_bytes = pipe, longest
        self._readable = _poll(pipe, select.POLLIN)
        # Not a list of chunks, which would take fifty times as much memory if they are single bytes.
        self._unfinished = bytearray()
        """The received part of an incomplete message."""
        self._needed_bytes = 0
        """How many of its bytes must have been received before it is examined again."""
        self._is_too_long = False
        """Whether the next message is too long."""
        self._complete_messages: deque[bytes] = deque()

    def read_messages(self) -> list[bytes] | None:
        """Read the pipe once, waiting if it is empty; return the messages that are now complete, or None at its end.

        Raises:
            ValueError: the next message is too long; those before it have already been returned.
        """
        if self._is_too_long:
            raise ValueError(f"a message of more than {self._max_message_bytes} bytes")
        data = self._pipe.read(_CHUNK_BYTES)
        return self._split(data) if data else None

    def next_message(self, until_s: float | None = None) -> bytes | None:
        """Wait for a message; return None at the end of the pipe."""
        while not self._complete_messages:
            _wait(self._readable, until_s)
            messages = self.read_messages()
            if messages is None:
                return None
            self._complete_messages += messages
        return self._complete_messages.popleft()

    def _split(self, data: bytes) -> list[bytes]:
        self._unfinished += data
        if len(self._unfinished) < self._needed_bytes:
            return []
        data, offset = bytes(self._unfinished), 0
        messages: list[bytes] = []
        self._needed_bytes = _LENGTH.size
        while (start := offset + _LENGTH.size) <= len(data):
            (length,) = _LENGTH.unpack_from(data, offset)
            self._is_too_long = length > self._max_message_bytes
            if self._is_too_long:
                if messages:
                    break
                raise ValueError(f"a message of more than {self._max_message_bytes} bytes")
            end = start + length
            if end > len(data):
                self._needed_bytes += length
                break
            messages.append(data[start:end])
            offset = end
        # Last, so that Ctrl-C loses nothing.
        del self._unfinished[:offset]
        return messages


class PythonChild:
    """A process that runs `main()` of a module, in its own process group: Ctrl-C on a terminal reaches only the parent.

    It imports modules only from the directories that the parent imports from. It inherits no descriptors except its
    pipes, and its stderr is discarded, because it would be drawn across the screen.
    """

    def __init__(self, module: str, *, bare: bool = False, longest: int = 1 << 20) -> None:
        """Start the process.

        Args:
            module: the full name of the module.
            bare: whether it starts without this process's environment and working directory.
            longest: the most bytes of a message that it may send.

        Raises:
            OSError: the system cannot start a process.
        """
        package_root = str(Path(__file__).parents[1])
        directories = [package_root, *(os.path.abspath(directory) for directory in sys.path if directory)]
        # By default, glibc reserves 64 MiB of address space for each thread that allocates memory.
        bare_environment = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ} | {
            "MALLOC_ARENA_MAX": "2"
        }
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOT_CODE, module, *dict.fromkeys(directories)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/" if bare else None,
            env=bare_environment if bare else None,
            process_group=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._writable = _poll(self._stdin, select.POLLOUT)
        self._reader = _MessageReader(self._stdout, longest)
        self._owner = os.getpid()
        self._has_listener = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def stdout(self) -> int:
        """The descriptor from which its output can be read."""
        return self._stdout.fileno()

    @property
    def is_own(self) -> bool:
        """Whether this process started it, rather than a process that this one was forked from."""
        return self._owner == os.getpid()

    @property
    def is_alive(self) -> bool:
        """Whether it is running."""
        return self._process.poll() is None

    def send(self, message: bytes, until_s: float | None = None) -> None:
        """Send a message, which is lost if the child has ended.

        Args:
            message: the message.
            until_s: when to give up, by the monotonic clock.

        Raises:
            TimeoutError: the child does not read; part of the message may have been sent.
        """
        unsent = memoryview(_LENGTH.pack(len(message)) + message)
        while unsent and not self._stdin.closed:
            _wait(self._writable, until_s)
            try:
                unsent = unsent[self._stdin.write(unsent if until_s is None else unsent[: select.PIPE_BUF]) :]
            except (BrokenPipeError, ValueError):  # it has ended, or its stdin has just been closed
                return

    def send_end(self) -> None:
        """Close its stdin, which makes it end."""
        with suppress(OSError):
            self._stdin.close()

    def receive(self, until_s: float | None = None) -> bytes:
        """Wait for its next message.

        Args:
            until_s: when to give up, by the monotonic clock.

        Raises:
            TimeoutError: no message has arrived yet; the part received so far is kept.
            BrokenPipeError: the child has ended.
            ValueError: the next message is too long.
        """
        message = None if self._stdout.closed else self._reader.next_message(until_s)
        if message is None:
            raise BrokenPipeError
        return message

    def listen(self, on_message: Callable[[bytes], None], on_end: Callable[[int, Exception | None], None]) -> None:
        """Start a thread that passes on its messages until it ends.

        Args:
            on_message: called with each message; if it raises an error because the message is invalid, the child is
                killed.
            on_end: called at the end, with the exit status, or the negative number of the signal that killed the child,
                and the error if its last message was too long or invalid.
        """

        def run() -> None:
            fault = None
            try:
                while (messages := self._reader.read_messages()) is not None:
                    for message in messages:
                        on_message(message)
            except (ArithmeticError, LookupError, OSError, RecursionError, TypeError, ValueError) as error:
                fault = error
                self.kill()
            status = self.wait()
            self._stdout.close()
            self.send_end()
            on_end(status, fault)

        self._has_listener = True
        threading.Thread(target=run, name="child", daemon=True).start()

    def kill(self) -> None:
        """Kill it, even while it is busy; its pipes stay open."""
        self._process.kill()

    def wait(self) -> int:
        """Wait until it has ended; return its exit status, or the negative number of the signal that killed it."""
        return self._process.wait()

    def close(self) -> None:
        """Kill it, wait for it and close its pipes; after a fork, only the process that started it does anything."""
        if self.is_own:
            self.kill()
            self.wait()
            self.send_end()
            if not self._has_listener:
                self._stdout.close()


Child = TypeVar("Child", bound=PythonChild)


class Team(Generic[Child]):
    """Children that work in parallel; use it in a `with` statement to be sure that all end."""

    def __init__(self) -> None:
        """Start without children."""
        self.children: list[Child] = []
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for child in self.children:
            child.close()

    @property
    def has_running_children(self) -> bool:
        """Whether any child may still send something."""
        return bool(self._selector.get_map())

    def add(self, child: Child) -> None:
        """Add a child."""
        self.children.append(child)
        self._selector.register(child.stdout, selectors.EVENT_READ, child)

    def receive(self, only_child: Child | None = None) -> Iterator[tuple[Child, list[bytes] | None]]:
        """Wait until a child sends something, or ends.

        Args:
            only_child: the only child to receive from; the others have to wait once their pipes are full.

        Yields:
            A child with its complete messages, or with None if it has ended.

        Raises:
            ValueError: the next message is too long.
        """
        for child in [key.data for key, _ in self._selector.select()] if only_child is None else [only_child]:
            messages = child._reader.read_messages()
            if messages is None:
                self._selector.unregister(child.stdout)
            yield child, messages


class Parent:
    """The connection of a child to its parent, for use in the child. The child exits when its parent does.

    Anything that a library prints is discarded, so that it cannot look like a message.
    """

    def __init__(self) -> None:
        """Take over stdin and stdout as the pipes to the parent."""
        make_collections_rare()
        requests, self._output_fd = _move_pipes()
        # The parent is trusted, so its messages may have any length.
        self._reader = _MessageReader(FileIO(requests), 1 << 32)
        self._unsent_bytes = bytearray()

    def receive(self) -> bytes:
        """Wait for the next message; if the parent has closed the pipe instead, this process ends."""
        message = self._reader.next_message()
        if message is None:
            os._exit(0)
        return message

    def listen(self, on_message: Callable[[bytes], None]) -> None:
        """Start a thread that passes on each message, so that this process ends with its parent even while it is busy.

        Args:
            on_message: called with each message; if it raises an error, this process ends.
        """

        def run() -> NoReturn:
            try:
                while True:
                    on_message(self.receive())
            finally:
                os._exit(1)

        threading.Thread(target=run, daemon=True).start()

    def send(self, message: bytes) -> None:
        """Send a message at once."""
        self.send_later(message)
        self.flush()

    def send_later(self, message: bytes) -> None:
        """Send a message together with later ones: many small ones cost one write."""
        self._unsent_bytes += _LENGTH.pack(len(message)) + message
        if len(self._unsent_bytes) >= _CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send the messages that are still waiting."""
        unsent, self._unsent_bytes = self._unsent_bytes, bytearray()
        try:
            _write_all(self._output_fd, unsent)
        except BrokenPipeError:
            os._exit(0)


def _move_pipes() -> tuple[int, int]:
    """Duplicate the stdin and stdout of a child under other numbers, and return those.

    Anything printed after that is discarded, and no code that opens the standard streams by name reads what the parent
    sends.
    """
    requests_fd, answers_fd, null_fd = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null_fd, fd)
    os.close(null_fd)
    return requests_fd, answers_fd


def _write_all(fd: int, data: bytes | bytearray) -> None:
    """Write all the data to a blocking descriptor.

    Raises:
        OSError: there is no reader, or the disk is full.
    """
    unwritten = memoryview(data)
    while unwritten:
        unwritten = unwritten[os.write(fd, unwritten) :]


def _poll(pipe: IO[bytes], event: int) -> "select.poll":
    poll = select.poll()
    poll.register(pipe, event)
    return poll


def _wait(poll: "select.poll", until_s: float | None) -> None:
    """Wait until a pipe can be read, or accepts `PIPE_BUF` bytes; without a time limit, the read or write will wait."""
    if until_s is not None:
        remaining_s = until_s - time.monotonic()
        if remaining_s <= 0 or not poll.poll(remaining_s * 1000):
            raise TimeoutError
