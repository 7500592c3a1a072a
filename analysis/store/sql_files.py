"""Reads mcpproxy's SQL files, and fills in the error codes and methods that only `analysis.protocol` lists."""

from importlib.resources.abc import Traversable
from typing import Final

from analysis.protocol.error_codes import ERROR_CODES, JSONRPC_RANGE, REQUEST_CANCELLED, SERVER_RANGE, USER_REJECTED
from analysis.protocol.extensions import ENDLESS_METHODS, EXTENSIONS
from analysis.store.values import MAX_CLOCK_NS


def _list(methods: frozenset[str]) -> str:
    return ", ".join(f"'{method}'" for method in sorted(methods))


# A code outside the reserved ranges may also be one of the application.
_ERROR_NAME_BRANCHES: Final = "\n        ".join(
    (
        *(
            f"when code = {row.code} and method in ({_list(extension.requests)}) then '{row.name}'"
            for extension in EXTENSIONS.values()
            for row in extension.error_codes
        ),
        *(f"when code = {row.code} then '{row.name}'" for row in ERROR_CODES.values() if row.code != USER_REJECTED),
        f"when code between {SERVER_RANGE[0]} and {SERVER_RANGE[-1]} then 'server-defined'",
        f"when code between {JSONRPC_RANGE[0]} and {JSONRPC_RANGE[-1]} then 'reserved'",
    )
)
"""The branches of a CASE that turn `code` into a name; a code that is not reserved has none."""

_VALUES: Final = {
    "error_names": _ERROR_NAME_BRANCHES,
    "request_cancelled": str(REQUEST_CANCELLED),
    "endless_methods": _list(ENDLESS_METHODS),
    "max_clock_ns": str(MAX_CLOCK_NS),
}


def sql_of(file: Traversable) -> str:
    """The statements in a file, with the error codes, methods and limits filled in."""
    text = file.read_text("utf-8")
    for name, value in _VALUES.items():
        text = text.replace(f"{{{name}}}", value)
    return text
