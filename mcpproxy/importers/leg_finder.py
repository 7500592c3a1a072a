"""Finds the legs of logins among the exchanges of a log, as the recorder does among live ones."""

from orjson import JSONDecodeError, loads

from mcpproxy.recorder.oauth_exchange import OauthExchange
from mcpproxy.recorder.oauth_legs import AnnouncedLegs, announced_paths, metadata_leg, path_of
from mcpproxy.wire.http1 import RequestHead
from mcpproxy.wire.response import ResponseHead


class LegFinder:
    """Finds the legs at one origin."""

    def __init__(self) -> None:
        """Begin without endpoints."""
        self._announced_legs = AnnouncedLegs()

    def read_metadata(self, request: RequestHead, response_body: bytes) -> None:
        """Note the endpoints that a response announces, if the request was for metadata; their hosts do not count."""
        if metadata_leg(path_of(request.target)) is None:
            return
        try:
            document = loads(response_body)
        except JSONDecodeError:
            return
        if isinstance(document, dict):
            for path, leg in announced_paths(document, lambda _address: True):
                self._announced_legs.add(path, leg)

    def is_leg(self, request: RequestHead, request_body: bytes, response: ResponseHead) -> bool:
        """Returns whether an exchange is a leg, other than a challenge from the MCP endpoint."""
        exchange = OauthExchange(request, self._announced_legs.leg_of(request.target))
        media_type = b"".join(request.headers.values_of(b"content-type")[:1]).partition(b";")[0].strip().lower()
        exchange.read_request(request_body, media_type)
        exchange.read_response_head(response)
        return exchange.leg is not None
