"""The limits of an analysis, for tests of what it forgets: small in the suite, the real ones in `make soak`."""

from typing import NamedTuple

from analysis.conversation import call_table, http_exchange, http_exchanges


class Limits(NamedTuple):
    """The most objects of each kind that are kept."""

    requests: int = call_table.MAX_OPEN_REQUESTS
    requests_over_http: int = call_table.MAX_OPEN_HTTP_REQUESTS
    lasting: int = http_exchange.MAX_OPEN_HTTP_EXCHANGES
    """Open exchanges."""
    ended: int = http_exchange.MAX_HTTP_EXCHANGES
    """Exchanges that have ended."""
    bytes_: int = http_exchanges.SEEN_BYTES
    """Bytes of the messages in exchanges."""
    whole: int = http_exchanges.WHOLE_BYTES
    """Bytes of the messages that are kept with their parsed values."""


SMALL = Limits(300, 150, 150, 100, 1 << 20, 1 << 13)
