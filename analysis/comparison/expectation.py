"""Expectations: a side in a file, which `compare --save` writes and `OLD` may name.

The file is a JSON object: the version of the format, the summary of the side, the record of each aspect, and a checksum
of the lines before it. It holds nothing that depends on the machine or the moment, and has a line for each definition,
request, result and finding, so that saving the same capture again gives the same bytes, and a difference can be
reviewed. What differs in each recording comes last.
"""

import json
import os
import stat
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from analysis.comparison.change import Place
from analysis.comparison.encoding import plain_value, side_of, with_places
from analysis.comparison.line_layout import laid_out
from analysis.comparison.saved_records import restored_records, saved_members
from analysis.comparison.side import Side
from captures.errors import CannotCreate, CaptureError, NewerFormat
from captures.new_file import new_file

FORMAT: Final = 1
"""The version of the format of expectations."""
MAX_EXPECTATION_BYTES: Final = 64 << 20
"""The maximum size of an expectation."""
_BEGIN: Final = b'{"mcpproxy_expectation":'
_END: Final = b'"blake2b":'
_SAVED_PLACE: Final = Place("", 0, -1)


def check_new(path: Path) -> None:
    """Refuse to save an expectation as an existing file, before anything is read.

    Raises:
        CannotCreate: the file exists.
    """
    if os.path.lexists(path):
        raise CannotCreate(f"{path} exists, and --save never replaces a file; delete it first, or choose another name")


def save(side: Side, path: Path) -> None:
    """Write a side to a new file, which only its owner can read.

    Raises:
        CannotCreate: the file exists, or cannot be written.
    """
    check_new(path)
    summary = side.summary._replace(name="", begun_ns=None)
    records: dict[str, Any] = {
        name: plain_value(with_places(record, lambda _: _SAVED_PLACE)) for name, record in side.records.items()
    }
    lines = [_BEGIN + b"%d," % FORMAT]
    for name, value in {"summary": plain_value(summary), **saved_members(records)}.items():
        first, *others = laid_out(value)
        lines += [line.encode() for line in (f'"{name}":{first}', *others)]
        lines[-1] += b","
    lines.append(_END + b'"%s"}' % _checksum(lines).encode())
    content = b"".join(line + b"\n" for line in lines)
    if len(content) > MAX_EXPECTATION_BYTES:
        raise CannotCreate(
            f"cannot write {path}: it would be larger than {MAX_EXPECTATION_BYTES >> 20} MiB; use --filter"
        )
    with new_file(path, advice=", and --save never replaces a file; delete it first, or choose another name") as file:
        file.write_bytes(content)


def load(name: str, path: Path) -> Side | None:
    """Returns the side in a file, or None if the file is no expectation.

    Args:
        name: the expectation as the user named it.
        path: the file.

    Raises:
        CaptureError: it cannot be read, is damaged, or a later version wrote it.
    """
    content = _content(path)
    if content is None:
        return None
    lines = content.splitlines()
    version = _member(lines[0].removesuffix(b",") + b"}", "mcpproxy_expectation")
    if type(version) is int and version > FORMAT:
        raise NewerFormat(f"cannot read {path}: a later version of mcpproxy wrote it; update mcpproxy")
    if len(lines) < 2 or not lines[-1].startswith(_END):
        raise CaptureError(f"cannot read {path}: its end is missing; save it again, or restore it")
    if version != FORMAT or _member(b"{" + lines[-1], "blake2b") != _checksum(lines[:-1]):
        raise CaptureError(f"cannot read {path}: it is damaged, or was edited; save it again, or restore it")
    try:
        members = json.loads(b"\n".join(lines))
        summary = members.pop("summary")
        del members["mcpproxy_expectation"], members["blake2b"]
        side = side_of((("summary", summary), *restored_records(members, name).items()))
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise CaptureError(
            f"cannot read {path}: this version of mcpproxy does not understand it; save it again"
        ) from error
    place = Place(name, 0, -1)
    records = {aspect: with_places(record, lambda _: place) for aspect, record in side.records.items()}
    return Side(side.summary._replace(name=name, captures=0), records)


def _content(path: Path) -> bytes | None:
    """Returns the content of a file that begins as an expectation does, or None if it does not."""
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for a writer.
        with open(path, "rb", opener=lambda file, flags: os.open(file, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            begin = file.read(len(_BEGIN))
            if begin != _BEGIN:
                return None
            content = begin + file.read(MAX_EXPECTATION_BYTES)
    except IsADirectoryError:
        return None
    except OSError as error:
        raise CaptureError(f"cannot read {path}: {error.strerror}") from error
    if len(content) > MAX_EXPECTATION_BYTES:
        raise CaptureError(f"cannot read {path}: an expectation has at most {MAX_EXPECTATION_BYTES >> 20} MiB")
    return content


def _member(line: bytes, name: str) -> Any:
    try:
        return json.loads(line)[name]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _checksum(lines: list[bytes]) -> str:
    """Returns a checksum of lines that does not depend on how they end: git may change that."""
    return blake2b(b"\n".join(lines), digest_size=16).hexdigest()
