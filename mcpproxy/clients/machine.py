"""The machine as clients see it: which system, whose home, which variables, which directory.

Places of configuration files are written as clients document them (`~/.cursor/mcp.json`, `%APPDATA%/Claude/…`) and
resolved here, so a test can look up the files of a Mac with a made-up home.
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

_WINDOWS: Final = {"%APPDATA%": "AppData/Roaming", "%LOCALAPPDATA%": "AppData/Local", "%USERPROFILE%": ""}
_GLOB: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Machine:
    """One user on one system."""

    system: System
    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: Path = Path()
    """Where the command was started: project files are searched for from here up to the root of the repository."""
    windows_homes: tuple[Path, ...] = ()
    """Inside WSL: the homes of the Windows side, as they are mounted."""

    @classmethod
    def here(cls) -> Machine:
        """The machine that this process runs on.

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

    def resolve(self, place: str, overrides: Sequence[tuple[str, str]] = ()) -> list[Path]:
        """The paths that a place stands for: one; for a project, one per folder; with `*`, those that exist.

        Args:
            place: begins with `~/`, `./` (the project), `/`, or a variable of Windows such as `%APPDATA%`.
            overrides: names of variables, and the prefixes of places that their values replace.
        """
        for variable, front in overrides:
            value = self.environment.get(variable)
            if value and (place == front or place.startswith(f"{front}/")):
                return self._paths(f"{value}{place[len(front) :]}")
        return self._paths(place)

    def _paths(self, place: str) -> list[Path]:
        for variable, folder in _WINDOWS.items():
            if place.startswith(variable):
                base = self.environment.get(variable.strip("%")) if self.system == "windows" else None
                place = f"{base or self.home / folder}{place[len(variable) :]}"
        if place.startswith("./"):
            # Clients that search several folders of a repository do so from its root down to where they were started.
            paths = [folder / place[2:] for folder in self._project_folders()]
        else:
            paths = [self.home / place[2:] if place.startswith("~/") else Path(place)]
        return [match for path in paths for match in (sorted(_matching(path)) if _GLOB & {*place} else [path])]

    def _project_folders(self) -> list[Path]:
        """The root of the repository, and every folder from there down to the directory."""
        above = [folder for folder in self.directory.parents if folder.is_relative_to(self.project)]
        return [*reversed(above), self.directory]

    def windows_side(self) -> Iterator[Machine]:
        """Inside WSL: a machine for each user of the Windows side."""
        for home in self.windows_homes:
            yield Machine("windows", home, {}, home)

    def shown(self, path: Path) -> str:
        """A path for a person to read: with `~` for the home directory."""
        if path == self.home:
            return "~"
        try:
            return f"~/{path.relative_to(self.home).as_posix()}"
        except ValueError:
            return str(path)


def _matching(pattern: Path) -> Iterator[Path]:
    fixed = Path(*_before_glob(pattern.parts))
    rest = pattern.parts[len(fixed.parts) :]
    yield from fixed.glob("/".join(rest))


def _before_glob(parts: Sequence[str]) -> Iterator[str]:
    for part in parts:
        if _GLOB & {*part}:
            return
        yield part


def _is_wsl() -> bool:
    try:
        return "microsoft" in Path("/proc/sys/kernel/osrelease").read_text(encoding="ascii", errors="replace").lower()
    except OSError:
        return False
