"""Ten thousand idle streams through `serve`: how much memory each takes. Part of `make soak`."""

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.harness import Place, prepared
from tests.http_harness import serving

STREAMS = 10_000
"""Fewer if the hard limit of open files is a little lower."""
LEAST_STREAMS = 9_000
SPARE = 100
MOST_KIB = 10.0
"""For each stream. It takes 8.1 with the event loop of Python 3.11, of which asyncio's own objects are nearly half.

The rest is for other versions of Python and for tables that have just doubled; a buffer of 2 KiB would not fit.
"""
PEERS = [sys.executable, "-I", str(Path(__file__).parents[2] / "bench" / "http_peers.py")]


def resident_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.partition("VmRSS:")[2].split()[0])


def started(before: str, *arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        prepared(before, [*PEERS, *arguments]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )


def said(process: "subprocess.Popen[bytes]") -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.soak
def test_ten_thousand_idle_streams(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    streams = STREAMS if hard == resource.RLIM_INFINITY else min(STREAMS, hard // 2 - SPARE)
    if streams < LEAST_STREAMS:
        pytest.skip(f"{STREAMS:,} streams need {2 * (STREAMS + SPARE):,} open files; the hard limit here is {hard:,}")
    raised = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({streams + SPARE}, {hard}))"
    with started(raised, "upstream") as upstream:
        url = f"http://127.0.0.1:{int(said(upstream))}/mcp"
        with serving(place, url, "--max-connections", str(streams + 1)) as served:
            before, began = resident_kib(served.pid), time.monotonic()
            with started(raised, "idle", str(served.address[1]), str(streams)) as clients:
                assert said(clients)
                each = (resident_kib(served.pid) - before) / streams
                assert served.descriptors() >= 2 * streams
                with capsys.disabled():
                    print(f"\n{streams:,} idle streams: {each:.1f} KiB each, {time.monotonic() - began:.0f} s to open")
    assert each <= MOST_KIB
