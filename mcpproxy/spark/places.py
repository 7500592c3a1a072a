"""Where captures are, for Spark: finds them in a folder or an object store, and brings one to a worker.

The driver plans: it lists the files, and reads the first record of each capture, so it knows ids, days and names before
any task starts. Copies count once, as in `query`: of files with the same id and the same bytes one is kept; of captures
with the same id and different bytes, the largest keeps the id, and each of the others gets a new one.
"""

import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from analysis.store.cache import private_folder, sweep
from analysis.store.open import CaptureState, deduplicate
from analysis.store.values import text, wall
from captures.errors import CaptureError, NotACapture
from captures.identity import capture_id, place_id
from captures.listing import find_captures
from captures.paths import SUFFIX, segment_of, segment_path
from captures.reader import Capture
from mcpproxy.shipping.opening import SCHEMES

if TYPE_CHECKING:
    from mcpproxy.shipping.bucket import Bucket

_HEADS: Final = (1 << 16, 1 << 20)
"""How many bytes at the start of an object are searched for its first record, before all of it is fetched."""
_AT_ONCE: Final = 16
"""How many headers are requested at a time."""
_PRIVATE: Final = "mcpproxy-spark-"
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - days are UTC, without a zone


class StorageUnreachable(Exception):
    """The location is unreachable; Spark should retry the task, then fail it."""


@dataclass(frozen=True, slots=True)
class RemoteCapture:
    """One capture, or what looked like one."""

    shown: str
    """The path or URL of its first segment that exists."""
    files: tuple[tuple[int, str], ...]
    """The number and the path or URL of each segment; for a local capture, only the given one, as more may appear."""
    id: str | None = None
    """The value of the column `capture`; None if it cannot be read."""
    day: date | None = None
    server: str | None = None
    refused: str | None = None
    """Why it cannot be read."""
    size: int = 0
    """Bytes of all segments; 0 if it cannot be read."""


class _Object(NamedTuple):
    name: str
    size: int
    tag: str | None


@dataclass(frozen=True, slots=True)
class _Head:
    """A capture in a store, as described by its header."""

    url: str
    segments: tuple[tuple[int, _Object], ...]
    header: Capture | None
    refused: str | None = None

    @property
    def size(self) -> int:
        return sum(one.size for _, one in self.segments)


def is_url(path: str) -> bool:
    """Whether a path leads to an object store."""
    return path.partition("://")[0] in SCHEMES


def plan(path: str) -> list[RemoteCapture]:
    """All captures at a place, without copies, in an order that depends on names alone.

    Args:
        path: a capture, a folder with captures below it, or `s3://BUCKET/PREFIX`, `gs://…` or `az://…`.

    Raises:
        NotACapture: there is no capture, or the URL has an unknown scheme.
        CannotShip: the object store cannot be read.
    """
    scheme, is_named, _ = path.partition("://")
    if is_named and scheme not in (*SCHEMES, "file"):
        raise NotACapture(f"cannot read {path}: captures are in folders, s3://, gs:// and az://, not in {scheme}://")
    places = _remote(path) if is_url(path) else _local(Path(path.removeprefix("file://")))
    if not places:
        raise NotACapture(f"no captures in {path}")
    return sorted(places, key=lambda place: place.shown)


def described(capture: Capture) -> dict[str, Any]:
    """The day and the name of a capture, by its header."""
    header = capture.header.members
    wall_ns = wall(header.get("wall_ns"))
    day = None if wall_ns is None else (_EPOCH + timedelta(microseconds=wall_ns // 1000)).date()
    return {"day": day, "server": text(header.get("name"))}


@contextmanager
def task_folder() -> Iterator[Path]:
    """A private folder for one task, deleted afterwards; folders left by killed tasks are deleted first."""
    root = Path(tempfile.gettempdir())
    sweep(root, _PRIVATE)
    with private_folder(root, _PRIVATE) as folder:
        yield folder


@contextmanager
def fetched(place: RemoteCapture, folder: Path) -> Iterator[Path]:
    """The first file of a capture; a copy from an object store is deleted afterwards.

    Args:
        place: the capture.
        folder: where copies go.

    Raises:
        StorageUnreachable: this machine cannot read the file, though the driver could.
        CannotShip: the object store cannot be read.
    """
    if not is_url(place.shown):
        path = Path(place.shown)
        try:
            with path.open("rb"):
                pass
        except OSError as error:
            raise StorageUnreachable(
                f"cannot read {path}: {error.strerror}; the driver could, so it was deleted in the meantime, or its "
                "folder is not there on all workers"
            ) from error
        yield path
        return
    with private_folder(folder, _PRIVATE) as own:
        first = own / f"capture{SUFFIX}"
        for number, url in place.files:
            bucket, name = _opened(url)
            if not bucket.fetch(name, Path(segment_path(first, number))):
                raise StorageUnreachable(f"cannot read {url}: it was deleted in the meantime")
        yield Path(segment_path(first, place.files[0][0]))


# ---- folders


def _local(root: Path) -> list[RemoteCapture]:
    if not root.exists():
        raise NotACapture(f"no captures in {root}: it does not exist")
    found = deduplicate(find_captures(root) if root.is_dir() else [root])
    places = [_place(state.source.path, state) for state in found.states]
    return places + [_place(path, None, str(error)) for path, error in found.refused]


def _place(path: Path, state: CaptureState | None, refused: str | None = None) -> RemoteCapture:
    shown = os.path.realpath(path)
    files = ((1, shown),)
    if state is None:
        return RemoteCapture(shown, files, refused=refused)
    return RemoteCapture(shown, files, state.source.id, **described(state.capture), size=state.size)


# ---- object stores


def _opened(url: str) -> "tuple[Bucket, str]":
    """The store of an object, and the object's name in it."""
    from mcpproxy.shipping.bucket import Bucket  # the extra is loaded for URLs only

    folder, _, name = url.rpartition("/")
    return Bucket(folder), name


def _remote(url: str) -> list[RemoteCapture]:
    from mcpproxy.shipping.bucket import Bucket

    url, stem = url.rstrip("/"), None
    if url.endswith(SUFFIX):
        url, _, name = url.rpartition("/")
        stem = (segment_of(name) or (None,))[0]
    bucket = Bucket(url)
    segments: dict[str, list[tuple[int, _Object]]] = {}
    for entry in bucket.entries(""):
        segment = segment_of(entry.name)
        if segment is not None and stem in (None, segment[0]):
            segments.setdefault(segment[0], []).append((segment[1], _Object(entry.name, entry.size, entry.tag)))
    with private_folder(Path(tempfile.gettempdir()), _PRIVATE) as folder, ThreadPoolExecutor(_AT_ONCE) as pool:
        numbered = enumerate(tuple(sorted(some)) for _, some in sorted(segments.items()))
        heads = list(pool.map(lambda item: _head(bucket, item[1], folder / f"{item[0]}{SUFFIX}"), numbered))
    return list(_settled(bucket, heads))


def _head(bucket: "Bucket", segments: tuple[tuple[int, _Object], ...], scratch: Path) -> _Head:
    """The capture as its header describes it; only its first bytes are fetched, unless they hold no record."""
    first = segments[0][1]
    url = f"{bucket.shown}/{first.name}"
    for count in (*(count for count in _HEADS if count < first.size), first.size):
        data = bucket.head(first.name, count) if count else b""
        if data is None:
            raise StorageUnreachable(f"cannot read {url}: it was deleted in the meantime")
        scratch.write_bytes(data)
        try:
            return _Head(url, segments, Capture(scratch))
        except CaptureError as error:
            refused = str(error).replace(str(scratch), url)
        finally:
            scratch.unlink()
    return _Head(url, segments, None, refused)


def _settled(bucket: "Bucket", heads: list[_Head]) -> Iterator[RemoteCapture]:
    """The captures that count, each with its id, by the rules of `analysis.store.open.deduplicate`."""
    known: dict[str, list[_Head]] = {}
    for head in heads:
        if head.header is None:
            yield RemoteCapture(head.url, _files(bucket, head), refused=head.refused)
            continue
        states = known.setdefault(_id(head), [])
        if not any(_is_copy(bucket, head, state) for state in states):
            states.append(head)
    taken = set(known)
    for id_, states in known.items():
        largest = max(states, key=lambda state: state.size)
        for state in states:
            own = id_ if state is largest else place_id(state.url, taken)
            taken.add(own)
            assert state.header is not None
            yield RemoteCapture(state.url, _files(bucket, state), own, **described(state.header), size=state.size)


def _files(bucket: "Bucket", head: _Head) -> tuple[tuple[int, str], ...]:
    return tuple((number, f"{bucket.shown}/{one.name}") for number, one in head.segments)


def _id(head: _Head) -> str:
    """The id in the header, or else one derived from the URL, because the path of a local copy differs each time."""
    assert head.header is not None
    own = head.header.header.members.get("capture")
    return own if isinstance(own, str) and capture_id(head.header) == own else place_id(head.url)


def _is_copy(bucket: "Bucket", head: _Head, other: _Head) -> bool:
    """Whether two captures have the same bytes; reads their objects only if sizes and tags do not decide it."""
    if [one.size for _, one in head.segments] != [one.size for _, one in other.segments]:
        return False
    pairs = zip(head.segments, other.segments, strict=True)
    return all(
        (one.tag is not None and one.tag == another.tag) or _digest(bucket, one) == _digest(bucket, another)
        for (_, one), (_, another) in pairs
    )


def _digest(bucket: "Bucket", one: _Object) -> bytes:
    with private_folder(Path(tempfile.gettempdir()), _PRIVATE) as folder:
        file = folder / "object"
        if not bucket.fetch(one.name, file):
            raise StorageUnreachable(f"cannot read {bucket.shown}/{one.name}: it was deleted in the meantime")
        with file.open("rb") as stream:
            return file_digest(stream, "sha256").digest()
