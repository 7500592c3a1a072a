"""Recordings of the official SDK's server, mocked over HTTP: its client gets the same as from the server.

The conversation is that of `test_serve_sdk_integration`: lists, progress, logging, sampling, roots, elicitation,
changes on the client's own stream, a cancelled call, and a stream that breaks and is resumed.
"""

from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp.client import session as sdk_session

from tests.harness import DEADLINE_S, Place
from tests.http_harness import serving
from tests.mcpproxy.mock.http_mocks import http_mock
from tests.mcpproxy.test_serve_sdk_integration import SSE, STATELESS, Talk, Transcript, Witness, own_place, serve_sdk

ERAS = (SSE, "2025-11-25", STATELESS)


class Client(Witness):
    """Keeps the client's User-Agent, by which a session of the modern era is known."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await httpx2.AsyncHTTPTransport.handle_async_request(self, request)
        if request.method == "GET":
            self.listens.set()
        return response


def conversation(url: str, era: str) -> Transcript:
    """Returns what the SDK's client gets from a server."""
    talk = Talk(url, era)
    talk.witness = Client()
    anyio.run(talk.everything)
    return talk.transcript


class Recorded:
    """A recorded conversation."""

    def __init__(self, era: str, capture: Path, transcript: Transcript) -> None:
        self.era, self.capture, self.transcript = era, capture, transcript


@pytest.fixture(scope="module", params=ERAS)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    era: str = request.param
    with pytest.MonkeyPatch.context() as patch, own_place(tmp_path_factory.mktemp("mock")) as place:
        patch.setattr(sdk_session, "DISCOVER_TIMEOUT_SECONDS", DEADLINE_S)
        patch.setattr(sdk_session, "LATEST_HANDSHAKE_VERSION", era)
        with serve_sdk(place, *(["--sse"] if era == SSE else [])) as (url, _), serving(place, url) as recorder:
            transcript = conversation(recorder.url, era)
        yield Recorded(era, recorder.capture, transcript)


@pytest.mark.costly("the SDK's server is loaded for it, once, and records a conversation of each transport")
def test_the_client_cannot_tell_the_mock_from_the_server(recorded: Recorded, place: Place) -> None:
    """Two clients, one after the other: each gets the recorded session."""
    with http_mock(place, recorded.capture) as mock:
        assert mock.url.endswith("/sse" if recorded.era == SSE else "/mcp")
        assert conversation(mock.url, recorded.era) == recorded.transcript
        assert conversation(mock.url, recorded.era) == recorded.transcript
