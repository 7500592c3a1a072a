"""An HTTP session as `serve` records it: a handshake, then calls, some of them answered on a stream."""

from pathlib import Path

from captures.record import members
from tests.captures.samples import frame, header
from tests.mcpproxy.tui.stage import CALL, END, FINE, INITIALIZE, INITIALIZED, Middles, record

PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":%d}}'


def post(number: int, sent: bytes, *answers: bytes, stream: bool = False, ended_by: str = "complete") -> Middles:
    """One exchange."""
    kind = "text/event-stream" if stream else "application/json"
    request = {"method": "POST", "target": "/mcp", "version": "HTTP/1.1", "headers": [["Host", "127.0.0.1:8090"]]}
    response = {"status": 200, "reason": "OK", "version": "HTTP/1.1", "headers": [["Content-Type", kind]]}
    at = {"conn": 1, "exchange": number}
    made: Middles = [
        ("exchange", members(**at, stage="request", request=request, peer="127.0.0.1:5000")),
        ("frame", frame("c2s", sent, unit="http_body", **at)),
        ("exchange", members(**at, stage="response", request=request, response=response)),
    ]
    if stream:
        made.append(("stream", members(**at, dir="s2c", event="opened")))
    unit = "sse_event" if stream else "http_body"
    made += [("frame", frame("s2c", answer, unit=unit, **at)) for answer in answers]
    if stream:
        made.append(("stream", members(**at, dir="s2c", event="ended", events=len(answers), ended_by=ended_by)))
    made.append(("exchange", members(**at, stage="end", request=request, response=response, ended_by="complete")))
    return made


def http_talk(folder: Path, calls: int = 6) -> Path:
    """Write a capture of such a session; returns its path."""
    made: Middles = [("header", header(transport="http", name="library"))]
    made += post(1, INITIALIZE, INITIALIZED)
    for n in range(1, calls + 1):
        if n % 2:
            made += post(n + 1, CALL % (n, n), FINE % (n, n))
        else:
            made += post(n + 1, CALL % (n, n), PROGRESS % n, FINE % (n, n), stream=True)
    return record(folder / "library" / "20261121T101502Z-4f2a.mcpcap", [*made, END])


def two_revisions(folder: Path) -> Path:
    """Write a capture of two sessions, of which the second has a newer revision; returns its path."""
    made: Middles = [("header", header(transport="http", name="library"))]
    made += post(1, INITIALIZE, INITIALIZED) + post(2, CALL % (1, 1), FINE % (1, 1))
    newer = [
        body.replace(b"2025-06-18", b"2025-11-25").replace(b"Cursor", b"Later") for body in (INITIALIZE, INITIALIZED)
    ]
    made += post(3, *newer) + post(4, CALL % (2, 2), FINE % (2, 2))
    return record(folder / "library" / "20261121T101502Z-4f2a.mcpcap", [*made, END])
