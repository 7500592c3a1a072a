"""Content codings: bodies are decoded exactly, however they are cut; broken or disproportionate ones are reported."""

import gzip
import os
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import Any

import brotli
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpproxy.wire import content
from mcpproxy.wire.content import (
    MAX_CODINGS,
    MAX_DECODED_BYTES,
    MAX_RATIO,
    MEMBER_COST_BYTES,
    MIN_OUTPUT_LIMIT_BYTES,
    Corrupt,
    Decoder,
    OutputLimitReached,
    Undecodable,
    new_decoder,
)
from tests.mcpproxy.wire.growth import check_linear

MIB = 1 << 20
PATIENCE_S = 20
"""Many times what linear work takes, and a fraction of what quadratic work takes."""


def raw_deflate(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(data) + deflate.flush()


def zstd(data: bytes) -> bytes:
    """Returns a frame; the module is the standard library's, or its backport."""
    library: Any = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    return bytes(library.compress(data))


BUILT_IN: dict[str, tuple[bytes, Callable[[bytes], bytes]]] = {
    "gzip": (b"gzip", partial(gzip.compress, mtime=0)),
    "x-gzip": (b"x-gzip", partial(gzip.compress, mtime=0)),
    "deflate": (b"deflate", zlib.compress),
    "raw deflate": (b"deflate", raw_deflate),
}
CODINGS = BUILT_IN | {
    "br": (b"br", brotli.compress),
    "zstd": (b"zstd", zstd),
}
every_coding = pytest.mark.parametrize(("name", "pack"), CODINGS.values(), ids=CODINGS)

cuts = st.lists(st.integers(0, 5000), max_size=20)
bodies = st.binary(max_size=300) | st.text("ab{}:,", max_size=2000).map(str.encode)


def cut(data: bytes, at: Iterable[int]) -> list[bytes]:
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in at)})
    return [data[start:stop] for start, stop in pairwise(places)]


def made(*codings: bytes, max_total: int = MAX_DECODED_BYTES) -> Decoder:
    """Returns the decoder for some codings, which must exist."""
    found = new_decoder(codings, max_total)
    assert found is not None
    return found


def decoded(chunks: Iterable[bytes], *codings: bytes) -> bytes:
    """Returns a whole decoded body."""
    body = made(*codings)
    return b"".join([*map(body.feed, chunks), body.finish()])


@contextmanager
def cheap(memory: int, seconds: float = PATIENCE_S) -> Iterator[None]:
    """Check that the block uses no more memory and processor time than this."""
    begun = time.process_time()
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < memory
    assert time.process_time() - begun < seconds


# ---- decoding restores the body


@given(bodies, st.lists(st.sampled_from(sorted(BUILT_IN)), max_size=MAX_CODINGS), cuts)
@example(b"", ["gzip"], [])
@example(b"a", ["deflate", "gzip", "raw deflate", "x-gzip"], [1, 2, 3])
def test_any_cutting_of_any_codings_in_a_row_gives_the_body(body: bytes, names: list[str], at: list[int]) -> None:
    sent = body
    for name in names:
        sent = BUILT_IN[name][1](sent)
    codings = [BUILT_IN[name][0] for name in names]
    assert decoded(cut(sent, at), *codings) == body
    assert decoded(cut(sent, at), b", ".join(codings)) == body
    assert decoded([sent[i : i + 1] for i in range(len(sent))], *codings) == body


@every_coding
def test_a_large_body(name: bytes, pack: Callable[[bytes], bytes]) -> None:
    body = b"".join(os.urandom(4000) + bytes(8000) for _ in range(40))
    sent = pack(body)
    assert decoded([sent], name) == body
    assert decoded(cut(sent, range(0, len(sent), 1000)), name) == body


@every_coding
def test_output_that_just_fills_slices_comes_at_once(name: bytes, pack: Callable[[bytes], bytes]) -> None:
    for size in (32767, 32768, 32769, 65536, 4 * 32768):
        sent = pack(bytes(size))
        body = made(name)
        assert body.feed(sent) == bytes(size)
        assert body.finish() == b""


@pytest.mark.parametrize("wbits", [31, 15, -15])
def test_an_event_stream_comes_out_as_it_comes_in(wbits: int) -> None:
    deflate, body = zlib.compressobj(wbits=wbits), made(b"gzip" if wbits == 31 else b"deflate")
    for number in range(50):
        event = f"data: {number}\n\n".encode()
        assert body.feed(deflate.compress(event) + deflate.flush(zlib.Z_SYNC_FLUSH)) == event
    assert body.feed(deflate.flush()) == b""
    assert body.finish() == b""


def test_raw_deflate_that_begins_like_a_zlib_header_is_told_by_its_check() -> None:
    # A stored block with a bit set in its padding: the low half of the first byte is the same as in a zlib header.
    raw = b"\x08\x04\x00\xfb\xffbody" + raw_deflate(b"")
    assert zlib.decompress(raw, -15) == b"body"
    assert decoded([raw], b"deflate") == decoded([raw[:1], raw[1:]], b"deflate") == b"body"


@pytest.mark.parametrize("value", [b"GZip", b" gzip\t", b"gzip,", b", gzip", b"identity, gzip", b"gzip,identity"])
def test_the_field_is_read_as_http_has_it(value: bytes) -> None:
    assert decoded([gzip.compress(b"body")], value) == b"body"


@pytest.mark.parametrize("codings", [[], [b""], [b"identity"], [b"Identity, identity"]])
def test_without_a_coding_the_body_stays_as_it_is_and_nothing_is_capped(codings: list[bytes]) -> None:
    body = made(*codings, max_total=10)
    assert body.feed(b"x" * 100) == b"x" * 100
    assert body.finish() == b""


@pytest.mark.parametrize("coding", [b"compress", b"gzip;q=1", b"gzip deflate", b"\xff", b"gzip, rot13", b"aes128gcm"])
def test_an_unknown_coding_leaves_the_body_encoded(coding: bytes) -> None:
    assert new_decoder([coding]) is None


def test_more_codings_than_make_sense_leave_the_body_encoded() -> None:
    assert new_decoder([b"gzip"] * MAX_CODINGS) is not None
    assert new_decoder([b"gzip"] * (MAX_CODINGS + 1)) is None
    assert new_decoder([b"gzip, identity"] * MAX_CODINGS) is not None


def test_a_library_that_is_missing_leaves_the_body_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "_import_library", lambda _name: None)
    content._brotli_coding.cache_clear()
    content._zstd_coding.cache_clear()
    try:
        assert new_decoder([b"br"]) is None
        assert new_decoder([b"zstd"]) is None
    finally:
        content._brotli_coding.cache_clear()
        content._zstd_coding.cache_clear()


# ---- members


@given(st.lists(bodies, min_size=1, max_size=4), st.integers(0, 3), cuts)
def test_members_of_gzip_follow_each_other_with_padding_or_without(parts: list[bytes], pad: int, at: list[int]) -> None:
    sent = bytes(pad).join(map(gzip.compress, parts)) + bytes(pad)
    assert decoded(cut(sent, at), b"gzip") == b"".join(parts)


def test_frames_of_zstd_follow_each_other() -> None:
    pack = CODINGS["zstd"][1]
    skippable = b"\x50\x2a\x4d\x18\x03\0\0\0xyz"
    sent = pack(b"a") + skippable + pack(b"b" * 100_000) + pack(b"c")
    assert decoded([sent], b"zstd") == decoded([sent[i : i + 1] for i in range(len(sent))], b"zstd")
    assert decoded([sent], b"zstd") == b"a" + b"b" * 100_000 + b"c"


@pytest.mark.parametrize("junk", [b"junk", b"\0\0junk", b"\r\n", b"junk" + gzip.compress(b"more", mtime=0)])
@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw deflate"])
def test_what_stands_behind_the_end_and_is_no_member_is_passed_over(coding: str, junk: bytes) -> None:
    name, pack = BUILT_IN[coding]
    sent = pack(b"body") + junk
    assert decoded([sent], name) == decoded([sent[i : i + 1] for i in range(len(sent))], name) == b"body"


def test_what_begins_like_a_member_has_to_be_one() -> None:
    body = made(b"gzip")
    assert body.feed(gzip.compress(b"body")) == b"body"
    with pytest.raises(Corrupt, match=r"not gzip: .*incorrect header"):
        body.feed(b"\x1fx")


# ---- what is broken


@every_coding
def test_a_body_that_ends_too_early_is_corrupt_and_has_given_what_it_could(
    name: bytes, pack: Callable[[bytes], bytes]
) -> None:
    sent = pack(b"body" * 10)
    for stop in range(1, len(sent)):
        body = made(name)
        assert (b"body" * 10).startswith(body.feed(sent[:stop]))
        with pytest.raises(Corrupt, match="ends within"):
            body.finish()
        with pytest.raises(Corrupt, match="ends within"):
            body.feed(sent[stop:])


@every_coding
def test_a_body_of_no_bytes_is_fine(name: bytes, pack: Callable[[bytes], bytes]) -> None:
    pack(b"")
    assert decoded([], name) == decoded([b""], name) == b""


@pytest.mark.parametrize("at", [0, 1, 2, 10, -8, -1])
def test_a_flipped_bit_where_gzip_would_see_it_is_corrupt(at: int) -> None:
    sent = bytearray(gzip.compress(b"body" * 100))
    sent[at] ^= 0x40
    body = made(b"gzip")
    with pytest.raises(Corrupt, match="not gzip"):
        body.feed(bytes(sent))


def test_after_a_failure_each_call_fails_and_the_error_does_not_grow() -> None:
    body = made(b"gzip")
    with pytest.raises(Corrupt):
        body.feed(b"junk")
    for _ in range(5):
        with pytest.raises(Corrupt) as fed:
            body.feed(gzip.compress(b""))
        with pytest.raises(Corrupt) as ended:
            body.finish()
        assert len(fed.traceback) == len(ended.traceback) == 3


@given(st.binary(max_size=200), st.sampled_from([b"gzip", b"deflate", b"br", b"zstd", b"gzip, deflate"]), cuts)
@example(b"x", b"deflate", [])
@example(b"\x78\x9c", b"deflate", [1])
def test_nothing_but_undecodable_is_raised(data: bytes, codings: bytes, at: list[int]) -> None:
    body = new_decoder([codings])
    if body is None:
        return
    try:
        for chunk in cut(data, at):
            body.feed(chunk)
        body.finish()
    except Undecodable:
        pass


@given(st.integers(0, 400), st.integers(0, 7), st.sampled_from(sorted(BUILT_IN)))
def test_damage_anywhere_raises_nothing_else(at: int, bit: int, coding: str) -> None:
    name, pack = BUILT_IN[coding]
    sent = bytearray(pack(b'{"jsonrpc":"2.0"}' * 30))
    sent[at % len(sent)] ^= 1 << bit
    body = made(name)
    try:
        body.feed(bytes(sent))
        body.finish()
    except Corrupt:
        pass


# ---- caps and bombs


def repeated(unit: bytes, times: int) -> bytes:
    """Returns the unit repeated and gzipped, but compresses it only once: after a full flush, blocks can be copied."""
    deflate = zlib.compressobj(9, wbits=31)
    head = deflate.compress(unit) + deflate.flush(zlib.Z_FULL_FLUSH)
    return head + (deflate.compress(unit) + deflate.flush(zlib.Z_FULL_FLUSH)) * (times - 1)


def feed_all(body: Decoder, chunks: Iterable[bytes]) -> int:
    """Returns how many bytes were decoded before the limit, which must be reached."""
    came = 0
    try:
        for chunk in chunks:
            came += len(body.feed(chunk))
    except OutputLimitReached:
        return came
    pytest.fail("no cap was reached")


def test_a_gigabyte_of_zeros_is_given_up_early() -> None:
    bomb = repeated(bytes(MIB), 1024)
    assert len(bomb) < 1.1 * MIB
    for chunks in ([bomb], cut(bomb, range(0, len(bomb), 4096))):
        body = made(b"gzip")
        with cheap(4 * MIB):
            assert feed_all(body, chunks) <= MIN_OUTPUT_LIMIT_BYTES
        with pytest.raises(OutputLimitReached):
            body.feed(b"")


@pytest.mark.parametrize("depth", [2, 3])
def test_a_bomb_in_bombs_is_given_up_early(depth: int) -> None:
    bomb = repeated(bytes(MIB), 1024)
    for _ in range(depth - 1):
        bomb = gzip.compress(bomb)
    body = made(*[b"gzip"] * depth)
    with cheap(4 * MIB), pytest.raises(OutputLimitReached):
        body.feed(bomb)


def test_what_lies_between_two_codings_is_capped_as_well() -> None:
    inside = gzip.compress(b"", mtime=0) * 100_000
    body = made(b"gzip, gzip")
    with cheap(4 * MIB), pytest.raises(OutputLimitReached):
        body.feed(gzip.compress(inside))


@pytest.mark.parametrize("empty", [zstd(b""), b"\x50\x2a\x4d\x18\0\0\0\0"], ids=["frames", "skippable frames"])
def test_empty_members_count_and_end_a_step_each(empty: bytes) -> None:
    """A hundred bytes once blocked the event loop for seconds."""
    steps = list[bytes]()
    with pytest.raises(OutputLimitReached):
        steps.extend(made(b"zstd, zstd").decode_slices(zstd(empty * (MIB >> 3))))
    assert steps == [b""] * (MIN_OUTPUT_LIMIT_BYTES // MEMBER_COST_BYTES)
    several = made(b"zstd")
    assert [bool(slice_) for slice_ in several.decode_slices(zstd(b"a") + empty + zstd(b"b"))] == [
        True,
        False,
        True,
        False,
    ]


@every_coding
def test_every_coding_is_stopped_within_a_slice(name: bytes, pack: Callable[[bytes], bytes]) -> None:
    bomb = pack(bytes(24 * MIB))
    body = made(name)
    with cheap(6 * MIB), pytest.raises(OutputLimitReached):
        body.feed(bomb)


def test_the_floor_is_free_and_beyond_it_the_ratio_counts() -> None:
    def taken(size: int) -> bytes:
        body = made(b"gzip")
        return body.feed(gzip.compress(bytes(size)))

    assert taken(MIN_OUTPUT_LIMIT_BYTES) == bytes(MIN_OUTPUT_LIMIT_BYTES)
    with pytest.raises(OutputLimitReached):
        taken(MIN_OUTPUT_LIMIT_BYTES + 1)


def test_nearly_a_hundredfold_is_fine_and_more_is_not() -> None:
    for zeros, fine in ((112_000, True), (150_000, False)):
        block = os.urandom(1000) + bytes(zeros)
        sent = repeated(block, 100)
        assert 0.85 < len(block) * 100 / len(sent) / MAX_RATIO < 1.2
        assert (len(block) * 100 < len(sent) * MAX_RATIO) == fine
        if fine:
            assert made(b"gzip").feed(sent) == block * 100
        else:
            assert feed_all(made(b"gzip"), cut(sent, range(0, len(sent), 5000))) < len(block) * 100


def test_the_total_is_capped_and_costs_no_more_than_itself() -> None:
    block = os.urandom(MIB // 16) + bytes(MIB - MIB // 16)
    sent = repeated(block, 64)
    body = made(b"gzip")
    with cheap(MAX_DECODED_BYTES + MAX_DECODED_BYTES // 4):
        assert len(body.feed(sent)) == MAX_DECODED_BYTES
    with pytest.raises(OutputLimitReached):
        body.feed(repeated(block, 65)[len(sent) :])


@given(st.integers(1, 3000), st.integers(1, 3000), cuts)
def test_the_total_is_exact(size: int, most: int, at: list[int]) -> None:
    body, came = made(b"gzip", max_total=most), b""
    try:
        for chunk in cut(gzip.compress(bytes(size)), at):
            came += body.feed(chunk)
    except OutputLimitReached:
        assert size > most
    else:
        assert size <= most
    assert bytes(size).startswith(came)
    assert len(came) <= most


def test_many_members_in_one_chunk_take_linear_time() -> None:
    def feed(count: int) -> None:
        assert made(b"gzip").feed(gzip.compress(b"", mtime=0) * count) == b""

    check_linear(feed, 3_000)


def test_single_bytes_take_linear_time() -> None:
    def feed(size: int) -> None:
        sent, body = gzip.compress(os.urandom(size)), made(b"gzip")
        assert sum(len(body.feed(sent[i : i + 1])) for i in range(len(sent))) == size

    check_linear(feed, 5_000)
