"""Clients that do not read what a mock over HTTP sends them."""

import json
from pathlib import Path

import pytest

from tests.harness import Place
from tests.http_harness import Upstream, Wire, post, serving
from tests.mcpproxy.mock.http_mocks import HttpMockProcess, http_mock

EVENTS = 400
EVENT_BYTES = 64 << 10
READERS = 10
ACCEPT = b"Accept: application/json, text/event-stream"


def call(number: int) -> bytes:
    params = {"name": "flood", "arguments": {}, "_meta": {"progressToken": number}}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()


def flood(wire: Wire) -> None:
    """Answer a call with many large notifications of progress."""
    wire.request()
    wire.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
    for number in range(EVENTS):
        params = {"progressToken": 1, "progress": number, "message": "x" * EVENT_BYTES}
        progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        wire.say(b"data: %b\n\n" % json.dumps(progress).encode())
    wire.say(b'data: {"jsonrpc":"2.0","id":1,"result":{"content":[]}}\n\n')


def record(place: Place) -> Path:
    with Upstream(flood) as upstream, serving(place, upstream) as recorder:
        with recorder.client() as wire:
            wire.say(post(call(1), ACCEPT))
            wire.end()
        recorder.ended()
    return recorder.capture


def peak_bytes(mock: HttpMockProcess) -> int:
    status = Path(f"/proc/{mock.process.pid}/status").read_text("ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


@pytest.mark.soak
def test_what_slow_readers_do_not_read_is_not_held_and_delays_nobody(place: Place) -> None:
    capture = record(place)
    with http_mock(place, capture) as mock:
        before = peak_bytes(mock)
        slow = [mock.client(receive_buffer=4096) for _ in range(READERS)]
        for number, wire in enumerate(slow):
            wire.say(post(call(number), ACCEPT, b"User-Agent: slow-%d" % number))
            wire.head()
        with mock.client() as wire:
            wire.say(post(call(99), ACCEPT, b"User-Agent: fast", b"Connection: close"))
            received = sum(map(len, wire.pieces()))
        assert received > EVENTS * EVENT_BYTES
        # Each may have a few MiB: what its connection holds, and what is due at once.
        assert peak_bytes(mock) - before < READERS * (4 << 20) + (16 << 20)
        for wire in slow:
            wire.reset()
