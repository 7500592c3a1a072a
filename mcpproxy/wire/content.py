"""Content codings: decodes the recorded copy of a body as it arrives, within limits; forwarded bytes are untouched.

Whoever sends the body decides what decoding costs: a megabyte of gzip can stand for a gigabyte, and be gzip again
inside. So output is made slice by slice and counted, that of each coding in a row for itself, and decoding ends where
it gets out of proportion. Time is linear in what is fed and what comes out.

`br` and `zstd` are decoded where a library for them is installed that can be made to stop after a slice.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from io import BytesIO
from typing import Any, Final, NamedTuple, Protocol

MAX_TOTAL: Final = 64 << 20
"""Bytes that may come out in all."""
MAX_RATIO: Final = 100
"""Bytes that may come out for one that went in."""
FLOOR: Final = 1 << 20
"""Bytes that may come out whatever went in: a short body may well be a row of spaces."""
MAX_CODINGS: Final = 4
"""In a row. More of them have no use but to cost."""

_SLICE: Final = 32 << 10
"""Bytes to take in, and to make, at once. zlib copies what it has not used, once for each member of gzip, and a member
may have 20 bytes: with larger slices that would be the main cost."""
_WINDOW_LOG: Final = 23
"""Of zstd: 8 MiB, the most that RFC 9659 lets a sender ask for."""
_STEP: Final = 16
"""Bytes for a decoder of zstd that knows no limit. A block of 128 KiB may have 4 bytes."""


class Undecodable(Exception):
    """The rest of the body stays encoded; what came out before is right."""


class Corrupt(Undecodable):
    """The data is not of the coding that it is said to be of, or it ends too early."""


class TooMuch(Undecodable):
    """A cap is reached."""


class _Engine(Protocol):
    """Decodes one member: one gzip file, one zstd frame."""

    @property
    def done(self) -> bool:
        """Whether the member is complete, and all of it has come out."""

    @property
    def rest(self) -> bytes:
        """What was fed after the end of the member."""

    def more(self, data: bytes) -> bytes:
        """At most about a slice of output; none where all has come out for what has been fed."""


class _Coding(NamedTuple):
    """How a coding is decoded."""

    engine: Callable[[], _Engine]
    errors: tuple[type[Exception], ...]
    """What the engine raises for data that is not of the coding."""
    again: bytes = b""
    """The bytes of which one begins another member. What begins otherwise is no data: clients pass over it as well."""


class _Stage:
    """One coding of those that the body has in a row."""

    def __init__(self, name: str, coding: _Coding) -> None:
        self._name = name
        self._coding = coding
        self._engine: _Engine | None = None
        """Of the member under way."""
        self._members = 0
        self._over = False
        """Whether something came that is no member."""

    @property
    def complete(self) -> bool:
        """Whether the data may end here; no data at all is fine, as the answer to HEAD has none."""
        return self._engine is None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What the bytes stand for, in slices.

        Raises:
            Corrupt: they stand for nothing.
        """
        try:
            while not self._over:
                if self._engine is None:
                    data = self._next_member(data)
                    if not data:
                        return
                    self._engine = self._coding.engine()
                decoded = self._engine.more(data)
                data = b""
                if decoded:
                    yield decoded
                if self._engine.done:
                    data, self._engine = self._engine.rest, None
                    self._members += 1
                elif not decoded:
                    return
        except self._coding.errors as error:
            raise Corrupt(f"not {self._name}: {error}") from None

    def _next_member(self, data: bytes) -> bytes:
        """The bytes where a member begins; empty where none does so far. NUL bytes between members are padding."""
        if self._members:
            data = data.lstrip(b"\0")
            self._over = data != b"" and data[0] not in self._coding.again
        return b"" if self._over else data


class Decoder:
    """Takes the codings off one body.

    What it gives, it gives as soon as the bytes for it have come, so an event stream can be followed through it.
    """

    def __init__(self, stages: Sequence[_Stage], max_total: int = MAX_TOTAL) -> None:
        self._stages = stages
        self._made = [0] * len(stages)
        self._taken = 0
        self._max_total = max_total
        self._failure: Undecodable | None = None

    def feed(self, data: bytes) -> bytes:
        """What the bytes stand for.

        Raises:
            Undecodable: in this call and in all that come after it; what this one had made is lost.
        """
        self._check()
        made = BytesIO()  # it hands out its buffer without a copy
        for decoded in self.slices(data):
            made.write(decoded)
        return made.getvalue()

    def slices(self, data: bytes) -> Iterator[bytes]:
        """The same in slices, decoded on demand; take them all before feeding more.

        Raises:
            Undecodable: as above; the slices before it are valid.
        """
        self._check()
        if not self._stages:
            yield data
            return
        try:
            for at in range(0, len(data), _SLICE):
                piece = data[at : at + _SLICE]
                self._taken += len(piece)
                yield from self._through(0, piece)
        except Undecodable as failure:
            self._fail(failure)
            raise

    def end(self) -> bytes:
        """What had still to come out, which is nothing with these codings, after a look whether the body may end here.

        Raises:
            Undecodable: it may not, or had failed before.
        """
        self._check()
        for stage in self._stages:
            if not stage.complete:
                self._fail(Corrupt("the body ends within its coding"))
        self._check()
        return b""

    def _through(self, index: int, data: bytes) -> Iterator[bytes]:
        """The output of the last stage for input of one of them."""
        if index == len(self._stages):
            yield data
            return
        for decoded in self._stages[index].feed(data):
            self._made[index] += len(decoded)
            if self._made[index] > min(self._max_total, max(FLOOR, self._taken * MAX_RATIO)):
                raise TooMuch(f"{self._taken:,} bytes stand for {self._made[index]:,}, if not more")
            yield from self._through(index + 1, decoded)

    def _fail(self, failure: Undecodable) -> None:
        """End for good, and keep neither the stages nor, in a traceback, the data."""
        self._failure = type(failure)(*failure.args)
        self._stages = ()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)


def decoder(codings: Sequence[bytes], max_total: int = MAX_TOTAL) -> Decoder | None:
    """A decoder for a body; None where it has to stay encoded, as a coding is unknown here or there are too many.

    Args:
        codings: the values of the `Content-Encoding` fields, in the order of the header list; each may be a list.
        max_total: bytes that may come out in all.
    """
    names = [name.strip(b" \t").lower() for name in b",".join(codings).split(b",")]
    stages: list[_Stage] = []
    for name in names:
        if name in {b"", b"identity"}:
            continue
        coding = _coding(name)
        if coding is None or len(stages) == MAX_CODINGS:
            return None
        stages.append(_Stage(name.decode("ascii"), coding))
    # They are listed as they were put on, so the last one comes off first.
    return Decoder(stages[::-1], max_total)


# ---- the codings


def _coding(name: bytes) -> _Coding | None:
    """A coding by its name in lower case; None where it cannot be decoded here."""
    match name:
        case b"gzip" | b"x-gzip":
            return _GZIP
        case b"deflate":
            return _DEFLATE
        case b"br":
            return _br()
        case b"zstd":
            return _zstd()
    return None


class _Zlib:
    """A member of gzip, or deflate."""

    def __init__(self, wbits: int | None) -> None:
        """Begin a member.

        Args:
            wbits: as `zlib` wants it; None for `deflate`, where the data tells.
        """
        self._inflate: Any = None if wbits is None else zlib.decompressobj(wbits)
        self._unused = b""

    @property
    def done(self) -> bool:
        return self._inflate is not None and self._inflate.eof

    @property
    def rest(self) -> bytes:
        return bytes(self._inflate.unused_data)

    def more(self, data: bytes) -> bytes:
        data = self._unused + data
        if self._inflate is None:
            if len(data) < 2:
                self._unused = data
                return b""
            self._inflate = zlib.decompressobj(_deflate_wbits(data))
        decoded = self._inflate.decompress(data, _SLICE)
        self._unused = self._inflate.unconsumed_tail
        return bytes(decoded)


def _deflate_wbits(data: bytes) -> int:
    """With a zlib header, as RFC 9110 has it, or without, as it is sent by many and taken by all."""
    has_header = data[0] & 0x0F == zlib.DEFLATED and data[0] >> 4 <= 7 and (data[0] << 8 | data[1]) % 31 == 0
    return zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS


class _Brotli:
    """A stream of br."""

    rest = b""

    def __init__(self, library: Any) -> None:
        self._brotli = library.Decompressor()

    @property
    def done(self) -> bool:
        return bool(self._brotli.is_finished())

    def more(self, data: bytes) -> bytes:
        return bytes(self._brotli.process(data, output_buffer_limit=_SLICE))


class _Zstd:
    """A frame of zstd, by the standard library's module or its backport."""

    def __init__(self, library: Any) -> None:
        self._zstd = library.ZstdDecompressor(options={library.DecompressionParameter.window_log_max: _WINDOW_LOG})

    @property
    def done(self) -> bool:
        return bool(self._zstd.eof)

    @property
    def rest(self) -> bytes:
        return bytes(self._zstd.unused_data)

    def more(self, data: bytes) -> bytes:
        return bytes(self._zstd.decompress(data, _SLICE))


class _SteppedZstd:
    """A frame of zstd, by a module that gives all that it can: it is fed a few bytes at a time."""

    def __init__(self, library: Any) -> None:
        # One for each frame: what it makes shares its state.
        self._zstd = library.ZstdDecompressor(max_window_size=1 << _WINDOW_LOG).decompressobj()
        self._waiting = b""

    @property
    def done(self) -> bool:
        return bool(self._zstd.eof)

    @property
    def rest(self) -> bytes:
        return bytes(self._zstd.unused_data) + self._waiting

    def more(self, data: bytes) -> bytes:
        data, at, made = self._waiting + data, 0, bytearray()
        while at < len(data) and len(made) < _SLICE and not self._zstd.eof:
            made += self._zstd.decompress(data[at : at + _STEP])
            at += _STEP
        self._waiting = data[at:]
        return bytes(made)


_GZIP: Final = _Coding(partial(_Zlib, zlib.MAX_WBITS | 16), (zlib.error,), again=b"\x1f")
_DEFLATE: Final = _Coding(partial(_Zlib, None), (zlib.error,))
_ZSTD_AGAIN: Final = bytes([0x28, *range(0x50, 0x60)])
"""A frame, and the sixteen kinds of skippable ones."""


# A search for what is not there goes through all of `sys.path`; once is enough.
@cache
def _br() -> _Coding | None:
    for library in _installed("brotli", "brotlicffi"):
        try:
            library.Decompressor().process(b"", output_buffer_limit=_SLICE)
        except (AttributeError, TypeError):  # an old one, that knows no limit
            continue
        return _Coding(partial(_Brotli, library), (library.error,))
    return None


@cache
def _zstd() -> _Coding | None:
    for library in _installed("compression.zstd", "backports.zstd"):
        return _Coding(partial(_Zstd, library), (library.ZstdError,), _ZSTD_AGAIN)
    for library in _installed("zstandard"):
        return _Coding(partial(_SteppedZstd, library), (library.ZstdError,), _ZSTD_AGAIN)
    return None


def _installed(*names: str) -> Iterator[Any]:
    """Those of the libraries that can be imported."""
    for name in names:
        try:
            library = import_module(name)
        except ImportError:
            continue
        yield library
