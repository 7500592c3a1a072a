"""Reads mcpproxy's SQL files, and fills in the numbers that are defined elsewhere, such as those of error codes."""

from importlib.resources.abc import Traversable
from typing import Final

from analysis.protocol.error_codes import ERROR_CODES, JSONRPC_RANGE, REQUEST_CANCELLED, SERVER_RANGE, USER_REJECTED
from analysis.store.values import MAX_CLOCK_NS

# A code outside the reserved ranges may also be one of the application.
_ERROR_NAME_BRANCHES: Final = "\n        ".join(
    (
        *(f"when code = {row.code} then '{row.name}'" for row in ERROR_CODES.values() if row.code != USER_REJECTED),
        f"when code between {SERVER_RANGE[0]} and {SERVER_RANGE[-1]} then 'server-defined'",
        f"when code between {JSONRPC_RANGE[0]} and {JSONRPC_RANGE[-1]} then 'reserved'",
    )
)
"""The branches of a CASE that turn `code` into a name; a code that is not reserved has none."""


def sql_of(file: Traversable) -> str:
    """The statements in a file, with the numbers filled in."""
    text = file.read_text("utf-8")
    values = {
        "{error_names}": _ERROR_NAME_BRANCHES,
        "{request_cancelled}": str(REQUEST_CANCELLED),
        "{max_clock_ns}": str(MAX_CLOCK_NS),
    }
    for name, value in values.items():
        text = text.replace(name, value)
    return text
