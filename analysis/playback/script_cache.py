"""ScriptCache: the items of a closed capture, kept so that the capture need not be read again.

A file holds the items in order, in chunks, so that the first ones are there at once. A digest before each chunk covers
it, all earlier chunks, and everything that they depend on: a file that is truncated or damaged is used up to that
place, and not at all if the capture or the program has changed. Whatever a forged file contains, loading it raises
only `StaleScriptError`, and takes memory in proportion to its size.
"""

import os
import struct
import zlib
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from analysis.cached import READING_MODULES, SCRIPT_SUFFIX, derived_file, replace_file, size_limit, state_of
from analysis.playback.items import Ending, HttpAnswer
from analysis.playback.matching import Matching
from analysis.playback.script_table import (
    CHANNEL_SHIFT,
    CHANNELS,
    KIND_SHIFT,
    KINDS,
    MEMBER_ROW,
    ROW,
    Extras,
    ScriptTable,
)
from captures.errors import CaptureError
from captures.ownership import refusal
from captures.reader import open_capture

PLAYBACK_MODULES: Final = (
    *READING_MODULES,
    "analysis/playback/*.py",
    "analysis/comparison/canonical.py",
    "analysis/comparison/requests.py",
    "analysis/comparison/values/*.py",
)
"""The modules that decide what is in a script."""
MIN_CAPTURE_BYTES: Final = 1 << 20
"""The size of the smallest capture that is worth a file: less is read before a client asks twice."""
FIRST_CHUNK_ITEMS: Final = 500
MAX_CHUNK_ITEMS: Final = 4_000
"""How many items are in the first chunk, and in a later one."""
MAX_CHUNK_BYTES: Final = 64 << 20
"""The most bytes of a chunk; a script with a larger one is not kept."""
MAX_FILE_BYTES: Final = 256 << 20
"""The most bytes of a file."""
_LENGTH: Final = struct.Struct("=II")
_DIGEST_BYTES: Final = 16
_COMPRESSION_LEVEL: Final = 1


class StaleScriptError(Exception):
    """A file, or the rest of it, cannot be used."""


class Mark(NamedTuple):
    """How much of a table existed at one time."""

    items: int = 0
    texts: int = 1
    http_answers: int = 0
    ended_calls: int = 0
    event_ids: int = 0

    @classmethod
    def of(cls, table: ScriptTable) -> "Mark":
        """Returns how much of a table exists now."""
        return cls(len(table), len(table.texts), len(table.http_answers), len(table.ended_calls), len(table.event_ids))


class _Chunk(msgspec.Struct, array_like=True):
    """What a table has between two marks; with the last one comes the ending."""

    transport: str
    rows: bytes
    text_sizes: bytes
    texts: bytes
    event_id_sizes: bytes
    event_ids: bytes
    extras: list[tuple[int, tuple[tuple[int, int], ...], bytes, str | None]]
    http_answers: list[HttpAnswer]
    response_texts: list[tuple[int, int, int]]
    other_sessions: list[tuple[int, int]]
    ended_calls: bytes
    ending: Ending | None = None


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Chunk).decode


class ScriptCache:
    """The file of one capture under one matching."""

    def __init__(self, path: Path, matching: Matching) -> None:
        """Note the current state of the capture."""
        self._path, self._matching = path, matching
        self._key = self._present_key()
        self._file = derived_file(path, SCRIPT_SUFFIX)

    def chunks(self) -> Iterator[bytes]:
        """Yields the chunks that are kept, for `load`.

        Raises:
            StaleScriptError: there is no file, it depends on something else, or the rest of it is damaged.
        """
        if self._file is None or self._key is None or not size_limit():
            raise StaleScriptError
        try:
            with open_capture(self._file) as file:
                if refusal(os.fstat(file.fileno())):
                    raise StaleScriptError
                digest = _first_digest(self._key)
                if file.read(_DIGEST_BYTES) != digest:
                    raise StaleScriptError
                with suppress(OSError):
                    os.utime(self._file)
                while True:
                    size, digest, piece = _read_chunk(file, digest)
                    yield _unpacked(piece, size)
        except (CaptureError, OSError) as error:
            raise StaleScriptError from error

    def save(
        self,
        table: ScriptTable,
        marks: list[Mark],
        transport: str,
        ending: Ending,
        should_stop: Callable[[], bool],
    ) -> bool:
        """Write the file, unless the capture has changed or there is too much to keep; return whether it was written.

        Args:
            table: the complete table.
            marks: how it grew, at least its end.
            transport: the transport of the capture.
            ending: how the recording ended.
            should_stop: asked before each chunk whether to give up.
        """
        if self._file is None or self._key is None or ending.is_growing or self._present_key() != self._key:
            return False
        from analysis.output_cache import delete_oldest, total_limit  # they load the reading

        def must_stop(written_bytes: int) -> bool:
            return written_bytes > min(MAX_FILE_BYTES, total_limit()) or should_stop()

        if not replace_file(self._file, self._pieces(_ChunkWriter(table, transport), marks, ending, must_stop)):
            return False
        delete_oldest()
        return True

    def _pieces(
        self, writer: "_ChunkWriter", marks: list[Mark], ending: Ending, must_stop: Callable[[int], bool]
    ) -> Iterator[bytes]:
        """Yields the content of the file.

        Raises:
            OSError: it would be too large, or it is no longer needed.
        """
        assert self._key is not None
        digest, total = _first_digest(self._key), 0
        yield digest
        for number, mark in enumerate(marks):
            payload = writer.chunk(mark, ending if number == len(marks) - 1 else None)
            piece = zlib.compress(payload, _COMPRESSION_LEVEL)
            total += len(piece)
            if len(payload) > MAX_CHUNK_BYTES or must_stop(total):
                raise OSError(0, "the script is not kept")
            digest = _next_digest(digest, piece)
            yield _LENGTH.pack(len(piece), len(payload)) + digest
            yield piece

    def _present_key(self) -> str | None:
        state = state_of(self._path, PLAYBACK_MODULES)
        return None if state is None else f"{self._matching!r}\n{state}"


def load(payload: bytes, table: ScriptTable) -> tuple[str, Ending | None]:
    """Append the items of a chunk to a table; return the transport, and with the last chunk the ending.

    Raises:
        StaleScriptError: the chunk is not valid; the table has none of it, or the valid beginning.
    """
    try:
        chunk = _decode(payload)
        ended_calls = _numbers("q", chunk.ended_calls)
        for text in _texts(chunk.text_sizes, chunk.texts):
            count = len(table.texts)
            if table.text_number(text) != count:
                raise StaleScriptError  # a text twice
        table.event_ids += _texts(chunk.event_id_sizes, chunk.event_ids)
        for answer in chunk.http_answers:
            table.http_answers.put(answer)
        for exchange, segment, offset in chunk.response_texts:
            table.response_texts[exchange] = segment, offset
        for exchange, session in chunk.other_sessions:
            if exchange in table.http_answers and exchange not in table.other_sessions:
                table.list_exchange(exchange, session)
        _load_rows(table, chunk)
        for call in ended_calls:
            if not 0 <= call < table.message_count:
                raise StaleScriptError
            table.note_end(call)
    except (msgspec.MsgspecError, ValueError, struct.error, OverflowError) as error:
        raise StaleScriptError from error
    return chunk.transport, chunk.ending


class _ChunkWriter:
    """Cuts a complete table into chunks."""

    def __init__(self, table: ScriptTable, transport: str) -> None:
        self._table, self._transport = table, transport
        self._done = Mark()
        self._extras = sorted(table.extras.items(), reverse=True)

    def chunk(self, mark: Mark, ending: Ending | None) -> bytes:
        """Returns what is between the last mark and this one."""
        table, done = self._table, self._done
        answers = [*table.http_answers.ordered(done.http_answers, mark.http_answers)]
        exchanges = [answer.exchange for answer in answers]
        places, sessions = table.response_texts, table.other_sessions
        extras = []
        while self._extras and self._extras[-1][0] < mark.items:
            number, extra = self._extras.pop()
            extras.append((number, extra.parts, extra.members, extra.event))
        self._done = mark
        return _encode(
            _Chunk(
                self._transport,
                bytes(table.rows[done.items * ROW.size : mark.items * ROW.size]),
                *_written(table.texts[done.texts : mark.texts]),
                *_written(table.event_ids[done.event_ids : mark.event_ids]),
                extras,
                answers,
                [(exchange, *places[exchange]) for exchange in exchanges if exchange in places],
                [(exchange, sessions[exchange]) for exchange in exchanges if exchange in sessions],
                table.ended_calls[done.ended_calls : mark.ended_calls].tobytes(),
                ending,
            )
        )


def _written(texts: list[str]) -> tuple[bytes, bytes]:
    """Returns the sizes of texts and the texts, as bytes; parsed JSON may contain lone surrogates."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return array("I", map(len, encoded)).tobytes(), b"".join(encoded)


def _texts(sizes: bytes, content: bytes) -> list[str]:
    texts, offset = [], 0
    for size in _numbers("I", sizes):
        texts.append(content[offset : offset + size].decode("utf-8", "surrogatepass"))
        offset += size
    if offset != len(content):
        raise StaleScriptError
    return texts


def _load_rows(table: ScriptTable, chunk: _Chunk) -> None:
    extras = {number: Extras(parts, members, event) for number, parts, members, event in chunk.extras}
    text_count, number, append = len(table.texts), len(table), table.append
    for row in ROW.iter_unpack(chunk.rows):
        seq, t_ns, offset, exchange, call, outer, session, segment, method, name, key, event_id, fields, code = row
        extra = extras.get(number) if extras else None
        member_count = 1 if extra is None or not extra.members else len(extra.members) // MEMBER_ROW.size
        table.message_count += member_count
        if (
            max(method, name, key, fields) >= text_count
            or event_id > len(table.event_ids)
            or not -1 <= call < table.message_count
            or not -1 <= outer < table.message_count
            or not _is_code(code)
            or (extra is not None and not _are_members(extra.members, text_count, table.message_count))
        ):
            raise StaleScriptError
        terms = (call, outer, method, name, key, code)
        append(seq, t_ns, offset, exchange, session, segment, event_id, terms, extra, fields)
        number += 1


def _is_code(code: int) -> bool:
    return code >> KIND_SHIFT & 7 < len(KINDS) and code >> CHANNEL_SHIFT & 3 < len(CHANNELS)


def _are_members(members: bytes, text_count: int, message_count: int) -> bool:
    return all(
        max(method, name, key) < text_count and -1 <= call < message_count and _is_code(code)
        for call, method, name, key, code in MEMBER_ROW.iter_unpack(members)
    )


def _numbers(typecode: str, content: bytes) -> "array[int]":
    numbers: array[int] = array(typecode)
    numbers.frombytes(content)
    return numbers


def _first_digest(key: str) -> bytes:
    return blake2b(os.fsencode(key), digest_size=_DIGEST_BYTES).digest()


def _next_digest(digest: bytes, piece: bytes) -> bytes:
    return blake2b(piece, key=digest, digest_size=_DIGEST_BYTES).digest()


def _read_chunk(file: BinaryIO, digest: bytes) -> tuple[int, bytes, bytes]:
    """Returns the unpacked size of the next chunk, its digest and its content.

    Raises:
        StaleScriptError: there is none, or it is damaged.
    """
    head = file.read(_LENGTH.size + _DIGEST_BYTES)
    if len(head) < _LENGTH.size + _DIGEST_BYTES:
        raise StaleScriptError
    packed_size, size = _LENGTH.unpack_from(head)
    if packed_size > MAX_CHUNK_BYTES or size > MAX_CHUNK_BYTES:
        raise StaleScriptError
    piece = file.read(packed_size)
    digest = _next_digest(digest, piece)
    if digest != head[_LENGTH.size :]:
        raise StaleScriptError
    return size, digest, piece


def _unpacked(piece: bytes, size: int) -> bytes:
    decompressor = zlib.decompressobj()
    try:
        payload = decompressor.decompress(piece, size + 1)
    except zlib.error as error:
        raise StaleScriptError from error
    if len(payload) != size or not decompressor.eof:
        raise StaleScriptError
    return payload
