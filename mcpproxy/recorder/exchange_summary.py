"""What an exchange that has ended was, for a line of the access log."""

from typing import NamedTuple


class ExchangeSummary(NamedTuple):
    """What an exchange that has ended was. All texts are untrusted, and without credentials."""

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
