"""Sides as JSON: how they travel between processes, in lines, and what an expectation consists of.

The encoding is ASCII, because texts of peers may hold lone surrogates, which no UTF-8 encoder accepts. Members are
sorted, so equal sides give equal lines.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from analysis.comparison.aspect import Aspect
from analysis.comparison.aspects import ASPECTS
from analysis.comparison.change import Place, SideSummary
from analysis.comparison.kind import AspectName
from analysis.comparison.side import Side
from analysis.conversation.message import Number

_RECURSION_LIMIT: Final = 10_000
"""Parsed values are nested at most some thousand levels deep, because the parsers refuse more."""
_TO_JSON: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True, check_circular=False).encode


def encode_side(side: Side) -> Iterator[bytes]:
    """Yields the lines of a side, without line ends: first its summary, then the record of each aspect."""
    for name, value in (("summary", side.summary), *side.records.items()):
        with _deep_values():
            line = _TO_JSON([name, plain_value(value)]).encode()
        yield line


def decode_side(lines: Iterable[bytes]) -> Side:
    """Returns the side in the lines that `encode_side` yielded; aspects that this version does not know are left out.

    Raises:
        ValueError: the lines are not those of a side.
    """
    with _deep_values():
        try:
            return side_of(json.loads(line.decode("ascii")) for line in lines)
        except RecursionError as error:
            raise ValueError(str(error)) from error


def plain_value(value: Any) -> Any:
    """Returns a summary or record as a JSON value."""
    return msgspec.to_builtins(value, str_keys=True, order="sorted", enc_hook=_plain)


def side_of(members: Iterable[tuple[str, Any]]) -> Side:
    """Returns the side with this summary and these records as JSON values, by name.

    Raises:
        ValueError: they are not those of a side.
    """
    aspects: dict[str, Aspect] = {aspect.name: aspect for aspect in ASPECTS}
    records: dict[AspectName, Any] = {}
    summary: SideSummary | None = None
    with _deep_values():
        try:
            for name, value in members:
                if name == "summary":
                    summary = msgspec.convert(value, SideSummary, str_keys=True)
                elif name in aspects:
                    aspect = aspects[name]
                    records[aspect.name] = msgspec.convert(value, aspect.record, str_keys=True)
        except (TypeError, RecursionError, msgspec.ValidationError) as error:
            raise ValueError(str(error)) from error
    if summary is None:
        raise ValueError("a side without a summary")
    return Side(summary, records)


def with_places(value: Any, change: Callable[[Place], Place]) -> Any:
    """Returns a copy of a record with `change` applied to all its places."""
    with _deep_values():
        return _with_places(value, change)


def _with_places(value: Any, change: Callable[[Place], Place]) -> Any:
    if isinstance(value, Place):
        return change(value)
    if isinstance(value, msgspec.Struct):
        names = type(value).__struct_fields__
        return type(value)(**{name: _with_places(getattr(value, name), change) for name in names})
    if isinstance(value, dict):
        return {name: _with_places(member, change) for name, member in value.items()}
    if isinstance(value, tuple):
        members = [_with_places(member, change) for member in value]
        return type(value)(*members) if hasattr(value, "_fields") else tuple(members)
    return [_with_places(member, change) for member in value] if isinstance(value, list) else value


def _plain(value: Any) -> float:
    """Returns a number that keeps its JSON token as a plain one."""
    if isinstance(value, Number):
        return float(value)
    raise NotImplementedError


@contextmanager
def _deep_values() -> Iterator[None]:
    """Permit deeper recursion inside a `with` block, for values of peers that a record contains."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
