"""OutputCache: the output of a process about a closed capture, cached so that the capture need not be read again.

The worker of the screens sends the meaning of a capture's messages and the locations of its records as messages of
bytes. They are kept here in order, so that they can be sent unchanged the next time. So are the findings, for the
screens and for SQL (`analysis.store.finding_list`). A file contains a
digest, followed by the compressed messages. The digest covers the messages and everything that they depend on, so a
file that is truncated or damaged is not used at all, nor is one whose capture or program has changed. A file is written
once everything has been sent.
"""

import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final, Literal, TypeAlias

from analysis import summary, tally
from analysis.cached import SCRIPT_SUFFIX, UNFINISHED_PREFIX, ClearedCache, read_bytes, replace_file, size_limit

Subject: TypeAlias = Literal["rows", "meaning", "findings"]
"""A subject: where the records are, what the messages mean, or what the rules find."""

MAX_OUTPUT_FILE_BYTES: Final = 32 << 20
"""The most bytes in a file; if there are more, nothing is kept."""
MAX_OUTPUT_BYTES: Final = 96 << 20
"""The most bytes of all messages in a file: the receiver has to store those for which it is not ready."""
MAX_FINDINGS_BYTES: Final = 512 << 20
"""The most bytes of all findings in a file, which are used one by one."""
_SIZE_LIMIT_DIVISOR: Final = 4
"""All files together may take a quarter of the bytes that the rows for SQL may take."""
_SUFFIXES: Final[dict[Subject, str]] = {"rows": ".rows", "meaning": ".meaning", "findings": ".findings"}
_ALL_SUFFIXES: Final = (*_SUFFIXES.values(), SCRIPT_SUFFIX)
_LENGTH: Final = struct.Struct("=I")
_DIGEST_BYTES: Final = 16
_CHUNK_BYTES: Final = 64 << 10
_COMPRESSION_LEVEL: Final = 1


class OutputCache:
    """The messages about one subject of a capture: collects them for the cache, or returns them from it."""

    def __init__(self, path: Path, about: Subject, made_by: str) -> None:
        """Remember the current state of the capture.

        Args:
            path: the capture.
            about: the subject.
            made_by: what the messages depend on, apart from the capture and the modules that read and judge it.
        """
        self._path, self._subject, self._made_by = path, about, made_by
        self._key = self._current_key()
        self._file = summary.file_of(path, _SUFFIXES[about])
        self._compressor = zlib.compressobj(_COMPRESSION_LEVEL)
        self._pieces: list[bytes] = []
        self._compressed_bytes = self._uncompressed_bytes = 0

    def add(self, message: bytes) -> None:
        """Collect a message."""
        self._uncompressed_bytes += len(message) + _LENGTH.size
        if self._is_too_large:
            self._pieces.clear()
            return
        self._collect(self._compressor.compress(_LENGTH.pack(len(message)) + message))

    def save(self) -> bool:
        """Write the collected messages, once they are complete; return whether they were kept.

        They are not kept if the capture has changed since the object was created or is being written, or if there is
        too much to keep.
        """
        self._collect(self._compressor.flush())
        if self._file is None or self._key is None or self._is_too_large or self._compressed_bytes > total_limit():
            return False
        if self._current_key() != self._key:
            return False
        is_kept = replace_file(self._file, [_digest(self._key, self._pieces), *self._pieces])
        delete_oldest()
        return is_kept

    def cached(self) -> Iterator[bytes] | None:
        """Returns the messages about the capture as it is now, or None if they are not kept; marks the file as used.

        Raises:
            ValueError, zlib.error: the file was forged; raised while the messages are read.
        """
        if self._file is None or self._key is None or not size_limit():
            return None
        content = read_bytes(self._file, _DIGEST_BYTES + MAX_OUTPUT_FILE_BYTES + 1)
        if content is None:
            return None
        digest, compressed = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if len(compressed) > MAX_OUTPUT_FILE_BYTES or digest != _digest(self._key, [compressed]):
            return None
        with suppress(OSError):
            os.utime(self._file)
        return _messages(compressed)

    @property
    def _is_too_large(self) -> bool:
        most = MAX_FINDINGS_BYTES if self._subject == "findings" else MAX_OUTPUT_BYTES
        return self._uncompressed_bytes > most or self._compressed_bytes > MAX_OUTPUT_FILE_BYTES

    def _collect(self, compressed: bytes) -> None:
        if compressed:
            self._pieces.append(compressed)
            self._compressed_bytes += len(compressed)

    def _current_key(self) -> str | None:
        key = (tally if self._subject == "findings" else summary).key_of(self._path)
        return None if key is None else f"{self._made_by}\n{key}"


def total_limit() -> int:
    """Returns the most bytes that all files together may take."""
    return size_limit() // _SIZE_LIMIT_DIVISOR


def delete_oldest() -> None:
    """Delete the files that were not used for the longest time, until the others are within the limit."""
    remaining_bytes = total_limit()
    for size, file in _files():
        remaining_bytes -= size
        if remaining_bytes < 0:
            with suppress(OSError):
                file.unlink()


def files_of(path: Path) -> list[Path]:
    """All files that can contain messages about a capture."""
    files = [summary.file_of(path, suffix) for suffix in _ALL_SUFFIXES]
    return [file for file in files if file is not None]


def clear_files() -> ClearedCache:
    """Delete the files of all captures, and the unfinished files that killed processes have left."""
    files = _files()
    for _, file in files:
        with suppress(OSError):
            file.unlink()
    folder = summary.directory()
    for unfinished_file in [] if folder is None else folder.glob(f"{UNFINISHED_PREFIX}*"):
        with suppress(OSError):
            unfinished_file.unlink()
    deleted_sizes = [size for size, file in files if not os.path.lexists(file)]
    return ClearedCache(len(deleted_sizes), sum(deleted_sizes), len(files) - len(deleted_sizes))


def _files() -> list[tuple[int, Path]]:
    """All files with their sizes, the most recently used first."""
    folder = summary.directory()
    files = []
    for file in [] if folder is None else folder.glob("*"):
        if file.suffix in _ALL_SUFFIXES:
            with suppress(OSError):
                status = file.lstat()
                files.append((status.st_mtime_ns, status.st_size, file))
    return [(size, file) for _, size, file in sorted(files, reverse=True)]


def _digest(key: str, pieces: Iterable[bytes]) -> bytes:
    digest = blake2b(blake2b(os.fsencode(key)).digest(), digest_size=_DIGEST_BYTES)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def _messages(compressed: bytes) -> Iterator[bytes]:
    """Yields the messages without keeping all of them in memory.

    Raises:
        ValueError, zlib.error: the data does not consist of compressed messages.
    """
    decompressor, data, unread = zlib.decompressobj(), b"", memoryview(compressed)
    while not decompressor.eof:
        if not unread or len(data) > MAX_OUTPUT_BYTES:
            raise ValueError("the cached output ends early")
        data += decompressor.decompress(unread[:_CHUNK_BYTES])
        offset, unread = 0, unread[_CHUNK_BYTES:]
        while offset + _LENGTH.size <= len(data):
            (length,) = _LENGTH.unpack_from(data, offset)
            end = offset + _LENGTH.size + length
            if end > len(data):
                break
            yield data[offset + _LENGTH.size : end]
            offset = end
        data = data[offset:]
    if data:
        raise ValueError("the cached output ends early")
