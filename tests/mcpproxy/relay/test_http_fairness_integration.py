"""One connection's flood does not delay the other clients of `serve`; `tests.bench.fairness` has the figures."""

import asyncio
import contextlib
import gzip
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from mcpproxy.relay.http.round_robin import MAX_TURN_S, RoundRobinQueue
from tests.bench.http_peers import FLOODS, ZIPPED
from tests.harness import Place, frames, wait_until
from tests.http_harness import (
    OK,
    PING,
    STREAM,
    Upstream,
    Wire,
    chunked,
    post,
    serving,
)

ROUNDS = 30
BOUND = 8
"""The largest 95th percentile allowed, as a multiple of the calm one; soak allows ten times that, for busy machines."""
LEAST_S = 0.002
"""A shorter calm time counts as this long."""
ENOUGH = 1 << 20
"""How many bytes of the flood must pass before the other clients are served, in soak."""
UNITS = 40
"""How many units of the flood are enough, in soak, even if they have fewer bytes."""
SUITE = ("one-byte chunks up", "pipelined requests", "tiny events", "compressed events")
"""The floods of the suite cover both directions, requests, and compressed data; `make soak` has all floods."""


def test_long_steps_take_turns_and_yield_to_the_loop() -> None:
    """Long steps run one per turn, in the order of the queue; the event loop is free between turns."""
    done: list[str] = []

    def work(name: str, steps: int) -> Callable[[], bool]:
        left = [steps]

        def step() -> bool:
            until = time.monotonic() + 2 * MAX_TURN_S
            while time.monotonic() < until:
                pass
            done.append(name)
            left[0] -= 1
            return left[0] > 0

        return step

    async def main() -> None:
        turns = RoundRobinQueue()
        turns.schedule(work("a", 3))
        turns.schedule(work("b", 2))
        while len(done) < 5:
            before = len(done)
            await asyncio.sleep(0)
            assert len(done) <= before + 1

    asyncio.run(main())
    assert done == ["a", "b", "a", "b", "a"]


def test_work_that_fails_ends_alone() -> None:
    done: list[str] = []
    said: list[str] = []

    def broken() -> bool:
        raise ValueError("broken")

    def work() -> bool:
        done.append("work")
        return len(done) < 3

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(str(context["exception"])))
        turns = RoundRobinQueue()
        turns.schedule(work)
        turns.schedule(broken)
        await asyncio.wait_for(turns.finish(), 60)

    asyncio.run(main())
    assert (done, said) == (["work"] * 3, ["broken"])


def latency(client: Wire, rounds: int) -> float:
    """Returns the 95th percentile of round trips, in seconds."""
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        client.say(post(PING))
        assert client.hear(len(OK)) == OK
        took.append(time.perf_counter() - began)
    return statistics.quantiles(took, n=20)[-1]


@pytest.mark.parametrize("kind", SUITE)
def test_other_clients_are_served_during_a_flood(place: Place, kind: str) -> None:
    """The flood does not end, so a client that had to wait for it would wait forever.

    Each byte of some floods costs a microsecond or more: on a busy machine, a mebibyte of them takes minutes.
    """
    beside_flood(place, kind, 3, ENOUGH // 8, UNITS // 8)


@pytest.mark.soak
@pytest.mark.parametrize("kind", FLOODS)
def test_the_others_are_served_soon_beside_a_flood(place: Place, kind: str) -> None:
    calm, beside = beside_flood(place, kind, ROUNDS, ENOUGH, UNITS)
    assert beside <= 10 * BOUND * max(calm, LEAST_S), (beside, calm)


def beside_flood(place: Place, kind: str, rounds: int, enough: int, units: int) -> tuple[float, float]:
    """Returns the latency of a client that is alone, and then that of a client next to a flood.

    Args:
        place: where to record.
        kind: the name of the flood.
        rounds: the number of requests of each client.
        enough: how many bytes of the flood must pass before the other client is served.
        units: how many of its units are enough, even if they have fewer bytes.
    """
    flood = FLOODS[kind]
    over = threading.Event()
    crossed = [0]

    def pour(wire: Wire) -> None:
        unit = flood.unit * ((256 << 10) // len(flood.unit) + 1)
        with until_over():
            wire.say(flood.head)
            while not over.is_set():
                wire.say(unit)

    def swallow(wire: Wire) -> None:
        with until_over():
            while data := wire.sock.recv(1 << 18):
                crossed[0] += len(data)

    @contextlib.contextmanager
    def until_over() -> Iterator[None]:
        try:
            yield
        except OSError:
            assert over.is_set()

    def script(wire: Wire) -> None:
        first = wire.head()
        if b" /mcp " in first:
            while first:
                wire.hear(len(PING))
                wire.say(OK)
                first = wire.head()
        elif flood.down:
            pour(wire)
        else:
            swallow(wire)

    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as other:
        calm = latency(other, rounds)
        with served.client() as flooding:
            if flood.down:
                flooding.say(b"GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n")
            work = threading.Thread(target=swallow if flood.down else pour, args=(flooding,), daemon=True)
            work.start()
            wait_until(lambda: crossed[0] > min(enough, units * len(flood.unit)), "the flood")
            beside = latency(other, rounds)
            over.set()
            flooding.sock.shutdown(socket.SHUT_RDWR)
            work.join()
    return calm, beside


def test_a_compressed_flood_is_recorded_whole_and_in_order(place: Place) -> None:
    """The content of a few compressed bytes is recorded piece by piece, all of it before what follows it."""
    count = 2_500
    events = b"".join(b'data:{"jsonrpc":"2.0","method":"m","params":{"n":%d}}\n\n' % n for n in range(count))
    result = b'{"jsonrpc":"2.0","id":1,"result":{}}'
    last = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(result), result)

    def script(wire: Wire) -> None:
        wire.head()
        wire.say(ZIPPED + chunked(gzip.compress(events)) + last)
        wire.rest()

    with Upstream(script) as upstream, serving(place, upstream) as served:
        with served.client() as client:
            client.say(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n" + post(PING))
            client.through(b'"result":{}}')
        assert [members["ended_by"] for members in served.ended(2)] == ["complete", "complete"]
    found = frames(served.capture, "s2c")
    assert len(found) == count + 1
    assert b"".join(b"data:%b\n\n" % frame.raw for frame in found[:-1]) == events
    assert found[-1].verdict.id == b"1"


def test_what_has_crossed_is_recorded_though_the_recorder_is_ended_meanwhile(place: Place) -> None:
    count = 10_000
    events = (b'data:{"jsonrpc":"2.0","method":"m","params":{"n":%d}}\n\n' % n for n in range(count))
    body = gzip.compress(b"".join(events))

    def script(wire: Wire) -> None:
        wire.head()
        wire.say(ZIPPED + chunked(body))
        wire.rest()

    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.through(b"\r\n0\r\n\r\n")
        assert served.stop() == 0
        assert len(frames(served.capture, "s2c")) == count


@pytest.mark.parametrize("up", [True, False], ids=["up", "down"])
def test_a_long_read_then_an_end_arrives_whole(place: Place, up: bool) -> None:
    """The end of a file or of a connection is forwarded only after all portions before it."""
    body = b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n"
    heard = []

    def script(wire: Wire) -> None:
        if up:
            heard.append(wire.rest())
            wire.say(OK)
        else:
            wire.head()
            wire.say(STREAM + body)

    head = b"POST /other HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
        if up:
            client.say(head + body)
            client.hang_up()
            assert client.rest() == OK
            assert heard == [upstream.as_seen(head) + body]
        else:
            client.say(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.rest() == STREAM + body
        assert served.ended()[0]["ended_by"] == "complete"
