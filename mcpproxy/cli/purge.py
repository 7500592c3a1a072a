"""`mcpproxy uninstall --purge`: lists and removes what mcpproxy has written on this machine.

It recognises files by the names that mcpproxy gives them, below mcpproxy's own directories. Anything else stays: links,
files of the user, such as `keys.toml`, and captures that a command wrote elsewhere on request. The folder of captures
may be any folder, such as the home directory: only files that a recorder has put there are removed from it.
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
from captures.file import IGNORE_FILE, IGNORE_FILE_CONTENT
from captures.listing import (
    find_captures,
    has_recorder_path,
    location_variables,
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
from mcpproxy.recorder.unrecorded import note_folders, read_notes
from mcpproxy.removal import RemovableCapture, is_recorded, removable_capture, remove_capture
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import size

_LOCKS: Final = "locks"
"""The description of lock files; they are empty, and are removed without being listed."""
_STATE_FILES: Final = (
    ("histories and layout of query and tui", re.compile(r"query_history|filter_history|tui_layout|\.history-.+")),
    ("text copied in tui", re.compile(r"copied\.txt|\.copied\.txt-.+")),
    ("records of install", re.compile(r"install\.json|\.install\.json\..+")),
    (_LOCKS, re.compile(r"lock|up\.lock|ship-[0-9a-f]{16}\.lock")),
)
"""The kinds of files in the state directory: a description, and the pattern of their names."""
_CONFIG_FILES: Final = (
    ("redaction key", re.compile(r"key|\.key-[0-9a-f]+")),
    ("records of install", re.compile(r"install\.json|\.install\.json\..+")),
)
_BACKUP_NAME: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-.+-[0-9a-f]{4}-.+|\..+")
_CACHE_FOLDERS: Final = ("sql", "summaries", "secret-rules")
"""The folders of the cache directory in which every file is mcpproxy's."""
_RECORDED: Final = "is being recorded, and stays", "are being recorded, and stay"
_LINK: Final = "is a link, and stays", "are links, and stay"
_UNREADABLE: Final = "cannot be read, and stays", "cannot be read, and stay"
_OTHER: Final = (
    "is not as it was recorded (copied, imported, renamed or moved), and stays",
    "are not as they were recorded (copied, imported, renamed or moved), and stay",
)
"""The reasons why captures stay, worded for one capture and for several."""
_BACKUPS_DESCRIPTION: Final = "backups of clients' files, with their tokens in plain text"


class RemainingFiles(NamedTuple):
    """The files of one kind that `--purge` would remove."""

    description: str
    folder: Path
    files: list[Path]
    captures: list[RemovableCapture]

    @property
    def paths(self) -> Iterator[Path]:
        """All files, including those of captures and their marks."""
        for capture in self.captures:
            yield from (*capture.files, marks_path(capture.path))
        yield from self.files

    @property
    def size(self) -> int:
        """The current size of the files, in bytes."""
        return sum(map(_size, self.paths))


def enabled_units(machine: Machine) -> list[str]:
    """Return the names of mcpproxy's enabled systemd units, which would start again or keep running."""
    names = []
    for path in _units(machine):
        links = (path.parent / f"{target}.target.wants" / path.name for target in ("default", "timers"))
        names += [path.name for link in links if os.path.lexists(link)]
    return names


def purge(machine: Machine, other_notes: Iterable[str], *, is_agreed: bool, is_dry: bool) -> int:
    """List mcpproxy's files, ask, and remove them; returns 2 if there is no terminal, or a file cannot be removed.

    Args:
        machine: the machine on which the files are.
        other_notes: lines about other things that are not removed, with the reasons.
        is_agreed: whether to remove the files without asking.
        is_dry: whether to list the files only.
    """
    list(read_notes())  # reading the notes deletes those of killed processes
    root = Path(os.path.abspath(captures_root()))
    captures, kept_counts = _removable_captures(root)
    remaining = list(_remaining_files(machine, root, captures))
    listed_kinds = [kind for kind in remaining if kind.description != _LOCKS]
    all_notes = [*other_notes, *_kept_captures_lines(machine, root, kept_counts)]
    if not listed_kinds:
        return _remove_empty_folders(remaining, root, all_notes, is_dry=is_dry)
    for kind in listed_kinds:
        count = count_text(len(kind.captures), "capture") if kind.captures else count_text(len(kind.files), "file")
        place = sanitise(machine.display_path(kind.folder), None)
        sys.stdout.write(f"{size(kind.size):>9}  {count:>12}  {kind.description}, {place}\n")
    size_before = sum(kind.size for kind in remaining)
    _say_lines(all_notes)
    if is_dry:
        sys.stdout.write(f"{size(size_before)} would be removed\n")
        return int(Exit.FINE)
    if not is_agreed:
        if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
            return fail(
                f"uninstall --purge would remove {size(size_before)}: add --yes to remove it, or --dry-run to list it"
            )
        sys.stdout.write(f"Permanently remove all of this ({size(size_before)})? [y/N] ")
        sys.stdout.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            sys.stdout.write("Nothing was removed\n")
            return int(Exit.FINE)
    code = _remove(remaining, root)
    # Removing a capture also removes its cached files, so only a second look at the files gives the size removed.
    sys.stdout.write(f"{size(size_before - sum(kind.size for kind in remaining))} removed\n")
    if any(kind.description == "units" for kind in remaining) and machine.system == "macos":
        sys.stdout.write("A unit that is loaded runs until you log out\n")
    return code


def _remove_empty_folders(remaining: list[RemainingFiles], root: Path, all_notes: list[str], *, is_dry: bool) -> int:
    """Remove what needs no confirmation: empty folders, and this process's lock; returns the exit code."""
    folders = [folder for folder in _emptied_folders(root, remaining) if str(folder) != state_directory()]
    code = int(Exit.FINE) if is_dry else _remove(remaining, root)
    if not folders:
        sys.stdout.write("Nothing to remove.\n")
    elif is_dry:
        sys.stdout.write(f"Only empty folders are left: {len(folders):,} would be removed\n")
    else:
        sys.stdout.write(f"Only empty folders were left: {len(folders):,} removed\n")
    _say_lines(all_notes)
    return code


def _default_roots() -> list[Path]:
    """Return the folders in which recorders write unless MCPPROXY_CAPTURES is set."""
    return search_roots({name: value for name, value in os.environ.items() if name != "MCPPROXY_CAPTURES"})


def _removable_captures(root: Path) -> tuple[list[RemovableCapture], Counter[tuple[str, str]]]:
    """Return the captures to remove from the folder of captures, and the number that stay for each reason."""
    own_captures: list[RemovableCapture] = []
    kept_counts: Counter[tuple[str, str]] = Counter()
    # The folder that the user named may contain a default folder, which `_kept_captures_lines` reports.
    inner_roots = [
        inner_root for inner_root in _default_roots() if inner_root != root and inner_root.is_relative_to(root)
    ]
    for path in find_captures(root) if _is_folder(root) else []:
        files = segments(path)
        if any(path.is_relative_to(inner_root) for inner_root in inner_roots):
            continue
        if not has_recorder_path(files[0], root) or not os.path.lexists(files[0]):
            kept_counts[_OTHER] += 1
        elif not all(map(_is_file, files)):
            kept_counts[_LINK] += 1
        elif is_recorded(files):
            kept_counts[_RECORDED] += 1
        elif not _has_original_name(files[0]):
            kept_counts[_OTHER] += 1
        elif (capture := removable_capture(path)) is not None:
            own_captures.append(capture)
        else:
            kept_counts[_UNREADABLE] += 1
    return own_captures, kept_counts


def _has_original_name(path: Path) -> bool:
    """Whether the header of a capture matches its folder: a copy elsewhere may have the same file name."""
    try:
        header = Capture(path).header.members
    except CaptureError:
        return True  # a killed recorder leaves such a file
    is_converted = "imported" in header or "redacted_by" in header
    return not is_converted and header.get("name", path.parent.name) == path.parent.name


def _remaining_files(machine: Machine, root: Path, captures: list[RemovableCapture]) -> Iterator[RemainingFiles]:
    """Yield all files that mcpproxy has left, captures first, because deleting a capture needs the caches."""
    if captures:
        yield RemainingFiles("captures", root, [], captures)
    if marks := _orphaned_marks(root):
        yield RemainingFiles("marks and notes on captures that are gone", root, marks, [])
    cache = cache_directory()
    if cache is not None and _is_folder(Path(cache)):
        files = [file for name in _CACHE_FOLDERS for file in _files_below(Path(cache, name))]
        yield from [RemainingFiles("cache", Path(cache), files, [])] if files else []
    config, state = config_directory(), state_directory()
    for folder, patterns in ((config, _CONFIG_FILES), (state, _STATE_FILES)):
        if folder is not None:
            for description, pattern in patterns:
                yield from _matching_files(description, Path(folder), pattern)
    if state is not None:
        yield from _matching_files(_BACKUPS_DESCRIPTION, Path(state, "backups"), _BACKUP_NAME)
    for leftover_folder in _private_folders():
        files = list(_files_below(leftover_folder))
        yield from [RemainingFiles("what a kill has left", leftover_folder, files, [])] if files else []
    units = [path for path in _units(machine) if _is_file(path)]
    if units:
        yield RemainingFiles("units", units[0].parent, units, [])


def _server_folders(root: Path) -> list[Path]:
    """Return the folders in which recorders may have put the captures of a server."""
    if not _is_folder(root):
        return []
    try:
        return sorted(path for path in root.iterdir() if path.name == safe_name(path.name) and _is_folder(path))
    except OSError:
        return []


def _orphaned_marks(root: Path) -> list[Path]:
    """Return the files of marks in a folder of captures whose captures no longer exist."""
    marks = []
    for path in (path for folder in _server_folders(root) for path in sorted(folder.glob(f"*{MARKS_SUFFIX}"))):
        capture = path.with_name(path.name.removesuffix(MARKS_SUFFIX) + SUFFIX)
        is_ours = has_recorder_path(capture, root) and _is_file(path)
        if is_ours and not any(map(os.path.lexists, segments(capture))):
            marks.append(path)
    return marks


def _private_folders() -> list[Path]:
    """Return the private folders that killed commands have left."""
    state = state_directory()
    return [path for path in Path(state).glob("mcpproxy-private-*") if _is_folder(path)] if state is not None else []


def _matching_files(description: str, folder: Path, pattern: re.Pattern[str]) -> Iterator[RemainingFiles]:
    """Yield the files with matching names in one of mcpproxy's folders, unless there are none."""
    if not _is_folder(folder):
        return
    files = sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name) and _is_file(path))
    if files:
        yield RemainingFiles(description, folder, files, [])


def _units(machine: Machine) -> list[Path]:
    try:
        timers = [path for job in JOBS for path in unit_paths(machine, job)] if machine.system == "linux" else []
        return [unit_path(machine), *timers]
    except NoService:
        return []


def _kept_captures_lines(machine: Machine, root: Path, kept_counts: Counter[tuple[str, str]]) -> Iterator[str]:
    """Yield lines about the captures that are not removed, with the reasons."""
    root_text = machine.display_path(root)
    if root.is_symlink():
        command = f"MCPPROXY_CAPTURES={shlex.quote(str(real_path(root)))} mcpproxy uninstall --purge"
        yield f"{root_text} is a link, so what it leads to stays; to remove it as well: {command}"
    for reason in (_RECORDED, _LINK, _UNREADABLE, _OTHER):
        if count := kept_counts[reason]:
            yield f"{count_text(count, 'capture')} in {root_text} {reason[count > 1]}"
    for default_root in _default_roots():
        if default_root != root and (find_captures(default_root) or _orphaned_marks(default_root)):
            yield _other_root_line(machine, default_root)


def _other_root_line(machine: Machine, root: Path) -> str:
    """Return the line about captures that stay in a default folder because the environment names another folder."""
    names = list(location_variables())
    for unset_names in (*([name] for name in names), names):
        remaining_variables = {name: value for name, value in os.environ.items() if name not in unset_names}
        if Path(captures_root(remaining_variables)) == root:
            cause = f"{' and '.join(unset_names)} {'is' if len(unset_names) == 1 else 'are'} set"
            command = f"env {' '.join(f'-u {name}' for name in unset_names)} mcpproxy uninstall --purge"
            return f"what is in {machine.display_path(root)} stays, because {cause}; to remove it as well: {command}"
    return f"what is in {machine.display_path(root)} stays"


def _say_lines(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


def _remove(remaining: list[RemainingFiles], root: Path) -> int:
    code = int(Exit.FINE)
    folders = list(_emptied_folders(root, remaining))
    for kind in remaining:
        for capture in kind.captures:
            try:
                remove_capture(capture)
            except OSError as error:
                code = fail(f"cannot delete {capture.path}: {error.strerror}")
        for file in kind.files:
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                code = fail(f"cannot delete {file}: {error.strerror}")
    for private_folder in _private_folders():
        shutil.rmtree(private_folder, ignore_errors=True)
    for folder in folders:
        with suppress(OSError):
            _remove_ignore_file(folder)
            folder.rmdir()
    if _is_folder(root):
        with suppress(OSError):
            _remove_ignore_file(root)
    return code


def _emptied_folders(root: Path, remaining: list[RemainingFiles]) -> Iterator[Path]:
    """Yield the folders of mcpproxy that will be empty once all files are removed, inner folders first."""
    removed_paths = {*_private_folders(), *(path for kind in remaining for path in kind.paths)}
    for folder in _mcpproxy_folders(root, removed_paths):
        if folder in removed_paths or not _is_folder(folder):
            continue
        with suppress(OSError):
            if all(path in removed_paths or _is_ignore_file(path) for path in folder.iterdir()):
                removed_paths.add(folder)
                yield folder


def _mcpproxy_folders(root: Path, removed_paths: set[Path]) -> Iterator[Path]:
    """Yield the folders that mcpproxy creates, inner folders first."""
    for root_folder in dict.fromkeys((root, *_default_roots())):
        # A directory named by the user belongs to the user, and so do folders in it without any file of mcpproxy.
        is_named = root_folder not in _default_roots()
        is_ours = not is_named or _is_ignore_file(root_folder / IGNORE_FILE)
        for folder in _server_folders(root_folder):
            if is_ours or _is_ignore_file(folder / IGNORE_FILE) or any(path.parent == folder for path in removed_paths):
                yield folder
        if not is_named:
            yield from (root_folder, root_folder.parent)
    cache, config, state = cache_directory(), config_directory(), state_directory()
    for folder in (Path(cache, name) for name in _CACHE_FOLDERS if cache is not None):
        yield from (*_folders_below(folder), folder)
    if state is not None:
        yield Path(state, "backups")
    yield from (Path(folder) for folder in (cache, config, state, *note_folders()) if folder is not None)


def _remove_ignore_file(folder: Path) -> None:
    """Remove the file that keeps captures out of git, if the folder contains nothing else."""
    file = folder / IGNORE_FILE
    if os.listdir(folder) == [file.name] and _is_ignore_file(file):
        file.unlink()


def _is_ignore_file(path: Path) -> bool:
    """Whether a recorder put this ignore file into a new folder; a user's own file would be readable by others."""
    try:
        is_ours = path.name == IGNORE_FILE and _is_file(path) and not path.lstat().st_mode & 0o077
        return is_ours and path.read_bytes() == IGNORE_FILE_CONTENT
    except OSError:
        return False


def _files_below(folder: Path) -> Iterator[Path]:
    if _is_folder(folder):
        for parent, _, names in os.walk(folder):
            yield from (path for name in names if _is_file(path := Path(parent, name)))


def _folders_below(folder: Path) -> list[Path]:
    """Return all folders below a folder, inner folders first."""
    if not _is_folder(folder):
        return []
    return [Path(parent, name) for parent, names, _ in os.walk(folder, topdown=False) for name in names]


def _is_folder(path: Path) -> bool:
    """Whether a path is a folder, and not a link to one."""
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
