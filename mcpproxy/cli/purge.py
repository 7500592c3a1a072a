"""`mcpproxy uninstall --purge`: lists and removes what mcpproxy has written on this machine.

It recognises files by the names that mcpproxy gives them, below its own directories. Anything else stays: a link, a
file that the user has put there, such as `keys.toml`, and captures elsewhere, which a command wrote on request. The
folder of captures may be any folder, such as the home directory: in it, only what a recorder has put there is removed.
"""

import os
import re
import shlex
import shutil
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from captures.errors import CaptureError
from captures.file import IGNORE_FILE, IGNORES_ALL
from captures.listing import (
    find_captures,
    is_where_recorders_write,
    place_variables,
    real_path,
    search_roots,
    segments,
)
from captures.paths import (
    SUFFIX,
    cache_directory,
    captures_root,
    config_directory,
    safe_name,
    state_directory,
)
from captures.reader import Capture
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.service import NoService, unit_path
from mcpproxy.clients.timer import JOBS, unit_paths
from mcpproxy.marks import MARKS_SUFFIX, marks_path
from mcpproxy.recorder.unrecorded import notes, own_folders
from mcpproxy.removal import Removable, is_recorded, removable, remove
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import size

_LOCKS: Final = "locks"
"""Empty files; they are removed without being listed."""
_STATE: Final = (
    ("histories and layout of query and tui", re.compile(r"query_history|filter_history|tui_layout|\.history-.+")),
    ("text copied in tui", re.compile(r"copied\.txt|\.copied\.txt-.+")),
    ("records of install", re.compile(r"install\.json|\.install\.json\..+")),
    (_LOCKS, re.compile(r"lock|up\.lock|ship-[0-9a-f]{16}\.lock")),
)
"""The files in the state directory: what they are, and the pattern of their names."""
_CONFIG: Final = (
    ("redaction key", re.compile(r"key|\.key-[0-9a-f]+")),
    ("records of install", re.compile(r"install\.json|\.install\.json\..+")),
)
_BACKUP: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-.+-[0-9a-f]{4}-.+|\..+")
_CACHES: Final = ("sql", "summaries", "secret-rules")
"""The folders in the cache directory, all of whose files are mcpproxy's."""
_RECORDED: Final = "is being recorded, and stays", "are being recorded, and stay"
_LINK: Final = "is a link, and stays", "are links, and stay"
_UNREADABLE: Final = "cannot be read, and stays", "cannot be read, and stay"
_OTHER: Final = (
    "is not as it was recorded (copied, imported, renamed or moved), and stays",
    "are not as they were recorded (copied, imported, renamed or moved), and stay",
)
"""The reasons why captures stay, worded for one capture and for several."""
_BACKUPS: Final = "backups of clients' files, with their tokens in plain text"


class RemainingFiles(NamedTuple):
    """One kind of files that `--purge` would remove."""

    what: str
    place: Path
    files: list[Path]
    captures: list[Removable]

    @property
    def paths(self) -> Iterator[Path]:
        """All of its files, including those of captures and their marks."""
        for capture in self.captures:
            yield from (*capture.files, marks_path(capture.path))
        yield from self.files

    @property
    def size(self) -> int:
        """The current size of its files in bytes."""
        return sum(map(_size, self.paths))


def enabled_units(machine: Machine) -> list[str]:
    """The names of mcpproxy's systemd units that are enabled: they would start again, or keep running."""
    names = []
    for path in _units(machine):
        wants = (path.parent / f"{target}.target.wants" / path.name for target in ("default", "timers"))
        names += [path.name for link in wants if os.path.lexists(link)]
    return names


def purge(machine: Machine, stays: Iterable[str], *, is_agreed: bool, is_dry: bool) -> int:
    """List what is left, ask, and remove it; returns 2 if there is no terminal to ask on, or something stays.

    Args:
        machine: the machine whose user has the files.
        stays: what else is not removed, and why, one line each.
        is_agreed: whether to remove it without asking.
        is_dry: whether to list it only.
    """
    list(notes())  # reading the notes removes those of killed processes
    root = Path(os.path.abspath(captures_root()))
    captures, kept = _captures(root)
    left = list(_remaining(machine, root, captures))
    listed = [kind for kind in left if kind.what != _LOCKS]
    all_stays = [*stays, *_kept_lines(machine, root, kept)]
    if not listed:
        return _sweep(left, root, all_stays, is_dry=is_dry)
    for kind in listed:
        count = count_text(len(kind.captures), "capture") if kind.captures else count_text(len(kind.files), "file")
        place = sanitise(machine.shown(kind.place), None)
        sys.stdout.write(f"{size(kind.size):>9}  {count:>12}  {kind.what}, {place}\n")
    before = sum(kind.size for kind in left)
    _say_what_stays(all_stays)
    if is_dry:
        sys.stdout.write(f"{size(before)} would be removed\n")
        return int(Exit.FINE)
    if not is_agreed:
        if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
            return fail(
                f"uninstall --purge would remove {size(before)}: add --yes to remove it, or --dry-run to list it"
            )
        sys.stdout.write(f"Permanently remove all of this ({size(before)})? [y/N] ")
        sys.stdout.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            sys.stdout.write("Nothing was removed\n")
            return int(Exit.FINE)
    code = _remove(left, root)
    # Cached files go with their capture, so only a second search shows what is gone.
    sys.stdout.write(f"{size(before - sum(kind.size for kind in left))} removed\n")
    if any(kind.what == "units" for kind in left) and machine.system == "macos":
        sys.stdout.write("A unit that is loaded runs until you log out\n")
    return code


def _sweep(left: list[RemainingFiles], root: Path, stays: list[str], *, is_dry: bool) -> int:
    """Remove what needs no confirmation: empty folders, and the lock that this process holds, with its folder."""
    folders = [folder for folder in _emptied(root, left) if str(folder) != state_directory()]
    code = int(Exit.FINE) if is_dry else _remove(left, root)
    if not folders:
        sys.stdout.write("Nothing to remove.\n")
    elif is_dry:
        sys.stdout.write(f"Only empty folders are left: {len(folders):,} would be removed\n")
    else:
        sys.stdout.write(f"Only empty folders were left: {len(folders):,} removed\n")
    _say_what_stays(stays)
    return code


def _default_roots() -> list[Path]:
    """Where recorders write unless MCPPROXY_CAPTURES is set."""
    return search_roots({name: value for name, value in os.environ.items() if name != "MCPPROXY_CAPTURES"})


def _captures(root: Path) -> tuple[list[Removable], Counter[tuple[str, str]]]:
    """The captures to remove in the folder of captures, and how many stay, by reason."""
    own: list[Removable] = []
    kept: Counter[tuple[str, str]] = Counter()
    # The folder that the user named may contain a default folder, which `_kept_lines` reports.
    within = [other for other in _default_roots() if other != root and other.is_relative_to(root)]
    for path in find_captures(root) if _is_folder(root) else []:
        files = segments(path)
        if any(path.is_relative_to(other) for other in within):
            continue
        if not is_where_recorders_write(files[0], root) or not os.path.lexists(files[0]):
            kept[_OTHER] += 1
        elif not all(map(_is_file, files)):
            kept[_LINK] += 1
        elif is_recorded(files):
            kept[_RECORDED] += 1
        elif not _is_as_recorded(files[0]):
            kept[_OTHER] += 1
        elif (capture := removable(path)) is not None:
            own.append(capture)
        else:
            kept[_UNREADABLE] += 1
    return own, kept


def _is_as_recorded(path: Path) -> bool:
    """Whether the header of a capture agrees with its place: a copy of it may have the same name."""
    try:
        header = Capture(path).header.members
    except CaptureError:
        return True  # the state that a kill leaves
    is_converted = "imported" in header or "redacted_by" in header
    return not is_converted and header.get("name", path.parent.name) == path.parent.name


def _remaining(machine: Machine, root: Path, captures: list[Removable]) -> Iterator[RemainingFiles]:
    """Everything that is left, captures first: deleting one needs the caches."""
    if captures:
        yield RemainingFiles("captures", root, [], captures)
    if marks := _orphaned_marks(root):
        yield RemainingFiles("marks and notes on captures that are gone", root, marks, [])
    cache = cache_directory()
    if cache is not None and _is_folder(Path(cache)):
        files = [file for name in _CACHES for file in _files_below(Path(cache, name))]
        yield from [RemainingFiles("cache", Path(cache), files, [])] if files else []
    config, state = config_directory(), state_directory()
    for folder, names in ((config, _CONFIG), (state, _STATE)):
        if folder is not None:
            for what, pattern in names:
                yield from _matching(what, Path(folder), pattern)
    if state is not None:
        yield from _matching(_BACKUPS, Path(state, "backups"), _BACKUP)
    for private in _private_folders():
        files = list(_files_below(private))
        yield from [RemainingFiles("what a kill has left", private, files, [])] if files else []
    units = [path for path in _units(machine) if _is_file(path)]
    if units:
        yield RemainingFiles("units", units[0].parent, units, [])


def _server_folders(root: Path) -> list[Path]:
    """The folders in which recorders may have put captures of a server."""
    if not _is_folder(root):
        return []
    try:
        return sorted(path for path in root.iterdir() if path.name == safe_name(path.name) and _is_folder(path))
    except OSError:
        return []


def _orphaned_marks(root: Path) -> list[Path]:
    """The files of marks, in a folder of captures, whose capture is gone."""
    marks = []
    for path in (path for folder in _server_folders(root) for path in sorted(folder.glob(f"*{MARKS_SUFFIX}"))):
        capture = path.with_name(path.name.removesuffix(MARKS_SUFFIX) + SUFFIX)
        is_ours = is_where_recorders_write(capture, root) and _is_file(path)
        if is_ours and not any(map(os.path.lexists, segments(capture))):
            marks.append(path)
    return marks


def _private_folders() -> list[Path]:
    """The folders that killed commands have left."""
    state = state_directory()
    return [path for path in Path(state).glob("mcpproxy-private-*") if _is_folder(path)] if state is not None else []


def _matching(what: str, folder: Path, pattern: re.Pattern[str]) -> Iterator[RemainingFiles]:
    """The files with matching names in one of mcpproxy's folders."""
    if not _is_folder(folder):
        return
    files = sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name) and _is_file(path))
    if files:
        yield RemainingFiles(what, folder, files, [])


def _units(machine: Machine) -> list[Path]:
    try:
        timers = [path for job in JOBS for path in unit_paths(machine, job)] if machine.system == "linux" else []
        return [unit_path(machine), *timers]
    except NoService:
        return []


def _kept_lines(machine: Machine, root: Path, kept: Counter[tuple[str, str]]) -> Iterator[str]:
    """What is not removed, and why."""
    shown = machine.shown(root)
    if root.is_symlink():
        how = f"MCPPROXY_CAPTURES={shlex.quote(str(real_path(root)))} mcpproxy uninstall --purge"
        yield f"{shown} is a link, so what it leads to stays; to remove it as well: {how}"
    for reason in (_RECORDED, _LINK, _UNREADABLE, _OTHER):
        if count := kept[reason]:
            yield f"{count_text(count, 'capture')} in {shown} {reason[count > 1]}"
    for other in _default_roots():
        if other != root and (find_captures(other) or _orphaned_marks(other)):
            yield _unsearched(machine, other)


def _unsearched(machine: Machine, other: Path) -> str:
    """Why captures in a default folder stay if the environment names another one, and what removes them."""
    names = list(place_variables())
    for few in (*([name] for name in names), names):
        rest = {name: value for name, value in os.environ.items() if name not in few}
        if Path(captures_root(rest)) == other:
            why = f"{' and '.join(few)} {'is' if len(few) == 1 else 'are'} set"
            how = f"env {' '.join(f'-u {name}' for name in few)} mcpproxy uninstall --purge"
            return f"what is in {machine.shown(other)} stays, because {why}; to remove it as well: {how}"
    return f"what is in {machine.shown(other)} stays"


def _say_what_stays(stays: Iterable[str]) -> None:
    for line in stays:
        say(line)


def _remove(left: list[RemainingFiles], root: Path) -> int:
    code = int(Exit.FINE)
    folders = list(_emptied(root, left))
    for kind in left:
        for capture in kind.captures:
            try:
                remove(capture)
            except OSError as error:
                code = fail(f"cannot delete {capture.path}: {error.strerror}")
        for file in kind.files:
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                code = fail(f"cannot delete {file}: {error.strerror}")
    for private in _private_folders():
        shutil.rmtree(private, ignore_errors=True)
    for folder in folders:
        with suppress(OSError):
            _remove_ignore_file(folder)
            folder.rmdir()
    if _is_folder(root):
        with suppress(OSError):
            _remove_ignore_file(root)
    return code


def _emptied(root: Path, left: list[RemainingFiles]) -> Iterator[Path]:
    """The folders of mcpproxy that are empty once everything left is removed, the inner ones first."""
    gone = {*_private_folders(), *(path for kind in left for path in kind.paths)}
    for folder in _folders(root, gone):
        if folder in gone or not _is_folder(folder):
            continue
        with suppress(OSError):
            if all(path in gone or _is_ignore_file(path) for path in folder.iterdir()):
                gone.add(folder)
                yield folder


def _folders(root: Path, going: set[Path]) -> Iterator[Path]:
    """The folders that mcpproxy creates, the inner ones first."""
    for place in dict.fromkeys((root, *_default_roots())):
        # A directory that the user has named is the user's, and so are folders in it with nothing of mcpproxy's.
        is_named = place not in _default_roots()
        is_ours = not is_named or _is_ignore_file(place / IGNORE_FILE)
        for folder in _server_folders(place):
            if is_ours or _is_ignore_file(folder / IGNORE_FILE) or any(path.parent == folder for path in going):
                yield folder
        if not is_named:
            yield from (place, place.parent)
    cache, config, state = cache_directory(), config_directory(), state_directory()
    for folder in (Path(cache, name) for name in _CACHES if cache is not None):
        yield from (*_folders_below(folder), folder)
    if state is not None:
        yield Path(state, "backups")
    yield from (Path(folder) for folder in (cache, config, state, *own_folders()) if folder is not None)


def _remove_ignore_file(folder: Path) -> None:
    """Remove the file that keeps captures out of git, if nothing else is left."""
    file = folder / IGNORE_FILE
    if os.listdir(folder) == [file.name] and _is_ignore_file(file):
        file.unlink()


def _is_ignore_file(path: Path) -> bool:
    """Whether a file is the one that recorders put into a new folder; a user's own would be readable by others."""
    try:
        is_ours = path.name == IGNORE_FILE and _is_file(path) and not path.lstat().st_mode & 0o077
        return is_ours and path.read_bytes() == IGNORES_ALL
    except OSError:
        return False


def _files_below(folder: Path) -> Iterator[Path]:
    if _is_folder(folder):
        for parent, _, names in os.walk(folder):
            yield from (path for name in names if _is_file(path := Path(parent, name)))


def _folders_below(folder: Path) -> list[Path]:
    """All folders below a folder, the innermost first."""
    if not _is_folder(folder):
        return []
    return [Path(parent, name) for parent, names, _ in os.walk(folder, topdown=False) for name in names]


def _is_folder(path: Path) -> bool:
    """Whether a path is a folder, not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
