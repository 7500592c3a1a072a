"""Reads a client's configuration file, edits it in place, and checks that the edited text has the expected data.

Promises:
- A file that a client could not read is refused, with the position and the reason.
- An edit changes only its own bytes: order, comments, indentation, line ends and the byte-order mark stay.
- The edited text, when parsed again, contains exactly the data that the edits describe. Otherwise the edits are
  refused.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any, Final, Literal

from mcpproxy.clients.documents.editable_text import EditableText
from mcpproxy.clients.documents.edits import ConfigError, Edit, data_after_edits
from mcpproxy.clients.documents.json_text import JsonText

Format = Literal["json", "jsonc", "toml", "yaml"]
"""`json` is for clients that refuse comments and trailing commas, `jsonc` for clients that accept them."""

MAX_FILE_BYTES: Final = 64 << 20
"""Larger files are refused, because no client could use one and reading it would take minutes."""

MAX_SLOW_FORMAT_BYTES: Final = 1 << 20
"""Larger TOML and YAML files are refused, because their parsers take a minute for a few MiB."""

_BOM: Final = "\ufeff"


def read_file(path: Path, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Returns the bytes of a file, without waiting for the writer if the file is a FIFO.

    Args:
        path: the file.
        max_bytes: the maximum size in bytes; the default is larger than any configuration.

    Raises:
        OSError: the file does not exist, is not a regular file, or is too large.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a file")
        if status.st_size > max_bytes:
            raise OSError(errno.EFBIG, f"it is larger than {max_bytes >> 20} MiB")
        return file.read()


class Document:
    """One configuration file."""

    def __init__(self, data: bytes, form: Format) -> None:
        """Parse a file.

        Raises:
            ConfigError: it does not parse; the text begins with the line and column if they are known.
        """
        if form in ("toml", "yaml") and len(data) > MAX_SLOW_FORMAT_BYTES:
            raise ConfigError(f"it is larger than {MAX_SLOW_FORMAT_BYTES >> 20} MiB")
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise ConfigError(f"line {line}: this is not UTF-8 text") from None
        self._bom = _BOM if text.startswith(_BOM) else ""
        self._form = form
        self._text = _parse(text.removeprefix(_BOM), form)

    @property
    def data(self) -> Any:
        """The data of the file, as plain values."""
        return self._text.data

    def edited_bytes(self, edits: list[Edit]) -> bytes:
        """Returns the bytes of the edited file.

        Raises:
            ConfigError: the form of the file does not allow these edits without other changes.
        """
        try:
            text = self._text.edited_text(edits)
            edited_text = _parse(text, self._form)
            expected_data = data_after_edits(self._text.data, edits)
            is_expected = edited_text.data == expected_data
        except (LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ConfigError(
                f"the file does not have the expected structure ({type(error).__name__}: {error})"
            ) from None
        if not is_expected:
            raise ConfigError("the edit cannot be made without changing something else")
        try:
            return (self._bom + text).encode()
        except UnicodeEncodeError:
            raise ConfigError("what would be written, such as the name of a directory, is not UTF-8 text") from None


def read_data(path: Path, form: Format) -> Any:
    """Returns the data of a file as plain values, or None if the file does not exist or cannot be read."""
    try:
        return Document(read_file(path), form).data
    except (OSError, ConfigError):
        return None


def _parse(text: str, form: Format) -> EditableText:
    if form in ("json", "jsonc"):
        return JsonText(text, strict=form == "json")
    if form == "toml":
        from mcpproxy.clients.documents.toml_text import TomlText

        return TomlText(text)
    from mcpproxy.clients.documents.yaml_text import YamlText

    return YamlText(text)
