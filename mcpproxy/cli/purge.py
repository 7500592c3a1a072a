"""`mcpproxy uninstall --purge`: what mcpproxy has written on this machine, and its removal.

It removes only files with names that mcpproxy gives them, below its own directories. Everything else stays: links,
files that the user put there, such as `keys.toml`, and captures that were recorded into other directories.
"""

import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from captures.listing import find_captures, search_roots
from captures.places import cache_directory, captures_root, config_directory, data_directory, state_directory
from mcpproxy.cli.diagnostics import Exit, fail, say
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.service import NoService, unit_path
from mcpproxy.clients.timer import JOBS, unit_paths
from mcpproxy.removal import Removable, removable, remove
from mcpproxy.report.text import count_text
from mcpproxy.report.units import size
from mcpproxy.sanitise import sanitise

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
"""The folders in the cache directory that hold only files of mcpproxy."""
_BACKUPS: Final = "backups of clients' files, with their tokens in plain text"


class Left(NamedTuple):
    """One kind of files that `--purge` would remove."""

    what: str
    place: Path
    files: list[Path]
    captures: list[Removable]

    @property
    def size(self) -> int:
        """Their bytes."""
        return sum(capture.size for capture in self.captures) + sum(map(_size, self.files))


def enabled_units(machine: Machine) -> list[str]:
    """The names of mcpproxy's systemd units that are enabled: they would start again, or keep running."""
    names = []
    for path in _units(machine):
        wants = (path.parent / f"{target}.target.wants" / path.name for target in ("default", "timers"))
        names += [path.name for link in wants if os.path.lexists(link)]
    return names


def purge(machine: Machine, *, is_agreed: bool, is_dry: bool) -> int:
    """List what there is, ask, and remove it; returns 2 if there is no terminal to ask on, or a file cannot be removed.

    Args:
        machine: the machine and its user.
        is_agreed: whether to remove without asking.
        is_dry: whether to list only.
    """
    left = list(_left(machine))
    stays = _stays(left)
    if not any(kind.what != _LOCKS for kind in left):
        sys.stdout.write("Nothing to remove.\n")
        _say_what_stays(stays)
        return _remove(left, machine, tells=False) if left and not is_dry else int(Exit.FINE)
    for kind in (kind for kind in left if kind.what != _LOCKS):
        count = count_text(len(kind.captures), "capture") if kind.captures else count_text(len(kind.files), "file")
        place = sanitise(machine.shown(kind.place), None)
        sys.stdout.write(f"{size(kind.size):>9}  {count:>12}  {kind.what}, {place}\n")
    total = size(sum(kind.size for kind in left))
    _say_what_stays(stays)
    if is_dry:
        sys.stdout.write(f"{total} would be removed\n")
        return int(Exit.FINE)
    if not is_agreed:
        if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
            return fail(f"uninstall --purge would remove {total}: add --yes to remove it, or --dry-run to list it")
        sys.stdout.write(f"Permanently remove all of this ({total})? [y/N] ")
        sys.stdout.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            sys.stdout.write("Nothing was removed\n")
            return int(Exit.FINE)
    return _remove(left, machine, tells=True)


def _left(machine: Machine) -> Iterator[Left]:
    """Everything that can be removed, captures first, because deleting one looks into the caches."""
    root = Path(captures_root())
    if _is_folder(root):
        captures = [capture for path in find_captures(root) if (capture := removable(path)) is not None]
        own = [capture for capture in captures if all(map(_is_file, capture.files))]
        if own:
            yield Left("captures", root, [], own)
    cache = cache_directory()
    if cache is not None and _is_folder(Path(cache)):
        files = [file for name in _CACHES for file in _files_below(Path(cache, name))]
        yield from [Left("cache", Path(cache), files, [])] if files else []
    config, state = config_directory(), state_directory()
    for folder, names in ((config, _CONFIG), (state, _STATE)):
        if folder is not None:
            for what, pattern in names:
                yield from _matching(what, Path(folder), pattern)
    if state is not None:
        yield from _matching(_BACKUPS, Path(state, "backups"), _BACKUP)
        for private in Path(state).glob("mcpproxy-private-*"):
            files = list(_files_below(private))
            yield from [Left("files that a killed command left", private, files, [])] if files else []
    units = [path for path in _units(machine) if _is_file(path)]
    if units:
        yield Left("units", units[0].parent, units, [])


def _matching(what: str, folder: Path, pattern: re.Pattern[str]) -> Iterator[Left]:
    """The files in one of mcpproxy's folders whose names match."""
    if not _is_folder(folder):
        return
    files = sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name) and _is_file(path))
    if files:
        yield Left(what, folder, files, [])


def _units(machine: Machine) -> list[Path]:
    try:
        timers = [path for job in JOBS for path in unit_paths(machine, job)] if machine.system == "linux" else []
        return [unit_path(machine), *timers]
    except NoService:
        return []


def _stays(left: list[Left]) -> list[str]:
    """Returns lines that say what is not removed, and why."""
    root, stays = Path(captures_root()), []
    going = {file for kind in left for capture in kind.captures for file in capture.files}
    if root.is_symlink():
        return [f"captures in {root} are not removed: it is a link"]
    kept = [path for path in (find_captures(root) if _is_folder(root) else []) if path not in going]
    if kept:
        stays.append(f"{count_text(len(kept), 'capture')} in {root} not removed: being recorded, a link, or unreadable")
    stays += [f"captures in {other} are not removed" for other in search_roots() if other != root and other.is_dir()]
    return stays


def _say_what_stays(stays: list[str]) -> None:
    for line in stays:
        say(line)


def _remove(left: list[Left], machine: Machine, *, tells: bool) -> int:
    code, freed = int(Exit.FINE), 0
    for kind in left:
        for capture in kind.captures:
            try:
                remove(capture)
                freed += capture.size
            except OSError as error:
                code = fail(f"cannot delete {capture.path}: {error.strerror}")
        for file in kind.files:
            amount = _size(file)
            try:
                file.unlink(missing_ok=True)
                freed += amount
            except OSError as error:
                code = fail(f"cannot delete {file}: {error.strerror}")
    _remove_empty_folders({capture.path.parent for kind in left for capture in kind.captures})
    if tells:
        sys.stdout.write(f"{size(freed)} removed\n")
        if any(kind.what == "units" for kind in left) and machine.system == "macos":
            sys.stdout.write("A unit that is loaded keeps running until you log out\n")
    return code


def _remove_empty_folders(of_captures: set[Path]) -> None:
    """Remove the folders that are now empty, inner ones first; others stay."""
    cache, config, state, data = cache_directory(), config_directory(), state_directory(), data_directory()
    root = Path(captures_root())
    inner = sorted(of_captures - {root}, key=lambda folder: -len(folder.parts))
    # A directory that the user named belongs to the user.
    if data is not None and root == Path(data, "captures") and _is_folder(root):
        inner += [root, root.parent]
    if cache is not None:
        inner += [*(folder for name in _CACHES for folder in (*_folders_below(Path(cache, name)), Path(cache, name)))]
        inner.append(Path(cache))
    if state is not None:
        for private in Path(state).glob("mcpproxy-private-*"):
            if _is_folder(private):
                shutil.rmtree(private, ignore_errors=True)
        inner += [Path(state, "backups"), Path(state)]
    inner += [Path(config)] if config is not None else []
    for folder in inner:
        with suppress(OSError):
            _remove_ignore_file(folder)
            folder.rmdir()


def _remove_ignore_file(folder: Path) -> None:
    """Remove the file that keeps captures out of git, if nothing else is left."""
    file = folder / ".gitignore"
    if os.listdir(folder) == [file.name] and _is_file(file) and file.read_bytes() == b"*\n":
        file.unlink()


def _files_below(folder: Path) -> Iterator[Path]:
    if _is_folder(folder):
        for parent, _, names in os.walk(folder):
            yield from (path for name in names if _is_file(path := Path(parent, name)))


def _folders_below(folder: Path) -> list[Path]:
    """The folders in a folder, the innermost first."""
    if not _is_folder(folder):
        return []
    return [Path(parent, name) for parent, names, _ in os.walk(folder, topdown=False) for name in names]


def _is_folder(path: Path) -> bool:
    """Whether it is a folder, and not a link to one."""
    return path.is_dir() and not path.is_symlink()


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
