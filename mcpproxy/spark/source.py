"""The Python data source `mcpcap` of Spark: captures as tables, without a data set in between.

    spark.read.format("mcpcap").option("table", "exchanges").load("s3://bucket/captures")

A capture is never split, not even by segment: a response in one segment belongs to a request in another, and numbers of
sessions run through all of them. Small captures share a partition, because a separate task for each would cost several
times as much as loading it.

A capture that cannot be read is a row in the table `errors`, and never fails a job. Faults outside the capture do: a
full disk, a store that does not respond, a folder that a worker lacks. Spark then retries the task, which yields the
same rows, and no row twice.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from analysis.store.batches import CaptureLoader
from captures.errors import CannotCreate, CaptureError
from mcpproxy.sanitise import sanitise
from mcpproxy.spark import locations
from mcpproxy.spark.locations import RemoteCapture, StorageUnreachable
from mcpproxy.spark.schema import ERRORS_TABLE, TABLES, schema

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT: Final = "mcpcap"
PARTITION_BYTES: Final = 4 << 20
"""The maximum size of the captures that share a partition, in bytes, unless `partitionBytes` is given."""
MAX_CAPTURES_PER_PARTITION: Final = 64
"""The maximum number of captures that share a partition."""
_MAX_ERROR_CHARS: Final = 2000

# The test that each filter applies to the value that all rows of a capture share; a comparison with NULL is never true.
_FILTER_TESTS: Final[dict[type, Callable[[Any, Any], bool]]] = {
    EqualTo: lambda own, value: own is not None and own == value,
    EqualNullSafe: lambda own, value: own == value,
    GreaterThan: lambda own, value: own is not None and own > value,
    GreaterThanOrEqual: lambda own, value: own is not None and own >= value,
    LessThan: lambda own, value: own is not None and own < value,
    LessThanOrEqual: lambda own, value: own is not None and own <= value,
    In: lambda own, value: own is not None and own in value,
    IsNull: lambda own, _: own is None,
    IsNotNull: lambda own, _: own is not None,
}
_CAPTURE_VALUES: Final[dict[str, Callable[[RemoteCapture], str | date | None]]] = {
    "capture": lambda capture: capture.id,
    "day": lambda capture: capture.day,
    "server": lambda capture: capture.server,
}
_VALUE_TYPES: Final = {"capture": str, "day": date, "server": str}


@dataclass
class Captures(InputPartition):  # type: ignore[misc, unused-ignore]  # Any where pyspark is not installed
    """A partition: one capture, or several small ones."""

    locations: tuple[RemoteCapture, ...]


class CaptureSource(DataSource):  # type: ignore[misc, unused-ignore]
    """A table of captures; the option `table` says which one, by default `exchanges`.

    The option `partitionBytes` is the size up to which small captures share a partition; 0 gives each capture its own.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of the table, with `day` and `server`."""
        return schema(self._table)

    def reader(self, schema: StructType) -> "CaptureReader":  # noqa: ARG002 - always as `schema` returned it
        """Returns a reader of the table."""
        path = self.options.get("path")
        if not path:
            raise ValueError("name a place: .load(PATH), for one capture, a folder, or s3://BUCKET/PREFIX")
        size = self.options.get("partitionBytes", str(PARTITION_BYTES))
        if not size.isdecimal():
            raise ValueError(f"partitionBytes is a number of bytes, not {sanitise(size, 64)}")
        return CaptureReader(path, self._table, int(size))

    @property
    def _table(self) -> str:
        table: str = self.options.get("table", "exchanges")
        if table not in TABLES:
            raise ValueError(f"there is no table {sanitise(table, 64)}; there are {', '.join(TABLES)}")
        return table


class CaptureReader(DataSourceReader):  # type: ignore[misc, unused-ignore]
    """Reads one table of all captures at a location.

    Filters on `day`, `server` and `capture` select captures on the driver, by their headers: no task starts for other
    captures.
    """

    def __init__(self, path: str, table: str, partition_bytes: int = PARTITION_BYTES) -> None:
        """Create a reader, which does not read anything yet.

        Args:
            path: a capture, a folder, or the URL of an object store.
            table: one of `TABLES`.
            partition_bytes: the size up to which small captures share a partition.
        """
        self._path = path
        self._table = table
        self._partition_bytes = partition_bytes
        self._filters: list[tuple[str, type, Any]] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Keep the filters that select captures; yields the others, which Spark applies."""
        for filter_ in filters:
            column, value = ".".join(getattr(filter_, "attribute", ())), getattr(filter_, "value", None)
            values = [] if isinstance(filter_, IsNull | IsNotNull) else value if isinstance(filter_, In) else [value]
            if (
                type(filter_) in _FILTER_TESTS
                and column in _CAPTURE_VALUES
                and all(type(item) is _VALUE_TYPES[column] for item in values or ())
            ):
                self._filters.append((column, type(filter_), value))
            else:
                yield filter_

    def partitions(self) -> Sequence[InputPartition]:
        """The captures that pass the filters; small captures share a partition."""
        partitions: list[list[RemoteCapture]] = []
        bytes_left = 0
        for capture in locations.plan_captures(self._path):
            if not self._is_selected(capture) or (capture.refusal is not None and self._table != ERRORS_TABLE):
                continue
            # Even an empty capture takes some time.
            size = max(capture.size, self._partition_bytes // MAX_CAPTURES_PER_PARTITION)
            if not partitions or size > bytes_left:
                partitions.append([])
                bytes_left = self._partition_bytes
            partitions[-1].append(capture)
            bytes_left -= size
        return [Captures(tuple(captures)) for captures in partitions]

    def _is_selected(self, capture: RemoteCapture) -> bool:
        return all(
            _FILTER_TESTS[kind](_CAPTURE_VALUES[column](capture), value) for column, kind, value in self._filters
        )

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yields the rows of the captures of a partition."""
        if not isinstance(partition, Captures):  # Spark passes its own if there are no partitions
            return
        read_capture = self._error_rows if self._table == ERRORS_TABLE else self._capture_rows
        with locations.task_folder() as folder, CaptureLoader(folder) as loader:
            for capture in partition.locations:
                for batch in read_capture(capture, loader, folder):
                    yield self._completed_batch(batch, capture)

    def _capture_rows(self, capture: RemoteCapture, loader: CaptureLoader, folder: Path) -> "Iterator[pa.RecordBatch]":
        """The rows of one capture."""
        assert capture.id is not None
        try:
            with locations.local_copy(capture, folder) as path:
                yield from loader.load_rows(path, capture.id, self._table)
        except CannotCreate:  # a fault of the store, not of the capture
            raise
        except CaptureError:
            return  # the table `errors` has a row about it

    def _error_rows(self, capture: RemoteCapture, loader: CaptureLoader, folder: Path) -> "Iterator[pa.RecordBatch]":
        """Yields one row if the capture cannot be read to its end."""
        import pyarrow as pa

        refusal = capture.refusal
        if refusal is None:
            assert capture.id is not None
            try:
                with locations.local_copy(capture, folder) as path:
                    local_path = str(path)
                    for _ in loader.load_rows(path, capture.id, None):
                        pass
            except CannotCreate:
                raise
            except CaptureError as error:
                refusal = str(error).replace(local_path, capture.location)
        if refusal is not None:
            location = sanitise(capture.location, None)
            yield pa.RecordBatch.from_pydict(
                {"path": [location], "capture": [capture.id], "error": [sanitise(refusal, _MAX_ERROR_CHARS)]}
            )

    def _completed_batch(self, batch: "pa.RecordBatch", capture: RemoteCapture) -> "pa.RecordBatch":
        """Returns a batch with the added columns, in the types that Spark expects."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        expected = to_arrow_schema(schema(self._table))
        count = batch.num_rows
        added_columns = {
            "day": pa.array([capture.day] * count, pa.date32()),
            "server": pa.array([capture.server] * count, pa.string()),
        }
        if self._table == "captures" and locations.is_url(capture.location):
            added_columns["path"] = pa.array([capture.location] * count, pa.string())
        arrays = [
            (added_columns[field.name] if field.name in added_columns else batch.column(field.name)).cast(field.type)
            for field in expected
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=expected)


__all__ = ["FORMAT", "CaptureReader", "CaptureSource", "Captures", "StorageUnreachable"]
