"""Decodes content codings in the recorded copy of a body as it arrives, within limits; forwarded bytes are untouched.

The sender of a body determines the cost of decoding: a megabyte of gzip can expand to a gigabyte, and contain gzip
again. So output is produced slice by slice and counted, separately for each coding in the chain, and decoding ends if
the output gets out of proportion. Members without output, such as empty gzip files, count as well. The time is linear
in the input and the output.

The libraries for `br` and `zstd` are loaded when the first such body arrives.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from io import BytesIO
from typing import Any, Final, NamedTuple, Protocol

MAX_DECODED_BYTES: Final = 64 << 20
"""The maximum total output, in bytes."""
MAX_RATIO: Final = 100
"""The maximum number of output bytes per input byte."""
MIN_OUTPUT_LIMIT_BYTES: Final = 1 << 20
"""The number of output bytes allowed for any input, because a short body may well be a run of spaces."""
MEMBER_COST_BYTES: Final = 1 << 10
"""The number of output bytes counted for each member after the first, in addition to its own, because a new member
takes time, too.
"""
MAX_CODINGS: Final = 4
"""The maximum length of a chain of codings; a longer one could only waste time."""

_SLICE_BYTES: Final = 32 << 10
"""The number of bytes to read, and to produce, at once. zlib copies unused input once for each gzip member, and a
member may have 20 bytes, so with larger slices, copying would be the main cost.
"""
_WINDOW_LOG: Final = 23
"""The window of zstd: 8 MiB, the largest that RFC 9659 lets a sender require."""


class Undecodable(Exception):
    """The rest of the body cannot be decoded; earlier output is valid."""


class Corrupt(Undecodable):
    """The data is not in its declared coding, or it ends too early."""


class OutputLimitReached(Undecodable):
    """The output has reached a limit."""


class _Engine(Protocol):
    """Decodes one member, such as a gzip file or a zstd frame."""

    @property
    def is_done(self) -> bool:
        """Whether the member is complete, and all its output has been returned."""

    @property
    def unused_data(self) -> bytes:
        """The input after the end of the member."""

    def decode(self, data: bytes) -> bytes:
        """Returns about one slice of output at most, or no bytes when the input so far is used up."""


class _Coding(NamedTuple):
    """A coding, with the engine that decodes it."""

    new_engine: Callable[[], _Engine]
    errors: tuple[type[Exception], ...]
    """The exceptions that the engine raises for data that is not in this coding."""
    next_member_bytes: bytes = b""
    """The bytes that can begin another member. Data that begins with any other byte is skipped, as clients do."""


class _Stage:
    """Decodes one coding in the chain of a body."""

    def __init__(self, name: str, coding: _Coding) -> None:
        self._name = name
        self._coding = coding
        self._engine: _Engine | None = None
        """The engine of the current member."""
        self._members = 0
        self._is_over = False
        """Whether the last member was followed by anything other than a member."""

    @property
    def is_complete(self) -> bool:
        """Whether the data may end here; it may also be empty, because a response to HEAD has no content."""
        return self._engine is None

    @property
    def has_skipped(self) -> bool:
        """Whether there was anything other than a member after the last one."""
        return self._is_over

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields the decoded bytes in slices, with an empty one at the end of each member after the first.

        Raises:
            Corrupt: the bytes cannot be decoded.
        """
        try:
            while not self._is_over:
                if self._engine is None:
                    data = self._next_member(data)
                    if not data:
                        return
                    self._engine = self._coding.new_engine()
                output = self._engine.decode(data)
                data = b""
                if output:
                    yield output
                if self._engine.is_done:
                    data, self._engine = self._engine.unused_data, None
                    self._members += 1
                    if self._members > 1:
                        yield b""
                elif not output:
                    return
        except self._coding.errors as error:
            raise Corrupt(f"not {self._name}: {error}") from None

    def _next_member(self, data: bytes) -> bytes:
        """Returns the bytes from the start of the next member, without NUL padding; empty if no member has begun."""
        if self._members:
            data = data.lstrip(b"\0")
            self._is_over = data != b"" and data[0] not in self._coding.next_member_bytes
        return b"" if self._is_over else data


class Decoder:
    """Removes the content codings of one body.

    It returns output as soon as the necessary bytes have arrived, so the events of a stream are not delayed.
    """

    def __init__(self, stages: Sequence[_Stage], max_total: int = MAX_DECODED_BYTES) -> None:
        self._stages = stages
        self._output_sizes = [0] * len(stages)
        self._input_size = 0
        self._max_total = max_total
        self._failure: Undecodable | None = None

    @property
    def has_skipped(self) -> bool:
        """Whether bytes after the end of a coding were skipped, as clients do."""
        return any(stage.has_skipped for stage in self._stages)

    def feed(self, data: bytes) -> bytes:
        """Decode the bytes; returns the output.

        Raises:
            Undecodable: in this call and all later ones; the output of this call is lost.
        """
        self._raise_failure()
        output = BytesIO()  # `getvalue` returns the buffer without a copy
        for slice_output in self.decode_slices(data):
            output.write(slice_output)
        return output.getvalue()

    def decode_slices(self, data: bytes) -> Iterator[bytes]:
        """Yields the output in slices, decoded on demand; consume all of them before feeding more.

        Some slices are empty, so that no step takes much longer than decoding one slice.

        Raises:
            Undecodable: in this call and all later ones; the slices before it are valid.
        """
        self._raise_failure()
        if not self._stages:
            yield data
            return
        try:
            for start in range(0, len(data), _SLICE_BYTES):
                piece = data[start : start + _SLICE_BYTES]
                self._input_size += len(piece)
                yield from self._output_from(0, piece)
        except Undecodable as failure:
            self._fail(failure)
            raise

    def finish(self) -> bytes:
        """Checks that the body may end here; returns the remaining output, which is empty for all supported codings.

        Raises:
            Undecodable: the body must not end here, or decoding failed earlier.
        """
        self._raise_failure()
        for stage in self._stages:
            if not stage.is_complete:
                self._fail(Corrupt("the body ends within its coding"))
        self._raise_failure()
        return b""

    def _output_from(self, index: int, data: bytes) -> Iterator[bytes]:
        """Yields the output of the last stage for input to stage `index`."""
        if index == len(self._stages):
            yield data
            return
        for output in self._stages[index].feed(data):
            self._output_sizes[index] += len(output) or MEMBER_COST_BYTES
            if self._output_sizes[index] > min(
                self._max_total, max(MIN_OUTPUT_LIMIT_BYTES, self._input_size * MAX_RATIO)
            ):
                raise OutputLimitReached(f"{self._input_size:,} bytes expand to at least {self._output_sizes[index]:,}")
            if output:
                yield from self._output_from(index + 1, output)
            else:
                yield b""

    def _fail(self, failure: Undecodable) -> None:
        """Stop decoding for good, and release the stages, and the data that a traceback refers to."""
        self._failure = type(failure)(*failure.args)
        self._stages = ()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)


def new_decoder(codings: Sequence[bytes], max_total: int = MAX_DECODED_BYTES) -> Decoder | None:
    """Returns a decoder for a body, or None if a coding is unknown or the chain of codings is too long.

    Args:
        codings: the values of the `Content-Encoding` fields, in the order of the header list; each may be a list.
        max_total: the maximum total output, in bytes.
    """
    names = [name.strip(b" \t").lower() for name in b",".join(codings).split(b",")]
    stages: list[_Stage] = []
    for name in names:
        if name in {b"", b"identity"}:
            continue
        coding = _coding_by_name(name)
        if coding is None or len(stages) == MAX_CODINGS:
            return None
        stages.append(_Stage(name.decode("ascii"), coding))
    # Codings are listed in the order of encoding, so the last one is decoded first.
    return Decoder(stages[::-1], max_total)


# ---- the codings


def _coding_by_name(name: bytes) -> _Coding | None:
    """Returns a coding by its name in lower case, or None if it cannot be decoded here."""
    match name:
        case b"gzip" | b"x-gzip":
            return _GZIP
        case b"deflate":
            return _DEFLATE
        case b"br":
            return _brotli_coding()
        case b"zstd":
            return _zstd_coding()
    return None


class _ZlibEngine:
    """Decodes a member of gzip, or deflate."""

    def __init__(self, wbits: int | None) -> None:
        """Begin a member.

        Args:
            wbits: the window bits as `zlib` expects them; None for `deflate`, for which they depend on the data.
        """
        self._inflate: Any = None if wbits is None else zlib.decompressobj(wbits)
        self._unused = b""

    @property
    def is_done(self) -> bool:
        return self._inflate is not None and self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return bytes(self._inflate.unused_data)

    def decode(self, data: bytes) -> bytes:
        data = self._unused + data
        if self._inflate is None:
            if len(data) < 2:
                self._unused = data
                return b""
            self._inflate = zlib.decompressobj(_deflate_wbits(data))
        output = self._inflate.decompress(data, _SLICE_BYTES)
        self._unused = self._inflate.unconsumed_tail
        return bytes(output)


def _deflate_wbits(data: bytes) -> int:
    """Returns the window bits for data with a zlib header, as RFC 9110 requires, or without one.

    Many senders omit the header, and all readers accept that.
    """
    has_header = data[0] & 0x0F == zlib.DEFLATED and data[0] >> 4 <= 7 and (data[0] << 8 | data[1]) % 31 == 0
    return zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS


class _BrotliEngine:
    """Decodes a stream of br."""

    unused_data = b""

    def __init__(self, library: Any) -> None:
        self._brotli = library.Decompressor()

    @property
    def is_done(self) -> bool:
        return bool(self._brotli.is_finished())

    def decode(self, data: bytes) -> bytes:
        return bytes(self._brotli.process(data, output_buffer_limit=_SLICE_BYTES))


class _ZstdEngine:
    """Decodes a frame of zstd, with the standard library's module or its backport."""

    def __init__(self, library: Any) -> None:
        self._zstd = library.ZstdDecompressor(options={library.DecompressionParameter.window_log_max: _WINDOW_LOG})

    @property
    def is_done(self) -> bool:
        return bool(self._zstd.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._zstd.unused_data)

    def decode(self, data: bytes) -> bytes:
        return bytes(self._zstd.decompress(data, _SLICE_BYTES))


_GZIP: Final = _Coding(partial(_ZlibEngine, zlib.MAX_WBITS | 16), (zlib.error,), next_member_bytes=b"\x1f")
_DEFLATE: Final = _Coding(partial(_ZlibEngine, None), (zlib.error,))
_ZSTD_FIRST_BYTES: Final = bytes([0x28, *range(0x50, 0x60)])
"""The first bytes of a frame, and of the sixteen kinds of skippable frames."""


@cache
def _brotli_coding() -> _Coding | None:
    library = _import_library("brotli")
    return None if library is None else _Coding(partial(_BrotliEngine, library), (library.error,))


@cache
def _zstd_coding() -> _Coding | None:
    library = _import_library("compression.zstd") or _import_library("backports.zstd")
    return None if library is None else _Coding(partial(_ZstdEngine, library), (library.ZstdError,), _ZSTD_FIRST_BYTES)


def _import_library(name: str) -> Any:
    """Returns a library, or None if it cannot be imported: a broken one affects only the bodies that need it."""
    try:
        return import_module(name)
    except ImportError:
        return None
