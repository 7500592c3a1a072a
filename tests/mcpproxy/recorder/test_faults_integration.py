"""Faults injected into a real recorder: a frame loses its verdict, never its record, and traffic goes on.

Only a fault of the writer ends the recording of a stream, and then everything that is lost is counted.
"""

import json
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Place, Session, members_of
from tests.http_harness import OK, Upstream, Wire, answering, post
from tests.mcpproxy.cli.typed import mcpproxy

PING = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'
BOOM = b'{"jsonrpc":"2.0","id":%d,"method":"boom"}\n'
SABOTAGE = """
import sys
def sabotage(module, name, error=ZeroDivisionError):
    sound = getattr(module, name)
    def broken(*arguments, **named):
        if "boom" in repr((arguments, named)):
            raise error("by the test")
        return sound(*arguments, **named)
    setattr(module, name, broken)
%s
from mcpproxy.__main__ import main
sys.exit(main())
"""
JUDGES = """
import captures.envelope, captures.exact_judge, mcpproxy.recorder.stdio
for module in (captures.envelope, captures.exact_judge, mcpproxy.recorder.stdio):
    sabotage(module, "judge_before_forwarding")
sabotage(captures.envelope, "lines_members")
"""
SPLITTERS = """
from mcpproxy.wire.lines import LineSplitter
sabotage(LineSplitter, "feed_complete", RecursionError)
"""
PORTIONS = """
import mcpproxy.recorder.stdio
sabotage(mcpproxy.recorder.stdio.ChannelTap, "portion_size")
"""
WRITERS = """
import captures.backlog
for name in ("seal", "seal_all"):
    sabotage(captures.backlog, name, MemoryError)
"""
ENDINGS = """
from captures.writer import Writer
def broken(*arguments, **named):
    raise ZeroDivisionError("by the test")
Writer.%s = broken
"""


def start(place: Place, sabotage: str, *options: str, server: tuple[str, ...] = ("cat",)) -> Session:
    capture = place.root / "x.mcpcap"
    words = ["run", "--capture", str(capture), *options, "--", *server]
    session = place.start([sys.executable, "-P", "-c", SABOTAGE % sabotage, *words], direct=True)
    session.capture = capture
    return session


def say(session: Session, *lines: bytes) -> None:
    for line in lines:
        session.send(line)
        assert session.receive(len(line)) == line


def verified(place: Place, path: Path) -> tuple[int, dict[str, Any]]:
    done = mcpproxy("verify", "--json", path)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("sabotage", [JUDGES, SPLITTERS], ids=["judge", "splitter"])
def test_a_fault_costs_a_frame_its_verdict_and_nothing_else(place: Place, sabotage: str) -> None:
    session = start(place, sabotage)
    say(session, PING % 1, BOOM % 2, PING % 3, BOOM % 4, PING % 5)
    assert session.finish() == 0
    assert session.capture is not None
    sent = b"".join((PING % 1, BOOM % 2, PING % 3, BOOM % 4, PING % 5))
    assert session.recorded("c2s") == session.recorded("s2c") == sent
    faults = [members for members in members_of(session.capture, "frame") if "fault" in members]
    assert len(faults) == 4
    assert {members["kind"] for members in faults} == {"unjudged"}
    assert {members["fault"] for members in faults} <= {"ZeroDivisionError", "RecursionError"}
    assert all("boom" in members["raw"] for members in faults)
    told = session.errors()
    assert told.count(b"leaves frames without a verdict") == 1, "once for a session"
    assert verified(place, session.capture)[0] == 0


@pytest.mark.parametrize("method", ["close", "degrade", "post"])
def test_a_fault_at_the_end_does_not_change_how_the_session_ends(place: Place, method: str) -> None:
    session = start(place, ENDINGS % method, server=("sh", "-c", "read line; echo $line; exit 5"))
    say(session, PING % 1)
    assert session.end() == 5
    told = session.errors()
    assert b"Traceback" not in told
    assert told.count(b"a fault in mcpproxy lost records (ZeroDivisionError); traffic continues") == 1, "once"
    assert session.capture is not None
    assert session.recorded("c2s") == session.recorded("s2c") == PING % 1


HTTP_JUDGE = """
import mcpproxy.recorder.body_recorder
sabotage(mcpproxy.recorder.body_recorder, "judge_before_forwarding")
"""
HTTP_RECORDER = """
import mcpproxy.recorder.body_recorder
sabotage(mcpproxy.recorder.body_recorder, "frame_members")
"""


def post_all(place: Place, sabotage: str, *bodies: bytes) -> tuple[Path, bytes]:
    """Send requests through a sabotaged `serve` and read the responses; returns the capture and the stderr."""
    capture = place.root / "x.mcpcap"
    with Upstream(answering(OK)) as upstream:
        words = ["serve", "--capture", str(capture), upstream.url]
        session = place.start([sys.executable, "-P", "-c", SABOTAGE % sabotage, *words], direct=True)
        host, port = session.line().decode().split("/")[2].split(":")
        with Wire(socket.create_connection((host, int(port)))) as client:
            for body in bodies:
                client.say(post(body))
                assert client.hear(len(OK)) == OK
        session.process.send_signal(signal.SIGTERM)
        assert session.end() == 0
    return capture, session.errors()


def test_a_fault_of_serve_costs_a_frame_its_verdict_and_nothing_else(place: Place) -> None:
    capture, told = post_all(place, HTTP_JUDGE, PING % 1, BOOM % 2, PING % 3, BOOM % 4)
    requests = [members for members in members_of(capture, "frame") if members["dir"] == "c2s"]
    assert [members["kind"] for members in requests] == ["request", "unjudged"] * 2
    assert [members.get("fault") for members in requests] == [None, "ZeroDivisionError"] * 2
    assert told.count(b"leaves frames without a verdict") == 1, "once for a session"
    assert verified(place, capture)[0] == 0


def test_a_fault_of_the_writer_of_serve_costs_what_it_was_writing(place: Place) -> None:
    capture, told = post_all(place, WRITERS, PING % 1, BOOM % 2, *(PING % number for number in range(3, 200)))
    assert told.count(b"a fault in mcpproxy lost records (MemoryError); traffic continues") == 1
    status, found = verified(place, capture)
    assert (status, found["state"], found["holes"]) == (3, "incomplete", [])
    requests = [members for members in members_of(capture, "frame") if members["dir"] == "c2s"]
    assert requests[-1]["raw"] == (PING % 199).decode(), "the writer went on"


def test_what_a_fault_costs_a_connection_of_serve_is_counted(place: Place) -> None:
    capture, told = post_all(place, HTTP_RECORDER, PING % 1, BOOM % 2, PING % 3, PING % 4)
    assert b"a fault in mcpproxy ended the recording of a connection" in told
    status, found = verified(place, capture)
    assert (status, found["state"]) == (3, "incomplete")
    (close,) = members_of(capture, "close")
    assert close["totals"]["lost"]["records"] >= 4, "two requests, and their answers"
    assert close["totals"]["lost"]["bytes"] >= 2 * len(PING % 3)


def test_what_cannot_be_portioned_passes(place: Place) -> None:
    session = start(place, PORTIONS)
    giant = BOOM % 1 * 40
    say(session, giant, PING % 2)
    assert session.finish() == 0
    assert b"a fault in mcpproxy ended the recording" in session.errors()


def test_what_a_fault_of_the_writer_costs_is_counted(place: Place) -> None:
    session = start(place, WRITERS)
    say(session, PING % 1, PING % 2, BOOM % 3, *(PING % number for number in range(4, 20)))
    assert session.finish() == 0
    assert session.capture is not None
    told = session.errors()
    assert b"a fault in mcpproxy ended the recording of c2s (MemoryError" in told
    status, found = verified(place, session.capture)
    assert (status, found["state"], found["holes"]) == (3, "incomplete", [])
    (close,) = members_of(session.capture, "close")
    recorded = len(members_of(session.capture, "frame"))
    lost = sum(
        side["frames"] for gap in found["gaps"] if gap["lost"] for side in gap["lost"].values() if "frames" in side
    )
    assert recorded + lost == 38, "every frame is recorded or counted"
    assert close["totals"]["lost"]["records"] >= lost > 0
    text = mcpproxy("verify", session.capture).stdout
    assert b"a fault in mcpproxy ended the recording of a stream" in text
    shown = mcpproxy("show", session.capture).stdout
    assert "a fault in mcpproxy ended the recording of a stream" in shown.decode()
