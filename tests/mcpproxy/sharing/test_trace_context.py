"""What a redacted copy keeps of a trace context: the same in the head of a request as in `_meta` of its message."""

import json
from typing import Any

import pytest

from mcpproxy.sharing.choices import ShareChoices
from mcpproxy.sharing.kingfisher import catalogue
from mcpproxy.sharing.pseudonyms import PseudonymGenerator
from mcpproxy.sharing.records import RecordRedactor
from mcpproxy.sharing.redaction import Redactor

CONTEXT = {
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tracestate": "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE,dd=s:1;t.dm:-1",
}
HASH = "hmac:0123456789abcdef"


@pytest.fixture
def redactor(secret_rules: None) -> Redactor:
    return Redactor(PseudonymGenerator(bytes(32)), catalogue(), ShareChoices(), bodies=True, unparsed=False)


def copied_fields(redactor: Redactor, **fields: str) -> dict[str, Any]:
    record = {"rec": "exchange", "request": {"method": "POST", "headers": [list(field) for field in fields.items()]}}
    return dict(RecordRedactor(redactor).redact_members(record, [])["request"]["headers"])


def test_ids_of_traces_stay_in_messages_and_in_heads(redactor: Redactor) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": CONTEXT}}
    assert json.loads(redactor.redact_document(json.dumps(message), [])) == message
    assert copied_fields(redactor, **CONTEXT) == CONTEXT


def test_hashes_of_earlier_recorders_are_hashed_again(redactor: Redactor) -> None:
    copied = copied_fields(redactor, traceparent=HASH, baggage=f"userId={HASH};{HASH},{HASH}")
    again = copied["traceparent"]
    assert again.startswith("hmac:")
    assert again != HASH
    assert copied["baggage"] == f"userId={again};{again},{again}"


def test_nothing_of_the_values_of_a_baggage_stays(redactor: Redactor) -> None:
    baggage = "userId=alice,plan=gold;secret=zebra"
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"_meta": {"baggage": baggage}}}
    copied = redactor.redact_document(json.dumps(message), [])
    assert isinstance(json.loads(copied)["params"]["_meta"]["baggage"], str)
    in_head = copied_fields(redactor, baggage=baggage)["baggage"]
    for value in ("alice", "gold", "zebra"):
        assert value not in copied
        assert value not in in_head
