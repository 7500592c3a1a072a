"""A mock says to the recorded client what the server had said: the same messages in the same order, under other ids."""

from pathlib import Path
from typing import Final

import pytest

from tests.playback_proof.engine import play
from tests.playback_proof.sources import Source, comparisons, traces

OTHERWISE: Final = {
    "auth:three-refusals": "a 401 is played only if no later exchange with the same request succeeded",
    "auth:refusals-with-success-between": "the same",
    "batch:batch-unread-by-the-client": "the server cancels what it had sent in a batch that the client did not read",
    "batch:batch-not-allowed-over-http": "the same batch was refused at first and answered later",
    "framing:framing-two-on-a-line": "two messages on a line are one unreadable unit, of which nothing is answered",
    "framing:framing-two-on-a-line-apart": "the same",
    "id:id-float-then-integer": "1.0 and 1 are one id, which the renaming of this proof leaves as it is",
    "id:id-became-a-string": "an id that came back as another type is not this client's either way",
    "timeout:answered-as-text": "the same",
    "legacy-sse:post-too-early": "the answer to a request without a session",
    "id:id-of-no-request": "an answer to what nobody asked could hit a request of today, so it is left out",
    "id:id-of-no-request-begun-late": "the same",
    "id:id-of-an-own-request": "the same",
    "http:an-id-of-nobody-is-told-once": "the same",
    "import:begun in the middle": "the same",
    "jsonrpc:jsonrpc-notification-answered-on-a-stream": "the same",
    "response-id-becomes-text": "the same",
    "seeds:handler-that-answers-answers": "the same",
    "http:notification-refused": "the body of an HTTP response, which the engine alone does not send as a message",
    "http:get-refused": "the same",
    "http:body-that-is-empty": "the same",
    "http:response-of-another-post": "the same",
    "http-streams:null-error-on-get-guessed-for-call": "the same",
    "http-session:get-of-a-lost-session-refused-with-400": "the same",
    "http-session:session-reused-after-404-to-a-get": "the same",
    "jsonrpc:jsonrpc-notification-answered": "the same",
    "jsonrpc:jsonrpc-notification-accepted": "the same",
}
"""The conversations that are played otherwise, and why."""
EVERY: Final = 10


def _played_otherwise(sources: list[Source], folder: Path) -> set[str]:
    return {source.name for source in sources if not play(source.path, folder).is_exact}


@pytest.mark.costly("plays a tenth of the corpus, at 2.5 ms each")
def test_conversations_of_the_corpus_are_played_as_recorded(tmp_path: Path) -> None:
    sources = [*comparisons(tmp_path, EVERY), *traces(tmp_path, EVERY)]
    assert len(sources) > 250
    names = {source.name for source in sources}
    assert _played_otherwise(sources, tmp_path) == OTHERWISE.keys() & names


@pytest.mark.soak
def test_all_conversations_of_the_corpus_are_played_as_recorded(tmp_path: Path) -> None:
    sources = [*comparisons(tmp_path), *traces(tmp_path)]
    assert _played_otherwise(sources, tmp_path) == {*OTHERWISE}
