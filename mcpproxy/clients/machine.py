"""The machine as clients see it: its system, the user's home and environment, and the current directory.

Places of configuration files are written as clients document them (`~/.cursor/mcp.json`, `%APPDATA%/Claude/…`) and
resolved here, so a test can look up the files of a Mac in a temporary home directory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from captures import paths

System = Literal["linux", "macos", "windows"]

_WINDOWS_FOLDERS: Final = {"%APPDATA%": "AppData/Roaming", "%LOCALAPPDATA%": "AppData/Local", "%USERPROFILE%": ""}
_GLOB_CHARS: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Machine:
    """One user on one system."""

    system: System
    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: Path = Path()
    """Where the command was started; project files are searched for from there up to the root of the repository."""
    windows_homes: tuple[Path, ...] = ()
    """In WSL: the home directories of the Windows users, at their mount points."""

    @classmethod
    def current(cls) -> Machine:
        """Returns the machine that this process runs on.

        Raises:
            OSError: neither HOME nor the password database names a home directory.
        """
        home = paths.user_home()
        if home is None:
            raise OSError("your home directory is not known; set HOME and try again")
        system: System = {"darwin": "macos", "win32": "windows"}.get(sys.platform, "linux")  # type: ignore[assignment]
        homes = tuple(sorted(Path("/mnt/c/Users").glob("*"))) if system == "linux" and _is_wsl() else ()
        return cls(system, Path(home), os.environ, Path.cwd(), tuple(path for path in homes if path.is_dir()))

    @property
    def project(self) -> Path:
        """The root of the repository that contains the directory, or the directory itself outside of one."""
        for folder in (self.directory, *self.directory.parents):
            if (folder / ".git").exists():
                return folder
            if folder == self.home:
                break
        return self.directory

    def paths_of(self, place: str, overrides: Sequence[tuple[str, str]] = ()) -> list[Path]:
        """Returns the paths of a place: one path, or one for each folder of a project, or with `*`, those that exist.

        Args:
            place: the place, which begins with `~/`, `./` (the project), `/`, or a Windows variable such as
                `%APPDATA%`.
            overrides: environment variables, each with the prefix of places that its value replaces.
        """
        for variable, prefix in overrides:
            value = self.environment.get(variable)
            if value and (place == prefix or place.startswith(f"{prefix}/")):
                return self._paths(f"{value}{place[len(prefix) :]}")
        return self._paths(place)

    def _paths(self, place: str) -> list[Path]:
        for variable, folder in _WINDOWS_FOLDERS.items():
            if place.startswith(variable):
                base_folder = self.environment.get(variable.strip("%")) if self.system == "windows" else None
                place = f"{base_folder or self.home / folder}{place[len(variable) :]}"
        if place.startswith("./"):
            # Clients that search several folders of a repository go from its root down to the current directory.
            paths = [folder / place[2:] for folder in self._project_folders()]
        else:
            paths = [self.home / place[2:] if place.startswith("~/") else Path(place)]
        return [
            match for path in paths for match in (sorted(_matching_paths(path)) if _GLOB_CHARS & {*place} else [path])
        ]

    def _project_folders(self) -> list[Path]:
        """Returns every folder from the root of the repository down to the current directory."""
        parents = [folder for folder in self.directory.parents if folder.is_relative_to(self.project)]
        return [*reversed(parents), self.directory]

    def windows_machines(self) -> Iterator[Machine]:
        """Yields, in WSL, a machine for each Windows user."""
        for home in self.windows_homes:
            yield Machine("windows", home, {}, home)

    def display_path(self, path: Path) -> str:
        """Returns a path for output, with `~` for the home directory."""
        if path == self.home:
            return "~"
        try:
            return f"~/{path.relative_to(self.home).as_posix()}"
        except ValueError:
            return str(path)


def _matching_paths(pattern: Path) -> Iterator[Path]:
    base = Path(*_fixed_parts(pattern.parts))
    pattern_parts = pattern.parts[len(base.parts) :]
    yield from base.glob("/".join(pattern_parts))


def _fixed_parts(parts: Sequence[str]) -> Iterator[str]:
    for part in parts:
        if _GLOB_CHARS & {*part}:
            return
        yield part


def _is_wsl() -> bool:
    try:
        return "microsoft" in Path("/proc/sys/kernel/osrelease").read_text(encoding="ascii", errors="replace").lower()
    except OSError:
        return False
