"""Configuration: the files in the configuration directory with which users adapt the screens.

Each has one table of TOML, and each of its lines stands for itself: an invalid one is reported, and the others apply.
"""

import os
import re
import stat
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from captures.paths import config_directory

MAX_FILE_BYTES: Final = 64 << 10
_COLUMN: Final = re.compile(r" \(at line 1, column \d+\)| \(at end of document\)")
"""Where a message of the parser points to in a line of its own."""


class ConfigurationTable(NamedTuple):
    """The table of a file."""

    entries: Mapping[str, Any]
    """The values by name, in the order of the file; none if there is no such file."""
    lines: Mapping[str, int]
    """The numbers of the lines of entries, counted from 1; without entries that take several lines."""
    errors: Sequence[str] = ()
    """Why the file, or a line of it, cannot be used; each is a line."""


def configuration_path(name: str) -> Path | None:
    """Returns the path of a file by its name, or None if the home directory is unknown."""
    directory = config_directory()
    return Path(directory, name) if directory is not None else None


def read_table(name: str, table_name: str, example: str) -> ConfigurationTable:
    """Read the only table of a file; never raises.

    Args:
        name: the name of the file in the configuration directory.
        table_name: the name of the table.
        example: a valid line, for messages about an invalid one.
    """
    path = configuration_path(name)
    try:
        if path is None:
            return ConfigurationTable({}, {})
        # A pipe would keep the app waiting for a writer.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ConfigurationTable({}, {}, [f"{path} is not a regular file"])
            text = file.read(MAX_FILE_BYTES).decode()
    except FileNotFoundError:
        return ConfigurationTable({}, {})
    except OSError as error:
        return ConfigurationTable({}, {}, [f"cannot read {path}: {error.strerror}"])
    except ValueError as error:
        return ConfigurationTable({}, {}, [f"{path}: {error}"])
    return _table_in(text, name, table_name, str(path), example)


def _table_in(text: str, name: str, table_name: str, path: str, example: str) -> ConfigurationTable:
    lines, entries, errors = dict[str, int](), dict[str, Any](), list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        try:
            values = tomllib.loads(line)
        except (ValueError, RecursionError) as error:
            reason = _COLUMN.sub("", str(error))
            errors.append(f"{name}, line {number}: {reason}; expected a line such as {example}")
            continue
        for entry, value in values.items():
            if line.lstrip().startswith("["):
                continue
            if entry in entries:
                errors.append(f"{name}, line {number}: there is already a line {entry}")
                continue
            lines[entry], entries[entry] = number, value
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError):
        return ConfigurationTable(entries, lines, errors)
    found = tables.get(table_name, {})
    if not isinstance(found, dict) or set(tables) - {table_name}:
        return ConfigurationTable({}, {}, [f"{path}: expected one table, [{table_name}]"])
    return ConfigurationTable(found, lines)
