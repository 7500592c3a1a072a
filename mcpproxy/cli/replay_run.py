"""One replay: reads the capture, asks before it sends what may change something, sends, and compares."""

import argparse
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from analysis.playback.matching import Matching
from analysis.playback.script import Script
from captures.errors import CannotCreate, CaptureError
from captures.file import choose_path
from captures.paths import SUFFIX, captures_root, safe_name
from captures.reader import Capture
from mcpproxy.cli.compare import compare_sides, write_failure
from mcpproxy.cli.diagnostics import Exit, Progress, fail, say, say_table
from mcpproxy.cli.outputs import check_file_output
from mcpproxy.cli.selection import refuse_folder, select_captures
from mcpproxy.replay.arrivals import cost, limit_for
from mcpproxy.replay.conversation import Conversation, Outgoing
from mcpproxy.replay.http import HttpOptions, HttpRecorder, HttpTransport, StartError
from mcpproxy.replay.options import ReplayOptions
from mcpproxy.replay.outcome import ReplayOutcome
from mcpproxy.replay.own_handshake import missing_revision
from mcpproxy.replay.plan import Connection, Plan, is_legacy, plan
from mcpproxy.replay.replay import replay
from mcpproxy.replay.safety import ToolHints, UnsafeCalls, redacted_count, refusal, unsafe_calls
from mcpproxy.replay.stdio import StdioTransport
from mcpproxy.sanitise import sanitise, sanitise_bytes
from mcpproxy.wording.counts import count_text

_MAX_ROWS: Final = 20
"""The maximum number of tools that are listed; others are counted."""
_PROGRESS_S: Final = 0.1
"""How often the progress line changes at most, in seconds."""
_MAX_NAME_CHARS: Final = 80
_OWN_PREFIX: Final = b"mcpproxy: "
"""How the lines of the recorder on stderr begin."""
_CANNOT_RUN: Final = _OWN_PREFIX + b"cannot run "
_STDERR: Final = "the server's stderr: "
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,80}", re.ASCII).fullmatch
_WITHOUT_HANDSHAKE: Final = "not method:initialize"
"""The filter for a comparison with a recording that has no handshake."""


class Target(NamedTuple):
    """The server."""

    words: tuple[str, ...]
    """Its command, or its URL alone."""
    is_url: bool
    fields: Mapping[str, str]
    """Header fields for a URL."""


class ReplayRun:
    """A replay with these options."""

    def __init__(self, options: argparse.Namespace, target: Target) -> None:
        """Begin a replay; nothing is read or started yet."""
        self._options, self._target = options, target
        self._replay_options = ReplayOptions(options.speed, options.timeout, Matching())
        self._progress = Progress()
        self._sent = 0
        self._next_progress_s = 0.0
        self._name = "server-replay"
        """The name of the server in the new capture: where recordings are, not the recorded one, so that `compare
        SERVER` takes no replay for a recording."""

    def run(self) -> int:
        """Send, compare, and return the exit code.

        Raises:
            CaptureError: the capture cannot be read, or the new one or the output not be written.
            FilterError: the filter is invalid.
        """
        if self._options.capture != "-":
            refuse_folder(self._options.capture)
        with select_captures([self._options.capture]) as selection:
            if len(selection.paths) != 1:
                return fail(f"{sanitise(self._options.capture)} names {len(selection.paths):,} captures; name one")
            path = selection.paths[0]
            if self._options.output is not None:
                check_file_output(self._options.output, [path], force=self._options.force)
            script = Script(path, self._replay_options.matching)
            try:
                return self._run(script, path)
            finally:
                self._progress.clear()
                script.close()

    def _run(self, script: Script, path: Path) -> int:
        self._progress.show(f"reading {path}")
        while script.grow():
            pass
        chosen = plan(script, path, self._options.only)
        items = chosen.items(script)
        hints = ToolHints(script)
        self._progress.clear()
        if not items:
            return self._fail(path, "the capture has no message of a client to send", f"{path}: ")
        unsafe = unsafe_calls(script, items, hints)
        if unsafe and not self._options.yes:
            _say_unsafe(unsafe)
            reason = hints.doubt or f"the recorded list of tools does not mark {_first_of(unsafe)} as read-only"
            return self._fail(
                path,
                f"nothing was sent: {reason}; --yes sends all, and --only FILTER leaves some out{_example_of(unsafe)}",
            )
        self._say_beginning(script, chosen, redacted_count(script, items))
        self._name = self._new_name(Capture(path).header.members.get("name"))
        new = self._new_path(chosen)
        try:
            outcomes = self._send(script, chosen, hints, new, len(items))
        except CaptureError as error:
            write_failure(self._options, str(path), str(new), str(error))
            raise
        self._progress.clear()
        return self._end(path, new, outcomes)

    def _say_beginning(self, script: Script, chosen: Plan, redacted: int) -> None:
        for caveat in () if script.ending is None else script.ending.caveats:
            say(f"the recording: {caveat}")
        if chosen.refused_count:
            say(f"{count_text(chosen.refused_count, 'message')} left out: the client repeated what was refused")
        if redacted:
            say(f"{count_text(redacted, 'message')} with redacted values, which are sent as they are")

    # ---- the new capture

    def _new_name(self, recorded: object) -> str:
        """Returns the name of the server in the new capture, given the recorded one."""
        name = recorded if isinstance(recorded, str) and recorded else "server"
        if self._options.new_capture is None:
            return f"{safe_name(name)[:48]}-replay"
        return name if name.isprintable() and len(name) <= _MAX_NAME_CHARS else safe_name(name)

    def _new_path(self, chosen: Plan) -> Path:
        """Returns the path of the new capture; of several, of the folder with them.

        Raises:
            CannotCreate: there can be no capture.
        """
        wanted = self._options.new_capture
        needs_folder = not self._target.is_url and len(chosen.connections) > 1
        default = os.path.join(captures_root(), self._name) if wanted is None else ""
        new = choose_path(wanted, default, time.time_ns(), say)
        if not needs_folder:
            if os.path.lexists(new):
                raise CannotCreate(f"cannot create the capture {new}: it already exists; choose another path")
            return Path(new)
        if wanted is not None and not (wanted.endswith(os.sep) or os.path.isdir(wanted)):
            sessions = count_text(len(chosen.connections), "session")
            raise CannotCreate(
                f"the recording has {sessions}, each of which needs a process and a capture of its own: "
                f"--capture {wanted.removesuffix(SUFFIX)}/"
            )
        folder = Path(new.removesuffix(SUFFIX))
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise CannotCreate(f"cannot create the folder {folder}: {error.strerror}") from error
        return folder

    # ---- sending

    def _send(self, script: Script, chosen: Plan, hints: ToolHints, new: Path, total: int) -> list[ReplayOutcome]:
        if self._target.is_url:
            return self._send_to_url(script, chosen.connections, hints, new, total)
        outcomes = []
        for number, connection in enumerate(chosen.connections, 1):
            capture = new if len(chosen.connections) == 1 else new / f"{number}{SUFFIX}"
            outcomes.append(self._send_to_command(script, connection, hints, capture, total))
            if outcomes[-1].failure:
                break
        return outcomes

    def _send_to_command(
        self, script: Script, connection: Connection, hints: ToolHints, capture: Path, total: int
    ) -> ReplayOutcome:
        conversation = self._conversation(script, connection)
        transport = StdioTransport(self._target.words, str(capture), self._name, _limit_for(script, connection))
        try:
            replay(conversation, transport, self._refusal(hints), lambda sent: self._show(sent, total))
        finally:
            transport.close()
        if not capture.exists():
            line = (transport.child.last_lines or [b"the recorder did not start"])[0]
            raise CannotCreate(sanitise_bytes(line.removeprefix(_OWN_PREFIX)))
        self._sent += conversation.outcome.sent
        if conversation.outcome.failure and not conversation.outcome.is_given_up:
            for line in transport.child.last_lines:
                text = sanitise_bytes(line.removeprefix(_OWN_PREFIX))
                if line.startswith(_CANNOT_RUN):
                    conversation.outcome.failure = text
                else:
                    say(f"{'' if line.startswith(_OWN_PREFIX) else _STDERR}{text}")
        return conversation.outcome

    def _send_to_url(
        self, script: Script, connections: Sequence[Connection], hints: ToolHints, new: Path, total: int
    ) -> list[ReplayOutcome]:
        try:
            recorder = HttpRecorder(self._target.words[0], str(new), self._name)
        except StartError as error:
            raise (CaptureError if new.exists() else CannotCreate)(sanitise(str(error))) from error
        outcomes = []
        try:
            for connection in connections:
                methods = _methods_of_other_exchanges(script, connection)
                options = HttpOptions(
                    self._target.fields,
                    self._options.timeout / 1e9,
                    is_legacy(script, connection.numbers),
                    methods is None or "GET" in methods,
                    methods is None or "DELETE" in methods,
                    hints.arguments,
                    _limit_for(script, connection),
                )
                conversation = self._conversation(script, connection)
                transport = HttpTransport(recorder.url, options)
                try:
                    replay(conversation, transport, self._refusal(hints), lambda sent: self._show(sent, total))
                finally:
                    transport.close(conversation.version)
                self._sent += conversation.outcome.sent
                outcomes.append(conversation.outcome)
                if conversation.outcome.failure:
                    break
        finally:
            recorder.end()
        return outcomes

    def _conversation(self, script: Script, connection: Connection) -> Conversation:
        own_revision = missing_revision(script, connection.numbers)
        return Conversation(script, connection.numbers, self._replay_options, connection.skipped, own_revision)

    def _refusal(self, hints: ToolHints) -> Callable[[Outgoing], str | None]:
        """Returns what says of a unit of bytes why it must not be sent."""
        return (lambda _: None) if self._options.yes else (lambda outgoing: refusal(outgoing, hints))

    def _show(self, sent: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s < self._next_progress_s:
            return
        self._next_progress_s = now_s + _PROGRESS_S
        self._progress.show(f"sent {self._sent + sent:,} of {total:,} messages")

    # ---- the end

    def _end(self, path: Path, new: Path, outcomes: Sequence[ReplayOutcome]) -> int:
        for outcome in outcomes:
            for line in outcome.lines():
                say(line)
        say(f"sent {count_text(self._sent, 'message')}; recorded to {new}")
        failures = [outcome.failure for outcome in outcomes if outcome.failure]
        if failures:
            return self._fail(path, failures[0], "nothing to compare: ")
        self._options.side = [str(path), str(new)]
        if any(outcome.own_handshake for outcome in outcomes):
            self._options.filter = self._options.filter or _WITHOUT_HANDSHAKE
        code = compare_sides(self._options, annotates_old=True)
        is_incomplete = any(outcome.is_incomplete for outcome in outcomes)
        return int(Exit.USAGE) if code == Exit.FINE and is_incomplete else code

    def _fail(self, path: Path, reason: str, prefix: str = "") -> int:
        """Report why there is no comparison, on stderr behind a prefix, and in the output; returns the exit code."""
        self._progress.clear()
        write_failure(self._options, str(path), " ".join(self._target.words), reason)
        return fail(f"{prefix}{reason}")


def _limit_for(script: Script, connection: Connection) -> int:
    """Returns what the server may send on a connection, see `limit_for`."""
    items = (script.items[number] for number in connection.numbers)
    return limit_for(sum(cost(script.raw(item)) for item in items if item.sender == "server"))


def _methods_of_other_exchanges(script: Script, connection: Connection) -> set[str] | None:
    """Returns the HTTP methods with which the client sent no message; None if HTTP did not carry the conversation."""
    if script.transport != "http":
        return None
    sessions = {script.items[number].session for number in connection.numbers}
    return {answer.method for session in sessions for answer in script.http_answers_of(session)}


def _say_unsafe(unsafe: Sequence[UnsafeCalls]) -> None:
    total = sum(each.times for each in unsafe)
    verb = "is" if total == 1 else "are"
    say(f"{count_text(total, 'message')} that may change something {verb} in the recording:")
    rows = [f"  {_name_of(each)}: {each.times:,}, first in frame {each.seq:,}" for each in unsafe[:_MAX_ROWS]]
    if len(unsafe) > _MAX_ROWS:
        rows.append(f"  and {len(unsafe) - _MAX_ROWS:,} more")
    say_table(rows)


def _name_of(calls: UnsafeCalls) -> str:
    return f"{'the tool ' if calls.is_tool else ''}{sanitise(calls.what, _MAX_NAME_CHARS)}"


def _first_of(unsafe: Sequence[UnsafeCalls]) -> str:
    """Returns the first of these, and how many others there are."""
    return f"{_name_of(unsafe[0])}{f' and {len(unsafe) - 1:,} more' if len(unsafe) > 1 else ''}"


def _example_of(unsafe: Sequence[UnsafeCalls]) -> str:
    """Returns an example of a filter that leaves out the first of these tools; empty if there is none."""
    name = next((each.what for each in unsafe if each.is_tool and _PLAIN_NAME(each.what)), "")
    return f", as in --only 'not name:{name}'" if name else ""
