"""`serve` on a full disk, and with an HTTP proxy: traffic goes on, and the capture says what is missing from it."""

import resource
import sys

import pytest

from tests.harness import Place, members_of, wait_until
from tests.http_harness import Upstream, answering, post, serving
from tests.mcpproxy.cli.typed import mcpproxy

BODY = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"pad":"%b"}}}' % (b"p" * 2000)
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)
LIMIT = 150_000


def limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, resource.RLIM_INFINITY))


@pytest.mark.skipif(sys.platform != "linux", reason="limits of running processes are set by Linux only")
def test_a_disk_that_refuses_changes_no_traffic_and_recording_resumes(place: Place) -> None:
    request = post(BODY)
    with (
        Upstream(answering(OK)) as upstream,
        serving(place, upstream, preexec_fn=limit_files) as served,
        served.client() as client,
    ):
        for _ in range(60):
            client.say(request)
            assert client.hear(len(OK)) == OK
        served.wait_to_hear(b"File too large")
        assert served.capture.stat().st_size <= LIMIT
        resource.prlimit(served.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wait_until(lambda: served.capture.stat().st_size > LIMIT, "recording to resume")
        client.say(request)
        assert client.hear(len(OK)) == OK
    assert served.errors.count(b"File too large") == 1
    assert len(members_of(served.capture, "frame")) == 2 * 61
    assert mcpproxy("verify", served.capture).returncode == 0


def test_a_disk_that_refuses_to_the_end_is_told(place: Place) -> None:
    request = post(BODY)
    with (
        Upstream(answering(OK)) as upstream,
        serving(place, upstream, preexec_fn=limit_files) as served,
        served.client() as client,
    ):
        for _ in range(60):
            client.say(request)
            assert client.hear(len(OK)) == OK
        served.wait_to_hear(b"File too large")
    assert b"File too large" in served.errors
    assert b"records" in served.errors.splitlines()[-2]
    assert mcpproxy("verify", served.capture).returncode == 3
