"""Resolves the arguments of a reading command to captures.

An argument is tried as an existing path (a folder means all captures below it), then as a server's name, then as the
name that `ls` prints or the id in SQL; `-` is a capture on stdin. A file that is not a capture does not hide a server
of the same name, unless the argument is clearly a path. A server's name means its newest capture, and no argument the
newest of all, unless `--all`, `--last`, `--since`, `--until` or `--live` widen it. If mcpproxy chose the captures,
stderr names them. If there are none, it names the folders that were searched, because hosts record with their own
environments.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, NoReturn, TypeAlias

from captures.errors import CannotCreate, CaptureError, NotACapture
from captures.file import is_live
from captures.identity import DIGITS, capture_id, path_id
from captures.listing import find_captures, newest_first, real_path, search_roots, segments
from captures.paths import SUFFIX, captures_root, slug
from captures.private_folder import private_folder
from captures.reader import Capture
from mcpproxy.check_run.result import STDIN
from mcpproxy.cli.arguments import count, latest, moment
from mcpproxy.cli.diagnostics import display_names, say
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.nearest import hint

NOTHING_YET = """Nothing recorded yet. To record the servers of your MCP clients:

    mcpproxy install

or put `mcpproxy run --` in front of a server's command by hand
or see a session right now:  mcpproxy demo
"""

_ID: Final = re.compile(rf"[0-9a-f]{{8,{DIGITS}}}")
"""The id of a capture, or its prefix as SQL tables show it."""
_NAMED: Final = 3
"""How many folders a message names if the captures are in several."""

Kind: TypeAlias = Literal["file", "folder", "server", "listed", "all", "stdin"]


class NamedCaptures(NamedTuple):
    """The captures that an argument names, before the options that widen or narrow it."""

    kind: Kind
    """`listed` is a name from `ls` or SQL; `all` is the absence of arguments."""
    name: str
    """The argument as typed."""
    paths: list[Path]
    """Newest first."""


@dataclass(frozen=True)
class Scope:
    """Which of the named captures to read, from options such as `--all` and `--last`."""

    every: bool = False
    """All captures of a server, not only its newest."""
    last: int | None = None
    """At most this many captures of each argument, the newest."""
    since_ns: int | None = None
    """Only captures with records at or after this time, in nanoseconds since 1970."""
    until_ns: int | None = None
    """Only captures with records at or before this time, likewise."""
    live: bool = False
    """Only captures that are being recorded now."""

    @property
    def is_wide(self) -> bool:
        """Whether a server's name means more than its newest capture."""
        return self.every or self.narrows

    @property
    def narrows(self) -> bool:
        """Whether the scope leaves captures out."""
        return self.last is not None or self.since_ns is not None or self.until_ns is not None or self.live

    def captures_of(self, meaning: NamedCaptures) -> list[Path]:
        """The captures of an argument that are in this scope, newest first."""
        paths = [path for path in meaning.paths if self._takes(path)] if self.narrows else meaning.paths
        if meaning.kind in ("server", "all") and not self.is_wide:
            return paths[:1]
        return paths[: self.last]

    def _takes(self, path: Path) -> bool:
        if self.live and not is_recorded(path):
            return False
        if self.since_ns is None and self.until_ns is None:
            return True
        began_ns, ended_ns = _time_of(path)
        return (self.since_ns is None or ended_ns >= self.since_ns) and (
            self.until_ns is None or began_ns <= self.until_ns
        )


NEWEST: Final = Scope()
EVERY: Final = Scope(every=True)


class Selection(NamedTuple):
    """The captures that a command reads."""

    paths: list[Path]
    stdin: Path | None = None
    """The copy of stdin among them, if any."""

    def name_of(self, path: Path) -> Path:
        """The name of one of them for messages: the copy of stdin is temporary."""
        return STDIN if path == self.stdin else path


def add_captures(parser: argparse.ArgumentParser, *, every: bool = False, stdin: bool = True) -> None:
    """Add the operand that names captures, and the options that widen what it means.

    Args:
        parser: of a command that reads captures.
        every: a server's name means all of its captures by default.
        stdin: the command also accepts `-`.
    """
    names = "captures, folders, server names, or - for stdin" if stdin else "captures, folders or server names"
    default = "all captures of this user" if every else "the newest capture"
    parser.add_argument("capture", nargs="*", default=[], help=f"{names} (default: {default})")
    add_scope(parser, every=every)


def add_scope(parser: argparse.ArgumentParser, *, every: bool = False) -> None:
    """Add the options that widen what a server's name, or no name, means."""
    anyway = ", which is the default here" if every else ", not only the newest"
    parser.add_argument("--all", action="store_true", help=f"all captures of a server, or of all servers{anyway}")
    parser.add_argument(
        "--last", type=count, metavar="N", help="only the N newest captures of each server or folder named"
    )
    parser.add_argument(
        "--since",
        type=moment,
        metavar="WHEN",
        help="only captures with records at or after this time: 90m, 2h or 3d ago, or a date such as 2026-11-20 or "
        "2026-11-20T10:15",
    )
    parser.add_argument(
        "--until",
        type=latest,
        metavar="WHEN",
        help="only captures with records at or before this time; a date without a time means the end of that day",
    )
    parser.add_argument("--live", action="store_true", help="only captures that are being recorded now")


def scope_of(options: argparse.Namespace, *, every: bool = False) -> Scope:
    """The scope that the options select; with `every`, a server's name means all of its captures by default."""
    return Scope(every or options.all, options.last, options.since, options.until, options.live)


def all_captures() -> list[Path]:
    """Every capture of this user, newest first."""
    return each_once(path for root in search_roots() for path in find_captures(root))


def each_once(paths: Iterable[Path]) -> list[Path]:
    """Captures, newest first; a capture with two names is listed once."""
    return newest_first({real_path(path): path for path in paths}.values())


def is_recorded(path: Path) -> bool:
    """Whether a capture is being recorded now."""
    return is_live(segments(path)[-1])


@contextmanager
def selected(arguments: Sequence[str], scope: Scope = NEWEST, *, lists: bool = False) -> Iterator[Selection]:
    """The captures that the arguments name; stdin is copied to a private file for as long as the context lasts.

    Args:
        arguments: paths, folders, servers' names or `-`.
        scope: which of them.
        lists: the command lists captures: an empty result is not an error, and stderr does not name the captures.

    Raises:
        NotACapture: an argument names no capture, or the scope leaves none to read.
        CannotCreate: stdin cannot be copied.
    """
    with ExitStack() as stack:
        meant = [_stdin(stack) if argument == "-" else meaning_of(argument) for argument in arguments]
        if not arguments:
            meant = [_everything()]
        chosen = [(meaning, scope.captures_of(meaning)) for meaning in meant]
        paths = [path for _, some in chosen for path in some]
        if not paths and not lists:
            _say_nothing_left(chosen, scope)
        for meaning, some in chosen:
            if meaning.kind not in ("file", "stdin") and some and not lists:
                say(_reading(meaning, some))
        stdin = next((meaning.paths[0] for meaning in meant if meaning.kind == "stdin"), None)
        if stdin is not None:
            stack.enter_context(display_names({str(stdin): "stdin"}))
        yield Selection(paths, stdin)


def present(arguments: Sequence[str], scope: Scope) -> list[Path]:
    """The captures that the arguments name now, newest first, each once; unknown names are ignored.

    For callers that wait for captures to begin: see `wait_for`.
    """
    paths = []
    for argument in arguments:
        with suppress(NotACapture):
            paths += scope.captures_of(meaning_of(argument))
    return each_once(paths if arguments else scope.captures_of(_everything()))


def wait_for(arguments: Sequence[str]) -> None:
    """Refuse arguments that can never name a capture, however long the caller waits.

    Raises:
        NotACapture: an argument is not a file, a folder, or a possible server name.
    """
    for argument in arguments:
        if not slug(argument):
            meaning_of(argument)


def _everything() -> NamedCaptures:
    return NamedCaptures("all", "", all_captures())


def _stdin(stack: ExitStack) -> NamedCaptures:
    if sys.stdin is None:
        raise NotACapture("cannot read a capture from stdin: it is closed; name a capture")
    try:
        path = stack.enter_context(private_folder()) / f"stdin{SUFFIX}"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
    except OSError as error:
        place = tempfile.gettempdir()
        raise CannotCreate(f"cannot copy stdin to {place}: {error.strerror}; set TMPDIR to another folder") from error
    return NamedCaptures("stdin", "-", [path])


def meaning_of(argument: str) -> NamedCaptures:
    """The meaning of an argument other than `-`.

    Raises:
        NotACapture: it names no capture; the message says where it was searched for.
    """
    if not argument:
        raise _nothing("the name of a capture is empty")
    path = Path(argument)
    if path.is_dir() and (below := find_captures(path)):
        return NamedCaptures("folder", argument, below)
    is_file = (path.exists() or path.is_symlink()) and not path.is_dir()
    if is_file and ("/" in argument or argument.endswith(SUFFIX) or _is_capture(path)):
        return NamedCaptures("file", argument, [path])
    known = all_captures()
    if named := captures_of(argument, known):
        return NamedCaptures("server", argument, named)
    if listed := [capture for capture in known if _is_called(capture, argument)]:
        return NamedCaptures("listed", argument, listed)
    if _ID.fullmatch(argument) and (identified := _identified(known, argument)):
        return NamedCaptures("listed", argument, identified)
    if is_file:
        return NamedCaptures("file", argument, [path])
    if path.is_dir():
        raise _nothing(f"no captures in {sanitise(argument)}")
    if "/" in argument or argument.endswith(SUFFIX):
        return NamedCaptures("file", argument, [path])
    called = f"{sanitise(argument)}{hint(argument, {path.parent.name for path in known})}"
    raise _nothing(f"there is no capture, folder or server called {called}; looked in {_places()}")


def _is_capture(path: Path) -> bool:
    try:
        Capture(path)
    except NotACapture:
        return False
    except CaptureError:
        return True
    return True


def captures_of(server: str, known: list[Path]) -> list[Path]:
    """The captures of a server: by their folder, or else by the name in their headers."""
    # The slug of a name that is all punctuation is empty, and must not match the folders of other such names.
    folder = slug(server)
    if folder and (named := [path for path in known if path.parent.name == folder]):
        return named
    if any(_is_called(path, server) for path in known):
        return []
    return [path for path in known if server in _names_of(path)]


def _names_of(path: Path) -> tuple[str, ...]:
    """The name of a capture's server, raw and as lists print it."""
    try:
        name = Capture(path).header.members.get("name")
    except CaptureError:
        return ()
    return (name, sanitise(name)) if isinstance(name, str) and slug(name) else ()


def _time_of(path: Path) -> tuple[int, int]:
    """First and last time of a capture in nanoseconds since 1970, from its header and the time of its file."""
    last = segments(path)[-1]
    try:
        ended_ns = time.time_ns() if is_live(last) else last.stat().st_mtime_ns
        wall_ns = Capture(path).header.members.get("wall_ns")
    except (OSError, CaptureError):
        ended_ns, wall_ns = 0, None
    return (wall_ns if type(wall_ns) is int else ended_ns), ended_ns


def _reading(meaning: NamedCaptures, chosen: list[Path]) -> str:
    """The line on stderr that names the captures chosen for an argument."""
    many = count_text(len(meaning.paths), "capture")
    of = (
        "" if meaning.kind == "all" else f" of {meaning.name}" if meaning.kind == "server" else f" below {meaning.name}"
    )
    if len(chosen) == 1:
        which = "" if meaning.kind == "listed" else f", the newest of {many}{of}"
        if len(meaning.paths) == 1:
            which = "" if meaning.kind == "listed" else f", the only capture{of}"
        elif chosen[0] != meaning.paths[0]:
            which = f", one of {many}{of}"
        return f"reading {chosen[0]}{which}{_elsewhere(meaning, chosen[0])}"
    count = many if len(chosen) == len(meaning.paths) else f"{len(chosen):,} of {many}"
    if meaning.kind == "listed":
        return f"reading {count} called {meaning.name}"
    if len(chosen) <= _NAMED and len(chosen) < len(meaning.paths):
        return f"reading {count}{of}: {', '.join(map(str, chosen))}"
    folders = list(dict.fromkeys(path.parent for path in chosen))
    where = f" in {folders[0]}" if len(folders) == 1 else "" if meaning.kind == "folder" else f" in {_servers(folders)}"
    return f"reading {count}{'' if len(folders) == 1 and meaning.kind == 'folder' else of}{where}"


def _elsewhere(meaning: NamedCaptures, path: Path) -> str:
    """A hint if a capture is not below MCPPROXY_CAPTURES: clients may start a recorder without that variable."""
    if meaning.kind == "folder" or not os.environ.get("MCPPROXY_CAPTURES"):
        return ""
    root = real_path(Path(captures_root()))
    return "" if real_path(path).is_relative_to(root) else f"; it is not below MCPPROXY_CAPTURES, which is {root}"


def _servers(folders: list[Path]) -> str:
    named = sorted(str(folder) for folder in folders)
    if len(named) > _NAMED:
        return f"{len(named):,} folders below {os.path.commonpath(named)}"
    return ", ".join(named)


def _say_nothing_left(chosen: list[tuple[NamedCaptures, list[Path]]], scope: Scope) -> NoReturn:
    """Raise the error that explains why there is nothing to read.

    Raises:
        NotACapture: always.
    """
    count = sum(len(meaning.paths) for meaning, _ in chosen)
    if not count:
        raise NotACapture(f"there is no capture yet; looked in {_places()}; `mcpproxy demo` records one")
    state = (
        "is being recorded now"
        if scope.live
        else "was recorded at that time"
        if scope.last != 0
        else "is left by --last 0"
    )
    named = ", ".join(meaning.name for meaning, _ in chosen if meaning.name)
    raise _nothing(f"none of the {count_text(count, 'capture')}{f' of {named}' if named else ''} {state}")


def _is_called(path: Path, argument: str) -> bool:
    """Whether an argument is the name of a capture in `ls`: its file name, or the end of it."""
    stem, name = path.name.removesuffix(SUFFIX), argument.removesuffix(SUFFIX)
    return name in (stem, f"{path.parent.name}/{stem}") or (len(name) >= 4 and stem.endswith(f"-{name}"))


def _identified(known: list[Path], begun: str) -> list[Path]:
    """The captures whose id begins with these digits; several only if they share the whole id.

    Raises:
        NotACapture: several different ids begin with them.
    """
    by_id: dict[str, list[Path]] = {}
    for path in known:
        try:
            # If two captures have the same id, SQL uses the path for one of them.
            ids = capture_id(Capture(path)), path_id(path)
        except CaptureError:
            continue
        for id_ in dict.fromkeys(ids):
            if id_.startswith(begun):
                by_id.setdefault(id_, []).append(path)
    if len(by_id) > 1:
        raise _nothing(f"the ids of {len(by_id)} captures begin with {begun}; give more digits")
    return [path for paths in by_id.values() for path in paths]


def _nothing(message: str) -> NotACapture:
    newest = all_captures()[:1]
    there = f"; the newest capture is {newest[0]}" if newest else ""
    return NotACapture(f"{message}{there}; `mcpproxy ls` lists all captures")


def _places() -> str:
    return (
        ", ".join(sanitise(str(root)) for root in search_roots())
        or "no folder: neither HOME nor MCPPROXY_CAPTURES is set"
    )
