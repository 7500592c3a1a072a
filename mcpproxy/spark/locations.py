"""Locations of captures, for Spark: finds captures in a folder or an object store, and copies one to a worker.

The driver plans: it lists the files, and reads the first record of each capture, so it knows ids, days and names before
any task starts. Copies count once, as in `query`: of captures with the same id and the same bytes, one is kept; of
captures with the same id and different bytes, the largest keeps the id, and each of the others gets a new one.
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

from analysis.store.cache import private_folder, remove_abandoned_folders
from analysis.store.open import CaptureState, deduplicate
from analysis.store.values import text, wall
from captures.errors import CaptureError, NotACapture
from captures.identity import capture_id, id_of_location
from captures.listing import find_captures
from captures.paths import SUFFIX, segment_of, segment_path
from captures.reader import Capture
from mcpproxy.shipping.opening import SCHEMES

if TYPE_CHECKING:
    from mcpproxy.shipping.bucket import Bucket

_HEAD_SIZES: Final = (1 << 16, 1 << 20)
"""The numbers of bytes at the start of an object that are searched for its first record before all of it is fetched."""
_MAX_HEAD_REQUESTS: Final = 16
"""The maximum number of headers that are requested at the same time."""
_PRIVATE_PREFIX: Final = "mcpproxy-spark-"
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - days are UTC, without a zone


class StorageUnreachable(Exception):
    """The location is unreachable; Spark should retry the task, then fail it."""


@dataclass(frozen=True, slots=True)
class RemoteCapture:
    """A capture, or files that only look like one."""

    location: str
    """The path or URL of its first segment that exists."""
    files: tuple[tuple[int, str], ...]
    """The number and the path or URL of each segment; for a local capture, only the given one, as more may appear."""
    id: str | None = None
    """The value of the column `capture`; None if the capture cannot be read."""
    day: date | None = None
    server: str | None = None
    refusal: str | None = None
    """Why the capture cannot be read; None if it can."""
    size: int = 0
    """The size of all segments, in bytes; 0 if the capture cannot be read."""


class _Object(NamedTuple):
    name: str
    size: int
    tag: str | None


@dataclass(frozen=True, slots=True)
class _CaptureHead:
    """A capture in a store, as described by its header."""

    url: str
    segments: tuple[tuple[int, _Object], ...]
    header: Capture | None
    refusal: str | None = None

    @property
    def size(self) -> int:
        return sum(segment.size for _, segment in self.segments)


def is_url(path: str) -> bool:
    """Whether a path leads to an object store."""
    return path.partition("://")[0] in SCHEMES


def plan_captures(path: str) -> list[RemoteCapture]:
    """Returns all captures at a location, without copies, in an order that depends on names alone.

    Args:
        path: a capture, a folder with captures below it, or `s3://BUCKET/PREFIX`, `gs://…` or `az://…`.

    Raises:
        NotACapture: there is no capture, or the URL has an unknown scheme.
        CannotShip: the object store cannot be read.
    """
    scheme, has_scheme, _ = path.partition("://")
    if has_scheme and scheme not in (*SCHEMES, "file"):
        raise NotACapture(f"cannot read {path}: captures are in folders, s3://, gs:// and az://, not in {scheme}://")
    captures = _remote_captures(path) if is_url(path) else _local_captures(Path(path.removeprefix("file://")))
    if not captures:
        raise NotACapture(f"no captures in {path}")
    return sorted(captures, key=lambda capture: capture.location)


def header_columns(capture: Capture) -> dict[str, Any]:
    """The values of the columns `day` and `server`, from the header of a capture."""
    header = capture.header.members
    wall_ns = wall(header.get("wall_ns"))
    day = None if wall_ns is None else (_EPOCH + timedelta(microseconds=wall_ns // 1000)).date()
    return {"day": day, "server": text(header.get("name"))}


@contextmanager
def task_folder() -> Iterator[Path]:
    """Yields a private folder for one task, and deletes it afterwards; first deletes the folders of killed tasks."""
    root = Path(tempfile.gettempdir())
    remove_abandoned_folders(root, _PRIVATE_PREFIX)
    with private_folder(root, _PRIVATE_PREFIX) as folder:
        yield folder


@contextmanager
def local_copy(capture: RemoteCapture, folder: Path) -> Iterator[Path]:
    """Yields the first file of a capture; a copy from an object store is deleted afterwards.

    Args:
        capture: the capture.
        folder: where copies are created.

    Raises:
        StorageUnreachable: this machine cannot read the file, though the driver could.
        CannotShip: the object store cannot be read.
    """
    if not is_url(capture.location):
        path = Path(capture.location)
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
    with private_folder(folder, _PRIVATE_PREFIX) as capture_folder:
        first_file = capture_folder / f"capture{SUFFIX}"
        for number, url in capture.files:
            bucket, name = _bucket_of(url)
            if not bucket.fetch(name, Path(segment_path(first_file, number))):
                raise StorageUnreachable(f"cannot read {url}: it was deleted in the meantime")
        yield Path(segment_path(first_file, capture.files[0][0]))


# ---- folders


def _local_captures(root: Path) -> list[RemoteCapture]:
    if not root.exists():
        raise NotACapture(f"no captures in {root}: it does not exist")
    distinct = deduplicate(find_captures(root) if root.is_dir() else [root])
    captures = [_local_capture(state.source.path, state) for state in distinct.states]
    return captures + [_local_capture(path, None, str(error)) for path, error in distinct.refused]


def _local_capture(path: Path, state: CaptureState | None, refused: str | None = None) -> RemoteCapture:
    location = os.path.realpath(path)
    files = ((1, location),)
    if state is None:
        return RemoteCapture(location, files, refusal=refused)
    return RemoteCapture(location, files, state.source.id, **header_columns(state.capture), size=state.size)


# ---- object stores


def _bucket_of(url: str) -> "tuple[Bucket, str]":
    """The store of an object, and the object's name in it."""
    from mcpproxy.shipping.bucket import Bucket  # the extra is loaded for URLs only

    folder, _, name = url.rpartition("/")
    return Bucket(folder), name


def _remote_captures(url: str) -> list[RemoteCapture]:
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
    with (
        private_folder(Path(tempfile.gettempdir()), _PRIVATE_PREFIX) as folder,
        ThreadPoolExecutor(_MAX_HEAD_REQUESTS) as pool,
    ):
        numbered_segments = enumerate(
            tuple(sorted(capture_segments)) for _, capture_segments in sorted(segments.items())
        )
        heads = list(
            pool.map(lambda item: _read_head(bucket, item[1], folder / f"{item[0]}{SUFFIX}"), numbered_segments)
        )
    return list(_distinct_captures(bucket, heads))


def _read_head(bucket: "Bucket", segments: tuple[tuple[int, _Object], ...], scratch: Path) -> _CaptureHead:
    """The capture as its header describes it; only its first bytes are fetched, unless they contain no record."""
    first_object = segments[0][1]
    url = f"{bucket.display_name}/{first_object.name}"
    for count in (*(count for count in _HEAD_SIZES if count < first_object.size), first_object.size):
        data = bucket.read_start(first_object.name, count) if count else b""
        if data is None:
            raise StorageUnreachable(f"cannot read {url}: it was deleted in the meantime")
        scratch.write_bytes(data)
        try:
            return _CaptureHead(url, segments, Capture(scratch))
        except CaptureError as error:
            refusal = str(error).replace(str(scratch), url)
        finally:
            scratch.unlink()
    return _CaptureHead(url, segments, None, refusal)


def _distinct_captures(bucket: "Bucket", heads: list[_CaptureHead]) -> Iterator[RemoteCapture]:
    """Yields the captures that count, each with its id, by the rules of `analysis.store.open.deduplicate`."""
    heads_by_id: dict[str, list[_CaptureHead]] = {}
    for head in heads:
        if head.header is None:
            yield RemoteCapture(head.url, _files(bucket, head), refusal=head.refusal)
            continue
        distinct_heads = heads_by_id.setdefault(_id(head), [])
        if not any(_is_copy(bucket, head, other_head) for other_head in distinct_heads):
            distinct_heads.append(head)
    taken_ids = set(heads_by_id)
    for id_, distinct_heads in heads_by_id.items():
        largest = max(distinct_heads, key=lambda head: head.size)
        for other_head in distinct_heads:
            own_id = id_ if other_head is largest else id_of_location(other_head.url, taken_ids)
            taken_ids.add(own_id)
            assert other_head.header is not None
            yield RemoteCapture(
                other_head.url,
                _files(bucket, other_head),
                own_id,
                **header_columns(other_head.header),
                size=other_head.size,
            )


def _files(bucket: "Bucket", head: _CaptureHead) -> tuple[tuple[int, str], ...]:
    return tuple((number, f"{bucket.display_name}/{segment.name}") for number, segment in head.segments)


def _id(head: _CaptureHead) -> str:
    """The id in the header, or else one derived from the URL, because the path of a local copy differs each time."""
    assert head.header is not None
    header_id = head.header.header.members.get("capture")
    return (
        header_id if isinstance(header_id, str) and capture_id(head.header) == header_id else id_of_location(head.url)
    )


def _is_copy(bucket: "Bucket", head: _CaptureHead, other: _CaptureHead) -> bool:
    """Whether two captures have the same bytes; reads their objects only if sizes and tags do not decide it."""
    if [object_.size for _, object_ in head.segments] != [object_.size for _, object_ in other.segments]:
        return False
    pairs = zip(head.segments, other.segments, strict=True)
    return all(
        (first.tag is not None and first.tag == second.tag) or _digest(bucket, first) == _digest(bucket, second)
        for (_, first), (_, second) in pairs
    )


def _digest(bucket: "Bucket", object_: _Object) -> bytes:
    with private_folder(Path(tempfile.gettempdir()), _PRIVATE_PREFIX) as folder:
        file = folder / "object"
        if not bucket.fetch(object_.name, file):
            raise StorageUnreachable(
                f"cannot read {bucket.display_name}/{object_.name}: it was deleted in the meantime"
            )
        with file.open("rb") as stream:
            return file_digest(stream, "sha256").digest()
