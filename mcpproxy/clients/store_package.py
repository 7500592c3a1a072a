"""Finds the file that Claude Desktop reads on Windows, where a package of the Microsoft Store has its own folder.

The rules are those of neon-solutions/add-mcp#114, which followed nine reports of edits to the wrong file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mcpproxy.clients.documents.edits import ConfigError


def package_file(classic_file: Path, packages: Sequence[Path], path_inside: str) -> Path:
    """Returns the file that Claude Desktop reads.

    Args:
        classic_file: the file of an installation without the store.
        packages: the folders of the installed packages with this name.
        path_inside: the path of the file within such a folder.

    Raises:
        ConfigError: the client could read the file of any of several packages.
    """
    files = [package / path_inside for package in packages if (package / path_inside).exists()]
    if len(files) == 1:
        return files[0]
    if not files and (classic_file.exists() or not packages):
        return classic_file
    candidates = files or [package / path_inside for package in packages]
    if len(candidates) == 1:
        return candidates[0]
    raise ConfigError(f"it is not clear which of these the client reads: {', '.join(map(str, candidates))}")
