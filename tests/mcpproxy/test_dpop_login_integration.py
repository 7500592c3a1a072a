"""A login with DPoP through `serve`, in which both endpoints ask for a nonce: what is recorded, and how it reads."""

import json

from analysis.reading import Reading
from mcpproxy.wording.logins import outcome_text, summary_of
from tests.analysis.traces import CORPUS, findings_of
from tests.harness import Place
from tests.http_harness import Upstream, Wire, serving

PROOFS, NONCES = (b"proof-1", b"proof-2"), (b"DPoP-Nonce: n1", b"DPoP-Nonce: n2")


def exchanges() -> list[tuple[bytes, bytes]]:
    """The requests of the conversation in the corpus, each with its response."""
    lines = (CORPUS / "auth-dpop.ndjson").read_text("utf-8").splitlines()
    case = next(case for case in map(json.loads, lines) if case["name"] == "dpop-with-nonces")
    raws = [frame["raw"].replace("Host: example.com", "Host: localhost").encode() for frame in case["frames"]]
    return list(zip(raws[::2], raws[1::2], strict=True))


def test_a_login_that_is_asked_for_nonces(place: Place) -> None:
    conversation = exchanges()

    def answer(wire: Wire) -> None:
        for _, response in conversation:
            wire.request()
            wire.say(response)

    with Upstream(answer) as upstream, serving(place, upstream) as served:
        with served.client() as client:
            for request, response in conversation:
                client.say(request)
                assert client.request().startswith(response[:12]), request
        served.ended(len(conversation))
    capture = served.capture.read_bytes()
    sent = b"".join(request + response for request, response in conversation)
    assert [text for text in (*PROOFS, *NONCES, b"DPoP t1") if text not in sent] == []
    assert [text for text in (*PROOFS, *NONCES, b"DPoP t1") if text in capture] == []
    reading = Reading(served.capture)
    for _ in reading.to_end():
        pass
    (login,) = reading.fold.logins.all()
    asked = [line.name for line in summary_of(login).legs if line.description == "asked for a nonce, repeated"]
    assert (outcome_text(login), asked) == ("token issued", ["token", "challenge"])
    refused = {"auth/scope-missing", "auth/resource-metadata-missing", "auth/token-rejected", "auth/not-bearer"}
    assert {found.rule for found in findings_of(served.capture)} & {*refused, "auth/dpop-nonce-missing"} == set()
