"""If one side breaks off or contradicts its own headers, the data is recorded completely, or by size and hash."""

import contextlib
import gzip
import hashlib
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from captures.record import Record
from tests.harness import DEADLINE_S, Place, frames, members_of, wait_until
from tests.http_harness import GET, OK, PING, Upstream, Wire, answering, chunked, post, serving, start_serving
from tests.mcpproxy.cli.typed import mcpproxy


def verified(place: Place, capture: Path) -> int:
    return mcpproxy("verify", capture).returncode


@pytest.mark.parametrize("answer", [b"this is no HTTP\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"])
@pytest.mark.parametrize("size", [300_000, 3 << 20])
def test_a_request_is_recorded_to_its_end_whatever_has_become_of_its_response(
    place: Place, answer: bytes, size: int
) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"big","params":{"text":"%b"}}' % (b"x" * size)
    answered = threading.Event()

    def script(wire: Wire) -> None:
        wire.head()
        wire.say(answer)
        if answer.startswith(b"HTTP"):
            wire.sock.shutdown(socket.SHUT_WR)
        answered.set()
        wire.hear(len(body))
        wire.end()

    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
        whole = post(body)
        client.say(whole[: -len(body) + 1])
        assert answered.wait(DEADLINE_S)
        client.hear(len(answer))
        client.say(whole[-len(body) + 1 :])
        wait_until(lambda: upstream.connections and upstream.heard().endswith(body[-20:]), "all of it to have gone on")
        client.hang_up()
        (end,) = served.ended()
    (frame,) = frames(served.capture, "c2s")
    assert (frame.raw, frame.whole) == (body, True)
    assert end["request_size"] == len(body)
    assert [record.rec for record in served.records()][-2:] == ["exchange", "close"]
    assert verified(place, served.capture) == 0


@pytest.mark.parametrize("size", [100_000, 4 << 20])
def test_a_body_whose_coding_is_damaged_is_never_called_whole(place: Place, size: int) -> None:
    packed = bytearray(
        gzip.compress(b'{"jsonrpc":"2.0","id":1,"result":{"text":"%b"}}' % os.urandom(size // 2).hex().encode())
    )
    packed[len(packed) * 3 // 4] ^= 0xFF
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    answer = head % len(packed) + packed
    with Upstream(answering(answer)) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(post(PING))
        assert client.hear(len(answer)) == answer
        (end,) = served.ended()
    assert not [frame for frame in frames(served.capture, "s2c") if frame.whole]
    if not frames(served.capture, "s2c"):
        digest = hashlib.sha256(packed).hexdigest()
        assert end["body_hash"]["response"] == {"size": len(packed), "sha256": digest, "undecoded": "gzip"}
    assert all(part["size"] for part in members_of(served.capture, "part"))


def test_a_response_that_is_complete_before_its_request_is_told_at_once(place: Place) -> None:
    def script(wire: Wire) -> None:
        wire.head()
        wire.say(OK)
        wire.end()

    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(post(b"x" * 10)[:-10])
        assert client.hear(len(OK)) == OK
        told = wait_until(lambda: [one for one in served.exchanges() if one["stage"] == "response"], "the response")
        assert told[0]["response"]["status"] == 200
        client.say(b"x" * 10)
        assert served.ended()[0]["request_size"] == 10
        upstream.heard()


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (b"Content-Type: text/event-stream\r\nContent-Encoding: rot13\r\n", b"data: {}\n\n"),
        (b"Content-Type: text/event-stream\r\n", b": only comments\n\nretry: 5\n\n"),
        (b"Content-Type: application/json\r\n", b'{"error":"invalid_token"}'),
    ],
)
def test_what_is_not_stored_has_size_and_hash(place: Place, kind: bytes, body: bytes) -> None:
    status = b"401 Unauthorized" if b"error" in body else b"200 OK"
    answer = b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, kind, len(body), body)
    with Upstream(answering(answer)) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(GET)
        assert client.hear(len(answer)) == answer
        (end,) = served.ended()
    assert frames(served.capture, "s2c") == []
    undecoded = {"undecoded": "rot13"} if b"rot13" in kind else {}
    digest = hashlib.sha256(body).hexdigest()
    assert end["body_hash"] == {"response": {"size": len(body), "sha256": digest, **undecoded}}


def test_metadata_that_is_cut_has_size_and_hash(place: Place) -> None:
    body = b'{"resource":"/mcp","x":"%b"}' % (b"y" * 100_000)
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    with Upstream(answering(answer)) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(b"GET /.well-known/oauth-protected-resource HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.hear(len(answer))
        (end,) = served.ended()
    assert end["metadata"] == body[: 64 << 10].decode()
    assert end["body_hash"]["response"]["sha256"] == hashlib.sha256(body).hexdigest()


def test_a_challenge_that_leads_around_us_is_flagged(place: Place) -> None:
    challenge = b'Bearer resource_metadata="http://other.example/.well-known/oauth-protected-resource"'
    answer = b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: %b\r\nContent-Length: 0\r\n\r\n" % challenge
    with Upstream(answering(answer)) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(GET)
        assert client.hear(len(answer)) == answer
        (end,) = served.ended()
        assert end["flags"] == ["bypass/challenge"]
    assert b"(bypass/challenge)" in served.errors


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be bound to a processor here")
def test_no_stamp_of_a_request_is_younger_than_its_arrival(place: Place) -> None:
    body = PING.replace(b"1", b"2")
    arrived: list[int] = []
    cpu = min(os.sched_getaffinity(0))

    def script(wire: Wire) -> None:
        # On the recorder's own processor: the recorder continues when this thread stops, and not while it works.
        os.sched_setaffinity(0, {cpu})
        while wire.head():
            assert wire.hear(len(body)) == body
            arrived.append(time.monotonic_ns())
            while time.monotonic_ns() < arrived[-1] + 3_000_000:
                pass
            wire.say(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n")
            wire.say(b'{"jsonrpc":"2.0","id":2,"result":{}}')

    count = 15
    with Upstream(script) as upstream, serving(place, upstream) as served, served.client() as client:
        os.sched_setaffinity(served.pid, {cpu})
        for _ in range(count):
            whole = post(body)
            client.say(whole[: -len(body)])
            client.say(whole[-len(body) :])
            client.head()
            client.hear(36)
        client.hang_up()
        served.ended(count)
    header = served.records()[0].members
    sent = [header["mono_ns"] + frame.t_ns for frame in frames(served.capture, "c2s")]
    assert len(sent) == len(arrived) == count
    # The clock of the capture starts a little before or after `mono_ns` is read, within the same start-up.
    slack_ns = 1_000_000
    late = [was - at for at, was in zip(arrived, sent, strict=True) if was - at > slack_ns]
    assert not late


def test_stamps_never_go_back_where_segments_meet(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from captures.file import CaptureFile
    from captures.loss import PendingRecord
    from captures.reader import Capture
    from captures.record import members
    from captures.writer import Writer
    from tests.captures.samples import header

    path = place.root / "borders.mcpcap"
    file = CaptureFile(path, segment_bytes=6_000, ring_bytes=1 << 40)
    writer = Writer(file, lambda segment: header(segment), lambda _: None)
    for _ in range(400):
        before = time.monotonic_ns() - writer.origin_ns
        writer.stage([PendingRecord("process", members(event="x" * 50))])
        writer.write_staged()
        writer.stage([PendingRecord("process", members(event="y"))], at_ns=before)
        writer.write_staged()
    assert writer.close(lambda: PendingRecord("close", members(ending="server")))
    stamps = [one.t_ns for one in Capture(path) if isinstance(one, Record)]
    assert len(Capture(path).segments) > 3
    assert stamps == sorted(stamps)


# --- the end, and stderr ---


@pytest.mark.parametrize("lookups", [1, 40])
def test_names_that_nobody_resolves_do_not_hold_up_the_end(place: Place, lookups: int) -> None:
    looking = place.root / "looking"
    looking.mkdir()
    hanging = (
        "import os, pathlib, socket, sys, threading, time\n"
        "real = socket.getaddrinfo\n"
        "def look_up(host, *rest, **how):\n"
        "    if host == 'slow.example':\n"
        f"        (pathlib.Path({str(looking)!r}) / str(threading.get_ident())).touch()\n"
        "        time.sleep(600)\n"
        "    return real(host, *rest, **how)\n"
        "socket.getaddrinfo = look_up\n"
        "sys.modules['uvloop'] = None\n"  # it resolves names by itself
        "from mcpproxy.__main__ import main\n"
        "sys.exit(main())\n"
    )
    capture = place.root / "slow.mcpcap"
    arguments = ["serve", "--capture", str(capture), "http://slow.example/mcp"]
    session = place.start([sys.executable, "-P", "-c", hanging, *arguments], direct=True)
    port = int(session.line().decode().rpartition(":")[2].partition("/")[0])
    with contextlib.ExitStack() as stack:
        for _ in range(lookups):
            client = stack.enter_context(Wire(socket.create_connection(("127.0.0.1", port))))
            client.say(GET)
        wait_until(lambda: len(list(looking.iterdir())) >= min(lookups, 5), "the look-ups")
        session.process.send_signal(signal.SIGTERM)
        assert session.end() == 0
    assert verified(place, capture) == 0


def test_nobody_has_to_read_stderr(place: Place) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    with Upstream(answering(OK)) as upstream:
        session, capture = start_serving(place, upstream.url, stderr=writing)
        os.close(writing)
        port = int(session.line().decode().rpartition(":")[2].partition("/")[0])
        with Wire(socket.create_connection(("127.0.0.1", port))) as client:
            client.say(GET)
            assert client.hear(len(OK)) == OK
        session.process.send_signal(signal.SIGTERM)
        assert session.end() == 0
    os.close(reading)
    assert verified(place, capture) == 0


def test_a_url_that_nobody_takes_does_not_end_it(place: Place) -> None:
    with Upstream(answering(OK)) as upstream, Path("/dev/full").open("wb") as full:
        session, capture = start_serving(place, upstream.url, stdout=full)
        said = wait_until(lambda: capture.exists() and capture.stat().st_size, "the capture")
        assert said
        assert session.process.stderr is not None
        assert b"give the client the URL on stdout, http://127.0.0.1:" in session.process.stderr.readline()
        session.process.send_signal(signal.SIGTERM)
        assert session.end() == 0
    assert verified(place, capture) == 0


# --- HEAD ---


@pytest.mark.parametrize("fault", [b"Host: localhost\r\nHost: localhost\r\n", b"Host: localhost\r\nBad Name: 1\r\n"])
def test_a_refused_head_gets_no_body(place: Place, fault: bytes) -> None:
    with Upstream(answering(OK)) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(b"HEAD /mcp HTTP/1.1\r\n%b\r\n" % fault)
        head, end, body = client.rest().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert (end, body) == (b"\r\n\r\n", b"")
        assert upstream.connections == []


def test_the_body_of_another_request_is_not_hidden_by_a_refused_head(place: Place) -> None:
    from tests.http_harness import free_port

    with serving(place, f"http://127.0.0.1:{free_port()}/mcp") as served, served.client() as client:
        client.say(GET + b"HEAD /mcp HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        head, _, body = client.rest().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 502 ")
        assert len(body) == int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])


def test_chunks_are_still_chunks(place: Place) -> None:
    body = chunked(b'{"jsonrpc":"2.0",', b'"id":1,"result":{}}')
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + body
    with Upstream(answering(answer)) as upstream, serving(place, upstream) as served, served.client() as client:
        client.say(post(PING))
        assert client.hear(len(answer)) == answer
        served.ended()
    assert [frame.raw for frame in frames(served.capture, "s2c")] == [b'{"jsonrpc":"2.0","id":1,"result":{}}']
