"""Resolves the arguments of a command that reads captures.

An argument is tried as an existing path (a folder means all captures below it), then as a server's name, then as the
name that `ls` prints or the id in SQL; `-` is a capture on stdin. A file that is not a capture does not hide a server
of the same name, unless the argument is clearly a path. A server's name means its newest capture, and no argument means
the newest capture of all, unless `--all`, `--last`, `--since`, `--until` or `--live` selects others. If mcpproxy chose
the captures, stderr names them. If there are none, stderr names the folders that were searched, because hosts record
with their own environments.
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
from captures.identity import ID_DIGITS, capture_id, path_id
from captures.listing import find_captures, newest_first, real_path, search_roots, segments
from captures.paths import SUFFIX, captures_root, slug
from captures.private_folder import private_folder
from captures.reader import Capture
from mcpproxy.check_run.result import STDIN
from mcpproxy.cli.arguments import count, moment, span_end
from mcpproxy.cli.diagnostics import display_names, say
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.nearest import hint

NOTHING_YET = """Nothing recorded yet. To record the servers of your MCP clients:

    mcpproxy install

or put `mcpproxy run --` in front of a server's command by hand
or see a session right now:  mcpproxy demo
"""

_ID_PREFIX: Final = re.compile(rf"[0-9a-f]{{8,{ID_DIGITS}}}")
"""The id of a capture, or the prefix of it that SQL tables show."""
MAX_NAMED_PATHS: Final = 3
"""The maximum number of captures or folders that a message names."""

ArgumentKind: TypeAlias = Literal["file", "folder", "server", "listed", "all", "stdin"]


class NamedCaptures(NamedTuple):
    """The captures that an argument names, before the options that widen or narrow it."""

    kind: ArgumentKind
    """`listed` means a name from `ls` or SQL; `all` means that there is no argument."""
    name: str
    """The argument as typed."""
    paths: list[Path]
    """The captures, newest first."""


@dataclass(frozen=True)
class CaptureScope:
    """The options, such as `--all` and `--last`, that select which of the named captures to read."""

    reads_all: bool = False
    """Whether to read all captures of a server, not only its newest."""
    last: int | None = None
    """The maximum number of captures for each argument; the newest are read."""
    since_ns: int | None = None
    """If set, captures without records at or after this time, in nanoseconds since 1970, are left out."""
    until_ns: int | None = None
    """If set, captures without records at or before this time, in nanoseconds since 1970, are left out."""
    is_live_only: bool = False
    """Whether to select only captures that are being recorded now."""

    @property
    def is_wide(self) -> bool:
        """Whether a server's name can mean other captures than its newest."""
        return self.reads_all or self.is_narrowed

    @property
    def is_narrowed(self) -> bool:
        """Whether the scope may leave out captures that an argument names."""
        return self.last is not None or self.since_ns is not None or self.until_ns is not None or self.is_live_only

    @property
    def requirement(self) -> str:
        """What a capture must be to be in the scope, as a predicate: `is being recorded now`."""
        if self.is_live_only:
            return "is being recorded now"
        return "is selected by --last 0" if self.last == 0 else "was recorded at that time"

    def captures_of(self, meaning: NamedCaptures) -> list[Path]:
        """Return the captures of an argument that are in this scope, newest first."""
        paths = [path for path in meaning.paths if self._includes(path)] if self.is_narrowed else meaning.paths
        if meaning.kind in ("server", "all") and not self.is_wide:
            return paths[:1]
        return paths[: self.last]

    def _includes(self, path: Path) -> bool:
        if self.is_live_only and not is_recorded(path):
            return False
        if self.since_ns is None and self.until_ns is None:
            return True
        start_ns, end_ns = _time_span(path)
        return (self.since_ns is None or end_ns >= self.since_ns) and (
            self.until_ns is None or start_ns <= self.until_ns
        )


NEWEST_CAPTURE: Final = CaptureScope()
ALL_CAPTURES: Final = CaptureScope(reads_all=True)


class SelectedCaptures(NamedTuple):
    """The captures that a command reads."""

    paths: list[Path]
    stdin: Path | None = None
    """The temporary copy of stdin, if that is one of the captures."""

    def name_of(self, path: Path) -> Path:
        """Return the name of a capture for messages, which do not show the path of the copy of stdin."""
        return STDIN if path == self.stdin else path


def add_captures(parser: argparse.ArgumentParser, *, every: bool = False, stdin: bool = True) -> None:
    """Add the operand that names captures, and the options that select other captures of a server.

    Args:
        parser: the parser of a command that reads captures.
        every: whether a server's name means all of its captures by default.
        stdin: whether the command also accepts `-`.
    """
    names = "captures, folders, server names, or - for stdin" if stdin else "captures, folders or server names"
    default = "all captures of this user" if every else "the newest capture"
    parser.add_argument("capture", nargs="*", default=[], help=f"{names} (default: {default})")
    add_scope(parser, every=every)


def add_scope(parser: argparse.ArgumentParser, *, every: bool = False) -> None:
    """Add the options that select captures if an argument is a server's name, or is missing."""
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
        type=span_end,
        metavar="WHEN",
        help="only captures with records at or before this time; a date without a time means the end of that day",
    )
    parser.add_argument("--live", action="store_true", help="only captures that are being recorded now")


def scope_of(options: argparse.Namespace, *, every: bool = False) -> CaptureScope:
    """Return the scope of the options; with `reads_all`, a server's name means all of its captures by default."""
    return CaptureScope(every or options.all, options.last, options.since, options.until, options.live)


def all_captures() -> list[Path]:
    """Return all captures of this user, newest first."""
    return without_duplicates(path for root in search_roots() for path in find_captures(root))


def without_duplicates(paths: Iterable[Path]) -> list[Path]:
    """Return captures newest first; a capture with two names is listed once."""
    return newest_first({real_path(path): path for path in paths}.values())


def is_recorded(path: Path) -> bool:
    """Whether a capture is being recorded now."""
    return is_live(segments(path)[-1])


@contextmanager
def select_captures(
    arguments: Sequence[str], scope: CaptureScope = NEWEST_CAPTURE, *, lists: bool = False
) -> Iterator[SelectedCaptures]:
    """Yield the captures that the arguments name; stdin is copied to a private file, which the context deletes.

    Args:
        arguments: paths, folders, servers' names or `-`.
        scope: the scope that selects among their captures.
        lists: whether the command lists captures: then an empty result is not an error, and stderr names no capture.

    Raises:
        NotACapture: an argument names no capture, or none is in the scope.
        CannotCreate: stdin cannot be copied.
    """
    with ExitStack() as stack:
        meanings = [_copy_stdin(stack) if argument == "-" else named_captures(argument) for argument in arguments]
        if not arguments:
            meanings = [_all_named_captures()]
        choices = [(meaning, scope.captures_of(meaning)) for meaning in meanings]
        paths = [path for _, chosen_paths in choices for path in chosen_paths]
        if not paths and not lists:
            _raise_nothing_selected(choices, scope)
        for meaning, chosen_paths in choices:
            if meaning.kind not in ("file", "stdin") and chosen_paths and not lists:
                say(_reading_message(meaning, chosen_paths))
        stdin = next((meaning.paths[0] for meaning in meanings if meaning.kind == "stdin"), None)
        if stdin is not None:
            stack.enter_context(display_names({str(stdin): "stdin"}))
        yield SelectedCaptures(paths, stdin)


def present_captures(arguments: Sequence[str], scope: CaptureScope) -> list[Path]:
    """Return the captures that the arguments name now, newest first, each once; ignore unknown names.

    This is for callers that wait for captures to begin; see `check_names`.
    """
    paths = []
    for argument in arguments:
        with suppress(NotACapture):
            paths += scope.captures_of(named_captures(argument))
    return without_duplicates(paths if arguments else scope.captures_of(_all_named_captures()))


def check_names(arguments: Sequence[str]) -> None:
    """Check that every argument can name a capture, now or later.

    Raises:
        NotACapture: an argument is neither a file, nor a folder, nor a possible server name.
    """
    for argument in arguments:
        if not slug(argument):
            named_captures(argument)


def _all_named_captures() -> NamedCaptures:
    return NamedCaptures("all", "", all_captures())


def _copy_stdin(stack: ExitStack) -> NamedCaptures:
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


def named_captures(argument: str) -> NamedCaptures:
    """Return the captures that an argument other than `-` names.

    Raises:
        NotACapture: it names no capture; the message lists the folders that were searched.
    """
    if not argument:
        raise _no_capture_error("the name of a capture is empty")
    path = Path(argument)
    if path.is_dir() and (captures := find_captures(path)):
        return NamedCaptures("folder", argument, captures)
    is_file = (path.exists() or path.is_symlink()) and not path.is_dir()
    if is_file and ("/" in argument or argument.endswith(SUFFIX) or _is_capture(path)):
        return NamedCaptures("file", argument, [path])
    all_paths = all_captures()
    if server_paths := captures_of_server(argument, all_paths):
        return NamedCaptures("server", argument, server_paths)
    if listed_paths := [capture for capture in all_paths if _is_called(capture, argument)]:
        return NamedCaptures("listed", argument, listed_paths)
    if _ID_PREFIX.fullmatch(argument) and (id_paths := _captures_by_id(all_paths, argument)):
        return NamedCaptures("listed", argument, id_paths)
    if is_file:
        return NamedCaptures("file", argument, [path])
    if path.is_dir():
        raise _no_capture_error(f"no captures in {sanitise(argument)}")
    if "/" in argument or argument.endswith(SUFFIX):
        return NamedCaptures("file", argument, [path])
    typed_name = f"{sanitise(argument)}{hint(argument, {path.parent.name for path in all_paths})}"
    raise _no_capture_error(
        f"there is no capture, folder or server called {typed_name}; looked in {_search_roots_text()}"
    )


def refuse_folder(argument: str) -> None:
    """Checks that an argument is no folder, for commands that read one capture; nothing below a folder is read.

    Raises:
        CaptureError: it is a folder, and no server has that name.
    """
    if Path(argument).is_dir() and ("/" in argument or not captures_of_server(argument, all_captures())):
        raise CaptureError(f"{sanitise(argument)} is a folder; name one capture in it")


def _is_capture(path: Path) -> bool:
    try:
        Capture(path)
    except NotACapture:
        return False
    except CaptureError:
        return True
    return True


def captures_of_server(server: str, candidates: list[Path]) -> list[Path]:
    """Return the captures of a server, which are found by their folder or, if there is none, by their headers."""
    # The slug of a name that is all punctuation is empty; it must not match the folders of other such names.
    folder = slug(server)
    if folder and (matches := [path for path in candidates if path.parent.name == folder]):
        return matches
    if any(_is_called(path, server) for path in candidates):
        return []
    return [path for path in candidates if server in _names_of(path)]


def _names_of(path: Path) -> tuple[str, ...]:
    """Return the name of a capture's server, both unchanged and as `ls` prints it."""
    try:
        name = Capture(path).header.members.get("name")
    except CaptureError:
        return ()
    return (name, sanitise(name)) if isinstance(name, str) and slug(name) else ()


def _time_span(path: Path) -> tuple[int, int]:
    """Return the start and end of a capture, in nanoseconds since 1970, from its header and its file's time."""
    last_segment = segments(path)[-1]
    try:
        end_ns = time.time_ns() if is_live(last_segment) else last_segment.stat().st_mtime_ns
        wall_ns = Capture(path).header.members.get("wall_ns")
    except (OSError, CaptureError):
        end_ns, wall_ns = 0, None
    return (wall_ns if type(wall_ns) is int else end_ns), end_ns


def _reading_message(meaning: NamedCaptures, chosen_paths: list[Path]) -> str:
    """Return the line on stderr that names the captures chosen for an argument."""
    total = count_text(len(meaning.paths), "capture")
    origin = (
        "" if meaning.kind == "all" else f" of {meaning.name}" if meaning.kind == "server" else f" below {meaning.name}"
    )
    if len(chosen_paths) == 1:
        note = "" if meaning.kind == "listed" else f", the newest of {total}{origin}"
        if len(meaning.paths) == 1:
            note = "" if meaning.kind == "listed" else f", the only capture{origin}"
        elif chosen_paths[0] != meaning.paths[0]:
            note = f", one of {total}{origin}"
        return f"reading {chosen_paths[0]}{note}{_root_hint(meaning, chosen_paths[0])}"
    count = total if len(chosen_paths) == len(meaning.paths) else f"{len(chosen_paths):,} of {total}"
    if meaning.kind == "listed":
        return f"reading {count} called {meaning.name}"
    if len(chosen_paths) <= MAX_NAMED_PATHS and len(chosen_paths) < len(meaning.paths):
        return f"reading {count}{origin}: {', '.join(map(str, chosen_paths))}"
    folders = list(dict.fromkeys(path.parent for path in chosen_paths))
    place = (
        f" in {folders[0]}"
        if len(folders) == 1
        else ""
        if meaning.kind == "folder"
        else f" in {_folders_text(folders)}"
    )
    return f"reading {count}{'' if len(folders) == 1 and meaning.kind == 'folder' else origin}{place}"


def _root_hint(meaning: NamedCaptures, path: Path) -> str:
    """Return a hint if a capture is not below MCPPROXY_CAPTURES: clients may start recorders without that variable."""
    if meaning.kind == "folder" or not os.environ.get("MCPPROXY_CAPTURES"):
        return ""
    root = real_path(Path(captures_root()))
    return "" if real_path(path).is_relative_to(root) else f"; it is not below MCPPROXY_CAPTURES, which is {root}"


def _folders_text(folders: list[Path]) -> str:
    folder_names = sorted(str(folder) for folder in folders)
    if len(folder_names) > MAX_NAMED_PATHS:
        return f"{len(folder_names):,} folders below {os.path.commonpath(folder_names)}"
    return ", ".join(folder_names)


def _raise_nothing_selected(choices: list[tuple[NamedCaptures, list[Path]]], scope: CaptureScope) -> NoReturn:
    """Raise the error that explains why there is nothing to read.

    Raises:
        NotACapture: always.
    """
    count = sum(len(meaning.paths) for meaning, _ in choices)
    if not count:
        raise NotACapture(f"there is no capture yet; looked in {_search_roots_text()}; `mcpproxy demo` records one")
    names = ", ".join(meaning.name for meaning, _ in choices if meaning.name)
    captures = f"{count_text(count, 'capture')}{f' of {names}' if names else ''}"
    raise _no_capture_error(f"none of the {captures} {scope.requirement}")


def _is_called(path: Path, argument: str) -> bool:
    """Whether an argument is the name of a capture in `ls`: its file name, or the end of its file name."""
    stem, name = path.name.removesuffix(SUFFIX), argument.removesuffix(SUFFIX)
    return name in (stem, f"{path.parent.name}/{stem}") or (len(name) >= 4 and stem.endswith(f"-{name}"))


def _captures_by_id(candidates: list[Path], id_prefix: str) -> list[Path]:
    """Return the captures whose id begins with `id_prefix`; all of them have the same id.

    Raises:
        NotACapture: several different ids begin with the prefix.
    """
    paths_by_id: dict[str, list[Path]] = {}
    for path in candidates:
        try:
            # If two captures have the same id, SQL derives the id of one of them from its path.
            ids = capture_id(Capture(path)), path_id(path)
        except CaptureError:
            continue
        for id_ in dict.fromkeys(ids):
            if id_.startswith(id_prefix):
                paths_by_id.setdefault(id_, []).append(path)
    if len(paths_by_id) > 1:
        raise _no_capture_error(f"the ids of {len(paths_by_id)} captures begin with {id_prefix}; give more digits")
    return [path for paths in paths_by_id.values() for path in paths]


def _no_capture_error(message: str) -> NotACapture:
    newest_paths = all_captures()[:1]
    newest_text = f"; the newest capture is {newest_paths[0]}" if newest_paths else ""
    return NotACapture(f"{message}{newest_text}; `mcpproxy ls` lists all captures")


def _search_roots_text() -> str:
    return (
        ", ".join(sanitise(str(root)) for root in search_roots())
        or "no folder: neither HOME nor MCPPROXY_CAPTURES is set"
    )
