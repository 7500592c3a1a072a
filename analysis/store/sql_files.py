"""Reads mcpproxy's SQL files, and fills in the error codes, whose numbers only `error_codes` contains."""

from importlib.resources.abc import Traversable
from typing import Final

from analysis.conversation.call import ENDLESS_METHODS
from analysis.protocol.error_codes import ERROR_CODES, JSONRPC_RANGE, REQUEST_CANCELLED, SERVER_RANGE, USER_REJECTED

# A code outside the reserved ranges may also be one of the application.
_ERROR_NAME_BRANCHES: Final = "\n        ".join(
    (
        *(f"when code = {row.code} then '{row.name}'" for row in ERROR_CODES.values() if row.code != USER_REJECTED),
        f"when code between {SERVER_RANGE[0]} and {SERVER_RANGE[-1]} then 'server-defined'",
        f"when code between {JSONRPC_RANGE[0]} and {JSONRPC_RANGE[-1]} then 'reserved'",
    )
)
"""The branches of a CASE that turn `code` into a name; a code that is not reserved has none."""
_ENDLESS_METHODS: Final = ", ".join(f"'{method}'" for method in sorted(ENDLESS_METHODS, reverse=True))


def sql_of(file: Traversable) -> str:
    """The statements in a file, with the error codes and the endless methods filled in."""
    text = file.read_text("utf-8")
    replacements = {
        "{error_names}": _ERROR_NAME_BRANCHES,
        "{request_cancelled}": str(REQUEST_CANCELLED),
        "{endless_methods}": _ENDLESS_METHODS,
    }
    for placeholder, replacement in replacements.items():
        text = text.replace(placeholder, replacement)
    return text
