"""Summaries of HTTP exchanges that have ended, for the access log."""

from typing import NamedTuple


class ExchangeSummary(NamedTuple):
    """A summary of an HTTP exchange that has ended. All texts are untrusted, and without credentials."""

    client: str
    """The client's address."""
    method: str
    target: str
    message: str
    """The method of the JSON-RPC message that was sent; empty if there was none, or more than one."""
    status: int | None
    """The status of the response; None if there was none."""
    is_ours: bool
    """Whether mcpproxy itself answered."""
    ended_by: str
    """As in the record."""
    response_size: int
    lasted_ns: int
    """From the head of the request to the end."""
