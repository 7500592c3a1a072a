"""Serve a capture as a server, with the recorded answers.

Use it in place of the server's command: `mcpproxy mock CAPTURE` speaks MCP on stdin and stdout. With --listen, it
serves over HTTP instead, and prints its URL.

A request gets the recorded answer to the same request: same method, same arguments; ids and progress tokens are those
of the client. Requests that were recorded several times get their answers in turn, then the last one again. What the
server had sent by itself comes as well, in the recorded order. A request that was not recorded gets an error that
names the nearest recorded one.

At the end, stderr lists what the client never asked for. Exit code: that of the recorded server if it ended by itself
and everything was answered; 1 if a request had no recorded answer, or with --strict if a recorded request never came; 2
for wrong usage, or if the capture cannot be read; otherwise 0.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from captures.errors import CaptureError, NotACapture
from mcpproxy.cli.arguments import Parser, count
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.cli.mock_listen import add_listen_arguments
from mcpproxy.wording.counts import count_text

if TYPE_CHECKING:
    from analysis.playback.script import Script
    from mcpproxy.mock.batch_parts import BatchParts
    from mcpproxy.mock.conversation import Conversation
    from mcpproxy.mock.options import MockOptions
    from mcpproxy.mock.usage import Usage

MATCH_RULES: Final = ("arguments", "exact", "method", "sequence")
ON_MISS: Final = ("error", "nearest", "pass")
_SWITCH_INTERVAL_S: Final = 0.0002
"""How long the thread that reads the capture may keep the interpreter from answering."""
_FIRST_RECORDS: Final = 20
"""How many records are read before the first request is awaited."""
_SUFFIX_BEGINNING: Final = ".mcpc"
"""Words with such a suffix are meant as files, even if it is misspelt."""
_MAX_SUGGESTIONS: Final = 1_000
_END_READING_S: Final = 1.5
"""How long the end of a mock waits for the rest of the capture, before which it does not know what never came. Clients
kill a server that has not ended two seconds after its stdin."""
_MAX_SPEED: Final = 1_000_000.0


def parser() -> Parser:
    """Return the argument parser of `mock`."""
    parser = Parser("mock", __doc__)
    parser.add_argument("capture", metavar="CAPTURE", help="a capture, or a server's name for its newest capture")
    parser.add_argument(
        "target",
        nargs="?",
        metavar="URL",
        help="with --on-miss pass: the real server's URL; after --, its command instead",
    )
    parser.add_argument(
        "--match",
        choices=MATCH_RULES,
        default="arguments",
        help="which recorded request matches: same method, name and arguments (default); exact: _meta as well; "
        "method: same method and name; sequence: the next one in the recorded order",
    )
    parser.add_argument(
        "--ignore",
        metavar="POINTER",
        action="append",
        default=[],
        help="ignore this place in the params, such as /arguments/now or 'tools/call search /arguments/now'; can be "
        "repeated",
    )
    parser.add_argument(
        "--ignore-from",
        metavar="FILE",
        action="append",
        default=[],
        help="ignore the places in FILE, one per line; can be repeated",
    )
    parser.add_argument(
        "--on-miss",
        choices=ON_MISS,
        default="error",
        help="what a request without a recorded answer gets: an error that names the nearest one (default), the answer "
        "to the nearest one, or that of the real server",
    )
    parser.add_argument(
        "--speed",
        type=_speed,
        metavar="max|N",
        help="max: answer at once, in the recorded order (default); 1: with the recorded pauses; 2: twice as fast",
    )
    parser.add_argument(
        "--capture",
        dest="capture_new",
        metavar="FILE|DIR/",
        help="with --on-miss pass: record the conversation with the real server to a new FILE.mcpcap, or to a new "
        "file in DIR (default: as server NAME-mock, in the user's data directory)",
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: env:VARIABLE'",
        help="with --on-miss pass and a URL: send this header field, whose value is in an environment variable; a "
        "scheme can precede it, as in 'Authorization: Bearer env:TOKEN'; can be repeated",
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a recorded request never came")
    parser.add_argument(
        "--session", type=count, metavar="N", help="begin with this session of the capture (default: the first)"
    )
    add_listen_arguments(parser)
    return parser


def _speed(text: str) -> float | None:
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0.001 <= speed <= _MAX_SPEED:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is neither max nor a number of at least 0.001")
    return speed


def run(arguments: list[str]) -> int:
    """Serve until the client leaves; returns the exit code."""
    words, command = _split_at_command(arguments)
    options = parser().parse_intermixed(words)
    if options.capture == "-":
        return fail("CAPTURE cannot be -: stdin is the client's side of the protocol; name a file")
    has_target = command is not None or options.target is not None
    if has_target != (options.on_miss == "pass"):
        return fail(
            "--on-miss pass needs the real server: -- COMMAND [ARGUMENT ...], or its URL"
            if not has_target
            else "a real server is only used with --on-miss pass"
        )
    if options.capture_new is not None and not has_target:
        return fail("--capture is for --on-miss pass: a mock records nothing itself")
    target = [options.target] if options.target is not None else command or []
    if has_target and not (target and target[0]):
        return fail("the real server's command is missing after --")
    fields: dict[str, str] = {}
    if options.header:
        from mcpproxy.cli.replay_headers import HeaderError, header_fields

        if options.target is None:
            return fail("--header is for the real server's URL; a command inherits the environment")
        try:
            fields = header_fields(options.header)
        except HeaderError as error:
            return fail(str(error))
    from analysis.playback.matching import Matching
    from analysis.playback.script import Script
    from mcpproxy.mock.options import MockOptions

    places: tuple[str, ...] = ()
    if options.ignore or options.ignore_from:
        from mcpproxy.cli.compare_ignored import ignored_places

        places = ignored_places(options.ignore, options.ignore_from)
    matching = Matching(options.match, places)
    path = _path_of(options.capture)
    script = Script(path, matching)
    mock_options = MockOptions(matching, options.on_miss, options.speed, options.strict)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        return _serve(script, options, mock_options, target, fields)
    finally:
        script.close()


def _split_at_command(arguments: list[str]) -> tuple[list[str], list[str] | None]:
    """Returns the arguments of `mock`, and the command after them; None if there is no `--`."""
    if "--" not in arguments:
        return arguments, None
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _path_of(argument: str) -> Path:
    """Returns the capture that an argument names.

    Raises:
        CaptureError: it names none, several, or a folder.
    """
    path = Path(argument)
    if path.is_file():
        return path
    from mcpproxy.cli.selection import refuse_folder, select_captures

    refuse_folder(argument)
    try:
        with select_captures([argument]) as selected:
            paths = selected.paths
    except NotACapture as error:
        if path.suffix.startswith(_SUFFIX_BEGINNING):
            raise CaptureError(_missing_file_text(path)) from error
        raise
    if len(paths) != 1:
        raise CaptureError(f"{argument} is {len(paths)} captures; name one of them")
    if not paths[0].exists():
        raise CaptureError(_missing_file_text(paths[0]))
    return paths[0]


def _missing_file_text(path: Path) -> str:
    """Says in which folder a file was looked for: a client may start its servers in another one than the user's."""
    from captures.paths import SUFFIX
    from mcpproxy.sanitise import sanitise
    from mcpproxy.wording.nearest import hint

    folder = path.parent.absolute()
    suggestion = hint(path.name, (file.name for file in islice(folder.glob(f"*{SUFFIX}"), _MAX_SUGGESTIONS)))
    advice = "" if path.is_absolute() else "; clients may start servers in another folder, so give the whole path"
    return f"there is no {sanitise(path.name)}{suggestion} in {sanitise(str(folder))}{advice}"


class _Mock(NamedTuple):
    """What all conversations of a mock have in common."""

    script: "Script"
    options: "MockOptions"
    usage: "Usage"
    target: list[str]
    """The command of the real server, or its URL; empty without `--on-miss pass`."""
    capture: str | None
    """Where the conversation with the real server is recorded."""
    fields: dict[str, str]
    """The header fields that a real server with a URL gets."""
    parts: "BatchParts"

    def begin_conversation(self, session: int, wake: Callable[[], None]) -> "Conversation":
        """Returns a conversation that plays a session; threads call `wake` when the real server says something."""
        from mcpproxy.mock.conversation import Conversation

        real_server = None
        if self.target:
            from mcpproxy.mock.passing import RealServer
            from mcpproxy.replay.plan import is_legacy

            has_older_transport = is_legacy(self.script, self.script.items_of(session))
            real_server = RealServer(self.target, self.capture, wake, say, self.fields, is_legacy=has_older_transport)
        return Conversation(self.script, session, self.options, self.usage, real_server, self.parts)


def _serve(
    script: "Script",
    options: argparse.Namespace,
    mock_options: "MockOptions",
    target: list[str],
    fields: dict[str, str],
) -> int:
    from mcpproxy.mock.batch_parts import BatchParts
    from mcpproxy.mock.usage import Usage

    usage = Usage(say)
    script.grow(_FIRST_RECORDS)
    while not script.sessions and script.grow():
        pass
    if options.session is not None:
        while options.session not in script.sessions and script.grow():
            pass
        if options.session not in script.sessions:
            present = count_text(len(script.sessions), "session")
            return fail(f"the capture has no session {options.session}; it has {present}")
    first = options.session or (script.sessions[0] if script.sessions else 1)
    mock = _Mock(script, mock_options, usage, target, options.capture_new, fields, BatchParts(script))
    if options.listen is not None:
        return _serve_http(mock, options)
    return _serve_stdio(mock, first)


def _serve_stdio(mock: _Mock, session: int) -> int:
    from mcpproxy.mock.stdio import StdioEnd, StdioMock

    script = mock.script
    signals = _EndingSignals()
    notice = _Notice(script)
    stdio = StdioMock(script, mock.usage, lambda wake: mock.begin_conversation(session, wake), notice.say)
    try:
        end = stdio.run()
    except _EndedBySignal:
        _report(mock)
        signals.die()
    script.join(_END_READING_S)
    notice.say()
    code = _exit_code(mock)
    ending = script.ending
    if code or end is StdioEnd.CLIENT or ending is None:
        return code
    if ending.status is None and ending.signal is not None:
        _die_by(getattr(signal, ending.signal, signal.SIGTERM))
    return ending.status or 0


def _serve_http(mock: _Mock, options: argparse.Namespace) -> int:
    from mcpproxy.cli.http_listener import UsageError
    from mcpproxy.cli.mock_http import serve_mock
    from mcpproxy.mock.stdio import write_stderr_line

    notice = _Notice(mock.script)
    try:
        serve_mock(options, mock.script, mock.begin_conversation, write_stderr_line, notice.say)
    except UsageError as error:
        return fail(str(error), Exit.USAGE)
    return _exit_code(mock)


def _exit_code(mock: _Mock) -> int:
    """Report what was not asked for; return the exit code."""
    has_unused = _report(mock)
    return int(Exit.FINDINGS if mock.usage.miss_count or (mock.options.is_strict and has_unused) else Exit.FINE)


class _Notice:
    """Says once, when a capture has been read, what of it is missing."""

    def __init__(self, script: "Script") -> None:
        self._script, self._is_said = script, False

    def say(self) -> None:
        """Say it unless it was said, or the capture has not been read to its end."""
        from mcpproxy.mock.report import notice_of

        if self._is_said or not self._script.is_complete:
            return
        self._is_said = True
        notice = notice_of(self._script)
        if notice is not None:
            say(f"the capture: {notice}")


def _report(mock: _Mock) -> bool:
    """Report what was not asked for; return whether there is any."""
    from mcpproxy.mock.report import end_lines

    for line in end_lines(mock.usage, mock.script, is_strict=mock.options.is_strict):
        say(line)
    return bool(mock.usage.unused_requests(mock.script))


class _EndedBySignal(Exception):
    """Raised where the loop waits when a signal asks the process to end."""


class _EndingSignals:
    """Lets a mock report before it ends by a signal, as a server without a handler would."""

    def __init__(self) -> None:
        self._number = signal.SIGTERM
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, signal.SIG_IGN)
        self._number = signal.Signals(number)
        raise _EndedBySignal

    def die(self) -> NoReturn:
        """End the process by the signal that came."""
        _die_by(self._number)


def _die_by(number: signal.Signals) -> NoReturn:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)
