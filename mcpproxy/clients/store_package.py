"""Which file Claude Desktop reads on Windows: as a package of the Microsoft Store, it has a separate folder.

The rules are those of neon-solutions/add-mcp#114, which followed nine reports of edits to the wrong file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mcpproxy.clients.documents.edits import ConfigError


def chosen(classic: Path, packages: Sequence[Path], inside: str) -> Path:
    """The file that Claude Desktop reads.

    Args:
        classic: the file of an installation without the store.
        packages: the folders of the installed packages of this name.
        inside: where the file is in such a folder.

    Raises:
        ConfigError: several packages could be meant.
    """
    files = [package / inside for package in packages if (package / inside).exists()]
    if len(files) == 1:
        return files[0]
    if not files and (classic.exists() or not packages):
        return classic
    candidates = files or [package / inside for package in packages]
    if len(candidates) == 1:
        return candidates[0]
    raise ConfigError(f"it is not clear which of these the client reads: {', '.join(map(str, candidates))}")
