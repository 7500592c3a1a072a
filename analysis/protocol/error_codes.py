"""The error codes of JSON-RPC and MCP, one row each: the number, the name, the revisions that have it, and its meaning.

Other code and SQL use these names, never the numbers.
"""

from typing import Final, NamedTuple

from analysis.protocol.features import ELICITATION_IDS
from analysis.protocol.revisions import ALL, FIRST_MODERN_RANK, HANDSHAKE_ERA, MODERN_ERA, REVISIONS, Span

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022
URL_ELICITATION: Final = -32042
USER_REJECTED: Final = -1
"""The only code of MCP outside the range that JSON-RPC reserves."""

REQUEST_TIMEOUT: Final = -32001
"""The code that SDKs report, and quote in cancellations, if no response comes in time; no revision defines it."""
REQUEST_CANCELLED: Final = -32800
"""The code of some servers for a cancelled request, as in the Language Server Protocol; no revision defines it."""
CONNECTION_CLOSED: Final = -32000
"""The code with which SDKs end the calls that are open when the connection closes; no revision defines it."""
NOT_RECORDED: Final = -32019
"""The code of `mcpproxy mock` for a request that was not recorded: one of those left to implementations, so that it is
neither mistaken for a recorded error nor for a fault of the client's params."""

NOT_FOUND: Final = -32023
"""This and the next four codes belong to extensions (`analysis/protocol/extensions.py`); no revision defines them."""
FORBIDDEN: Final = -32024
RESOURCE_EXHAUSTED: Final = -32025
UNSUPPORTED: Final = -32026
CALLBACK_ENDPOINT_ERROR: Final = -32027
SKETCH_CODES: Final = {
    NOT_FOUND: -32011,
    FORBIDDEN: -32012,
    RESOURCE_EXHAUSTED: -32013,
    UNSUPPORTED: -32014,
    CALLBACK_ENDPOINT_ERROR: -32015,
}
"""The numbers of these five codes in the design sketch of Events that preceded its SEP, by their present numbers."""


class ErrorCode(NamedTuple):
    """One error code."""

    code: int
    name: str
    revisions: Span
    """The revisions of MCP in which it has this meaning."""
    meaning: str
    """What the code means, as a clause."""

    @property
    def meaning_with_revisions(self) -> str:
        """Its meaning, with its revisions if the newest does not have it."""
        first, last = self.revisions
        if last == ALL.last:
            return self.meaning
        return f"{self.meaning}, " + (f"in {REVISIONS[last]} only" if first == last else f"up to {REVISIONS[last]}")


_TABLE: Final = (
    ErrorCode(PARSE_ERROR, "Parse error", ALL, "parse error: the message was not JSON"),
    ErrorCode(INVALID_REQUEST, "Invalid Request", ALL, "invalid request"),
    ErrorCode(METHOD_NOT_FOUND, "Method not found", ALL, "method not found"),
    ErrorCode(INVALID_PARAMS, "Invalid params", ALL, "invalid params"),
    ErrorCode(INTERNAL_ERROR, "Internal error", ALL, "internal error"),
    ErrorCode(RESOURCE_NOT_FOUND, "Resource not found", HANDSHAKE_ERA, "resource not found"),
    ErrorCode(HEADER_MISMATCH, "Header mismatch", MODERN_ERA, "headers and body disagree"),
    ErrorCode(MISSING_CAPABILITY, "Missing client capability", MODERN_ERA, "a capability of the client is missing"),
    ErrorCode(UNSUPPORTED_VERSION, "Unsupported protocol version", MODERN_ERA, "revision not supported"),
    ErrorCode(URL_ELICITATION, "URL elicitation required", ELICITATION_IDS, "a URL must be visited first"),
    ErrorCode(USER_REJECTED, "Rejected by the user", ALL, "declined by the user"),
)

ERROR_CODES: Final = {row.code: row for row in _TABLE}
"""Every code that JSON-RPC or a revision defines, by its number."""

MODERN_CODES: Final = frozenset(row.code for row in _TABLE if row.revisions.first >= FIRST_MODERN_RANK)
"""Codes that only a server of the modern era sends."""

RETIRED_CODES: Final = frozenset(row.code for row in _TABLE if row.revisions.last < FIRST_MODERN_RANK)
"""Codes that only the handshake era has."""


def _inclusive_range(lowest: int, highest: int) -> range:
    return range(lowest, highest + 1)


JSONRPC_RANGE: Final = _inclusive_range(-32768, -32100)
"""The codes reserved for JSON-RPC itself."""
SERVER_RANGE: Final = _inclusive_range(-32099, -32000)
"""The codes that JSON-RPC leaves to servers; 2026-07-28 divides them into the next two ranges."""
MCP_RANGE: Final = _inclusive_range(-32099, -32020)
"""The codes reserved for MCP since 2026-07-28."""
LEGACY_RANGE: Final = _inclusive_range(-32019, -32000)
"""The codes left to implementations since 2026-07-28, without a common meaning."""
