"""Reads untrusted lines of JSON: bounded, one object each; an error says what was expected instead."""

from binascii import a2b_base64
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final

from orjson import JSONDecodeError, loads

MAX_INPUT_LINE_BYTES: Final = 64 << 20
"""Bytes. A longer line is not read."""
_PIECE: Final = 1 << 20


class InvalidLine(Exception):
    """A line is invalid; the text says what is expected, to follow the words `line N: `."""


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yields the lines of a file; of a line that is too long, only enough to show that it is."""
    while line := file.readline(MAX_INPUT_LINE_BYTES + 1):
        yield line
        while not line.endswith(b"\n") and (line := file.readline(_PIECE)):
            pass


def numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yields lines with their numbers, from 1, skipping blank ones."""
    for number, line in enumerate(lines, 1):
        if not line.isspace():
            yield number, line


def object_of(line: bytes) -> dict[str, Any]:
    """Parses a line as a JSON object.

    Raises:
        InvalidLine: it is not one.
    """
    if len(line) > MAX_INPUT_LINE_BYTES:
        raise InvalidLine(f"longer than {MAX_INPUT_LINE_BYTES >> 20} MiB")
    try:
        read = loads(line)
    except JSONDecodeError as error:
        raise InvalidLine(f"not JSON ({error})") from None
    if not isinstance(read, dict):
        raise InvalidLine("expected a JSON object")
    return read


def raw_of(values: dict[str, Any]) -> bytes:
    """The exact bytes in `raw_b64`, or else in `raw`.

    Raises:
        InvalidLine: both are missing.
    """
    raw, encoded = values.get("raw"), values.get("raw_b64")
    if encoded is not None:
        try:
            return a2b_base64(encoded, strict_mode=True)
        except (ValueError, TypeError):
            raise InvalidLine("expected base64 in `raw_b64`") from None
    if not isinstance(raw, str):
        raise InvalidLine("expected text in `raw`, or base64 in `raw_b64`")
    return raw.encode()
