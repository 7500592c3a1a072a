"""`mcpproxy uninstall --purge`: what mcpproxy has written on this machine, and its removal.

It knows files by the names that mcpproxy gives them, below its own directories. Anything else stays: a link, a file
that the user has put there, such as `keys.toml`, and captures elsewhere, which a command was told to write.
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
"""Empty files, which are not worth a line, and do not mean that anything is left."""
_STATE: Final = (
    ("histories and layout of query and tui", re.compile(r"query_history|filter_history|tui_layout|\.history-.+")),
    ("text copied in tui", re.compile(r"copied\.txt|\.copied\.txt-.+")),
    ("records of install", re.compile(r"install\.json|\.install\.json\..+")),
    (_LOCKS, re.compile(r"lock|up\.lock|ship-[0-9a-f]{16}\.lock")),
)
"""What is in the state directory, by the names of files."""
_CONFIG: Final = (
    ("redaction key", re.compile(r"key|\.key-[0-9a-f]+")),
    ("records of install", re.compile(r"install\.json|\.install\.json\..+")),
)
_BACKUP: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-.+-[0-9a-f]{4}-.+|\..+")
_CACHES: Final = ("sql", "summaries", "secret-rules")
"""The folders in the cache directory, all of whose files are ours."""
_BACKUPS: Final = "backups of clients' files, with their tokens in plain text"


class Left(NamedTuple):
    """A kind of thing that is left."""

    what: str
    place: Path
    files: list[Path]
    captures: list[Removable]

    @property
    def size(self) -> int:
        """Its bytes."""
        return sum(capture.size for capture in self.captures) + sum(map(_size, self.files))


def enabled_units(machine: Machine) -> list[str]:
    """The names of our units of systemd that are enabled: they would start again, or go on running."""
    names = []
    for path in _units(machine):
        wants = (path.parent / f"{target}.target.wants" / path.name for target in ("default", "timers"))
        names += [path.name for link in wants if os.path.lexists(link)]
    return names


def purge(machine: Machine, *, is_agreed: bool, is_dry: bool) -> int:
    """List what is left, ask, and remove it; returns 2 if there is no terminal to ask on, or something stays.

    Args:
        machine: whose user it belongs to.
        is_agreed: whether to remove it without asking.
        is_dry: whether to list it only.
    """
    left = list(_left(machine))
    stays = _stays(left)
    if not any(kind.what != _LOCKS for kind in left):
        sys.stdout.write("Nothing is left to remove.\n")
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
        sys.stdout.write(f"Remove all of this, {total}, for good? [y/N] ")
        sys.stdout.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            sys.stdout.write("Nothing was removed\n")
            return int(Exit.FINE)
    return _remove(left, machine, tells=True)


def _left(machine: Machine) -> Iterator[Left]:
    """All that is left, captures first: deleting one looks into the caches."""
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
            yield from [Left("what a kill has left", private, files, [])] if files else []
    units = [path for path in _units(machine) if _is_file(path)]
    if units:
        yield Left("units", units[0].parent, units, [])


def _matching(what: str, folder: Path, pattern: re.Pattern[str]) -> Iterator[Left]:
    """The files of a folder of ours that have such a name."""
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
    """What is not removed, and why."""
    root, stays = Path(captures_root()), []
    going = {file for kind in left for capture in kind.captures for file in capture.files}
    if root.is_symlink():
        return [f"{root} is a link, so what it leads to stays"]
    kept = [path for path in (find_captures(root) if _is_folder(root) else []) if path not in going]
    if kept:
        stays.append(f"{count_text(len(kept), 'capture')} in {root} that are being recorded, or are links, stay")
    stays += [f"captures in {other} stay" for other in search_roots() if other != root and other.is_dir()]
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
            sys.stdout.write("A unit that is loaded runs until you log out\n")
    return code


def _remove_empty_folders(of_captures: set[Path]) -> None:
    """Remove the folders that have become empty, the inner ones first; what holds anything stays."""
    cache, config, state, data = cache_directory(), config_directory(), state_directory(), data_directory()
    root = Path(captures_root())
    inner = sorted(of_captures - {root}, key=lambda folder: -len(folder.parts))
    # A directory that the user has named is the user's.
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
    """Remove what keeps captures out of git, if it is all that is left."""
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
    """Whether it is a folder, and no link to one."""
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
