"""What an HTTP exchange needs from its recording and its connection, and what a body needs from its exchange.

`mcpproxy.recorder.http` provides the first two for live traffic, and `mcpproxy.importers.http` for logs.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from captures.loss import PendingRecord
from mcpproxy.recorder.bypasses import BypassDetector
from mcpproxy.recorder.exchange_summary import ExchangeSummary
from mcpproxy.recorder.header_redaction import HashSecret
from mcpproxy.recorder.oauth_exchange import OauthExchange
from mcpproxy.recorder.oauth_legs import AnnouncedLegs


class RecordingContext(Protocol):
    """The recording: what all exchanges share."""

    @property
    def frame_counts(self) -> dict[str, int]:
        """The number of frames in each direction, which exchanges increase."""

    @property
    def byte_counts(self) -> dict[str, int]:
        """The number of bytes of content in each direction, which exchanges increase."""

    @property
    def mcp_places(self) -> set[bytes | str]:
        """Where messages are expected in addition to the endpoint: paths, and keys of addresses; exchanges add some."""

    @property
    def oauth_legs(self) -> AnnouncedLegs:
        """The paths that the server announces for authorizations; exchanges add some."""

    @property
    def bypass_detector(self) -> BypassDetector | None:
        """Detects what leads the client around the recorder; None if there is no recorder to bypass."""

    @property
    def is_public(self) -> bool:
        """Whether clients reach the server at its own public address, through proxies in front of mcpproxy."""

    @property
    def secret_hash(self) -> HashSecret | None:
        """Returns the replacement for a secret in the text of a response; None to store the text as it is."""

    @property
    def on_exchange_end(self) -> Callable[[ExchangeSummary], None] | None:
        """Called with each exchange that has ended, if not None."""

    def is_endpoint(self, target: bytes, /) -> bool:
        """Returns whether a request's target is the server's URL, where all traffic is MCP."""

    def is_own(self, address: str, /) -> bool:
        """Returns whether clients reach the server at an address, regardless of its spelling."""

    def address(self, target: bytes, /) -> str:
        """Returns the whole URI of a request's target."""

    def uri_key(self, target: bytes, /) -> str:
        """Returns the key of the URI of a request's target, or of a relative address."""

    def hash(self, uri: bytes, /) -> str:
        """Returns the key of a URI."""

    def clean_address(self, address: bytes, /) -> str:
        """Returns an address without secrets."""

    def clean_document(self, document: dict[str, Any], /) -> bytes:
        """Returns a document as JSON, with every URL in it without secrets."""

    def redacted_fields(self, fields: Iterable[tuple[bytes, bytes]], /) -> bytes:
        """Returns a header list as JSON, without secrets."""

    def on_verdict_fault(self, error: Exception, /) -> None:
        """Called if a bug in mcpproxy leaves a frame without a verdict."""


class ConnectionContext(Protocol):
    """The connection on which exchanges pass."""

    @property
    def recorder(self) -> RecordingContext:
        """The recording to which the connection belongs."""

    @property
    def number(self) -> int:
        """The number of the connection in the capture."""

    @property
    def peer(self) -> str:
        """The address of the client; empty if unknown."""

    @property
    def trusts_peer(self) -> bool:
        """Whether the peer is a trusted proxy in front of mcpproxy, which reports the client's address."""

    @property
    def at_ns(self) -> int:
        """The time of what is being recorded, on the capture's clock."""

    @property
    def entries(self) -> list[PendingRecord]:
        """The records that are not yet written, to which exchanges add theirs."""


class BodyContext(Protocol):
    """The exchange, as its bodies see it."""

    @property
    def recorder(self) -> RecordingContext:
        """The recording to which the exchange belongs."""

    @property
    def connection(self) -> ConnectionContext:
        """The connection on which the exchange passes."""

    @property
    def number(self) -> int:
        """The number of the exchange in the capture."""

    @property
    def authorization(self) -> OauthExchange | None:
        """What the exchange has to do with an authorization; None if messages are expected."""

    def is_endpoint(self) -> bool:
        """Returns whether the request goes to the server's URL, where all traffic is MCP."""

    def expects_messages(self) -> bool:
        """Returns whether to expect messages."""

    def is_private(self) -> bool:
        """Returns whether the bodies must not be stored, because they contain what authorizes a client."""

    def is_metadata(self) -> bool:
        """Returns whether the request is for a document that describes the server."""

    def note_message(self) -> None:
        """Called with each body or event that is a message."""

    def note_method(self, method: str, /) -> None:
        """Called with the method of a message that the client has sent."""

    def record_endpoint(self, endpoint: bytes, /) -> None:
        """Called with the content of a legacy `endpoint` event."""

    def keep_metadata(self, body: bytes, /) -> bool:
        """Keep a document that describes the server; returns whether it is kept whole."""

    def keep_text(self, body: bytes, /, *, is_cut: bool) -> None:
        """Keep the text of a response that is not a message."""
