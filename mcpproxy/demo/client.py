"""A scripted MCP client: starts a server's command, sends the same lines in the same order, and hangs up.

    python -P -m mcpproxy.demo.client -- COMMAND [ARGUMENT...]

It uses the handshake era first and then the modern one, over one connection. It waits for each response before it
continues (except for the response that a faulty server never sends), so that the order of a recording is the order of
the script. Nothing waits for ever: a server that does not respond is abandoned at the deadline, and a server that does
not end is killed.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import IO, Final, TypeAlias

from mcpproxy.demo.call import CAPABILITIES_KEY, LOG_LEVEL_KEY, MODERN_REVISIONS, VERSION_KEY, Json, encode

RESPONSE_TIMEOUT_S: Final = 10.0
"""How long a response may take, by default."""
EXIT_TIMEOUT_S: Final = 10.0
"""How long a command may take to end, by default."""
REVISION: Final = "2025-11-25"
CLIENT_INFO: Final = {"name": "mcpproxy-demo-client", "version": "1.0.0"}
INFO_KEY: Final = "io.modelcontextprotocol/clientInfo"
MODERN_META: Final[Json] = {VERSION_KEY: MODERN_REVISIONS[-1], INFO_KEY: CLIENT_INFO, CAPABILITIES_KEY: {}}

MessagePredicate: TypeAlias = Callable[[Json], bool]


class SilentError(Exception):
    """The command closed its side, or did not send the expected message in time."""


class Conversation:
    """Sends requests and receives messages over a pair of pipes."""

    def __init__(
        self, stdin: IO[bytes], stdout: IO[bytes], answer_s: float, pace: Callable[[], None] | None = None
    ) -> None:
        self._stdin = stdin
        self._pace = pace
        self._answer_s = answer_s
        self._stdout_fd = stdout.fileno()
        self._partial_line = b""
        self._received_messages: list[Json] = []
        self._last_id = 0

    def send(self, message: Json) -> None:
        """Write one message."""
        if self._pace is not None:
            self._pace()
        self._stdin.write(encode({"jsonrpc": "2.0", **message}))
        self._stdin.flush()

    def request(self, method: str, params: Json | None = None) -> int:
        """Send a request without waiting for the response; returns the id."""
        self._last_id += 1
        self.send({"id": self._last_id, "method": method} | ({} if params is None else {"params": params}))
        return self._last_id

    def request_and_wait(self, method: str, params: Json | None = None) -> Json:
        """Send a request, and wait for the response, even one that has the id as a string."""
        request_id = self.request(method, params)
        return self.receive(lambda message: "method" not in message and str(message.get("id")) == str(request_id))

    def request_modern_and_wait(self, method: str, params: Json | None = None, meta: Json | None = None) -> Json:
        """Send a request of the modern era, with version and capabilities, and wait for the response."""
        return self.request_and_wait(method, {**(params or {}), "_meta": {**MODERN_META, **(meta or {})}})

    def call_tool(self, tool: str, **arguments: object) -> Json:
        """Call a tool."""
        return self.request_and_wait("tools/call", {"name": tool, "arguments": arguments})

    def receive(self, is_wanted: MessagePredicate) -> Json:
        """Returns the next message that `is_wanted` accepts, and skips the others.

        Raises:
            SilentError: no such message arrived in time.
        """
        deadline = time.monotonic() + self._answer_s
        while True:
            while self._received_messages:
                message = self._received_messages.pop(0)
                if is_wanted(message):
                    return message
            self._read(deadline)

    def _read(self, deadline: float) -> None:
        readable, _, _ = select.select([self._stdout_fd], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            raise SilentError(f"no answer within {self._answer_s:g} s")
        chunk = os.read(self._stdout_fd, 65536)
        if not chunk:
            raise SilentError("the server closed its stdout")
        *lines, self._partial_line = (self._partial_line + chunk).split(b"\n")
        self._received_messages += [message for line in lines if isinstance(message := _decoded(line), dict)]


def _decoded(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None


def run_script(server: Conversation) -> None:
    """Send the whole script, in order."""
    _handshake_era(server)
    _modern_era(server)


def _handshake_era(server: Conversation) -> None:
    server.request_and_wait("initialize", {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": CLIENT_INFO})
    server.send({"method": "notifications/initialized"})
    server.request_and_wait("tools/list")
    server.call_tool("add", a=19, b=23)
    server.call_tool("word_count", text="what crossed the wire is what the record says")
    server.request_and_wait(
        "tools/call",
        {"name": "slow_echo", "arguments": {"text": "done", "seconds": 0.15}, "_meta": {"progressToken": "echo"}},
    )
    server.call_tool("read_note", name="holidays")
    _cancel_slow_call(server)
    server.request_and_wait("resources/list")
    server.request_and_wait("resources/read", {"uri": "note://travel"})
    server.request_and_wait("resources/read", {"uri": "note://holidays"})
    server.request_and_wait("prompts/list")
    server.request_and_wait("prompts/get", {"name": "summarise", "arguments": {"note": "zoo"}})
    # A faulty server leaves this unanswered. The response to the next request shows that none is coming.
    server.request("resources/templates/list")
    server.request_and_wait("ping")


def _cancel_slow_call(server: Conversation) -> None:
    """Start a slow call, wait until it has begun, and cancel it."""
    arguments = {"text": "never mind", "steps": 5, "seconds": 10}
    request_id = server.request(
        "tools/call", {"name": "slow_echo", "arguments": arguments, "_meta": {"progressToken": "long"}}
    )
    server.receive(lambda message: message.get("method") == "notifications/message")
    server.send({"method": "notifications/cancelled", "params": {"requestId": request_id, "reason": "too slow"}})
    server.request_and_wait("ping")


def _modern_era(server: Conversation) -> None:
    server.request_modern_and_wait("server/discover")
    server.request_modern_and_wait("tools/list")
    server.request_modern_and_wait("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    slow_call = {"name": "slow_echo", "arguments": {"text": "again", "steps": 2, "seconds": 0.1}}
    server.request_modern_and_wait("tools/call", slow_call, {"progressToken": "again", LOG_LEVEL_KEY: "info"})
    server.request_modern_and_wait("tools/call", {"name": "fail", "arguments": {"reason": "the printer is on fire"}})
    server.request_modern_and_wait("resources/read", {"uri": "note://holidays"})


def converse(
    argv: Sequence[str],
    stderr: int | IO[bytes] | None = None,
    *,
    answer_s: float = RESPONSE_TIMEOUT_S,
    end_s: float = EXIT_TIMEOUT_S,
    pace: Callable[[], None] | None = None,
) -> int:
    """Start a command and run the script with it.

    Args:
        argv: the server's command.
        stderr: where its stderr goes; None for this process's own.
        answer_s: how long a response may take.
        end_s: how long the command may take to end after its stdin was closed, and again after TERM.
        pace: called before each message of the client; an exception from it ends the conversation.

    Returns:
        The exit status of the command; 128 + the signal if a signal ended it.

    Raises:
        SilentError: the command stopped responding, but ended with status 0.
        OSError: the command could not be started.
    """
    silence: SilentError | None = None
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr) as command:
        assert command.stdin is not None
        assert command.stdout is not None
        try:
            run_script(Conversation(command.stdin, command.stdout, answer_s, pace))
        except SilentError as error:
            silence = error
        except BrokenPipeError:
            silence = SilentError("the server closed its stdin")
        except BaseException:
            _end_command(command, end_s)
            raise
        status = _end_command(command, end_s)
    if silence and status == 0:
        raise silence
    return status


def _end_command(command: subprocess.Popen[bytes], end_s: float) -> int:
    """Hang up, wait, send TERM, and finally KILL; returns the exit status."""
    assert command.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        command.stdin.close()
    for stop in (command.terminate, command.kill):
        try:
            command.wait(end_s)
            break
        except subprocess.TimeoutExpired:
            stop()
    status = command.wait()
    return status if status >= 0 else 128 - status


def main(arguments: list[str]) -> int:
    """Talk to the command after `--`."""
    if arguments[:1] != ["--"] or len(arguments) < 2:
        sys.stderr.write("usage: python -P -m mcpproxy.demo.client -- COMMAND [ARGUMENT...]\n")
        return 2
    try:
        return converse(arguments[1:])
    except (SilentError, OSError) as error:
        sys.stderr.write(f"demo client: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
