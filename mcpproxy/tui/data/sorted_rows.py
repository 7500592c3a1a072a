"""Rows in ascending order, each once, in an array: four bytes each, found by bisection."""

from array import array
from bisect import bisect_left


def contains(rows: "array[int]", row: int) -> bool:
    """Whether a row is among them."""
    index = bisect_left(rows, row)
    return index < len(rows) and rows[index] == row


def insert_row(rows: "array[int]", row: int) -> None:
    """Add a row, unless it is there already; a row after all others costs least."""
    if not rows or rows[-1] < row:
        rows.append(row)
    elif not contains(rows, row):
        rows.insert(bisect_left(rows, row), row)
