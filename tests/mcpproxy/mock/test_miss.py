"""The words for a request that was not recorded."""

import json

from analysis.comparison.requests import bounded
from analysis.playback.nearest import NearestRequest
from analysis.protocol.error_codes import LEGACY_RANGE, NOT_RECORDED
from mcpproxy.mock.miss import REASON, miss_line, miss_response
from mcpproxy.sanitise import sanitise

_NEAREST = NearestRequest(14, "tools/call", "search", ("/arguments/query",), 3, (('"dogs"', None),))


def test_the_error_names_the_nearest_request_and_what_to_do() -> None:
    answer = json.loads(miss_response(b'"x"', "tools/call", "search", _NEAREST))
    assert answer == {
        "jsonrpc": "2.0",
        "id": "x",
        "error": {
            "code": NOT_RECORDED,
            "message": "mcpproxy mock: no recorded answer for tools/call search; the nearest is frame 14, which "
            "differs at /arguments/query; record it, allow the difference with "
            "--ignore 'tools/call search /arguments/query', or use --on-miss pass",
            "data": {
                "mcpproxy": REASON,
                "method": "tools/call",
                "name": "search",
                "nearest": {
                    "frame": 14,
                    "method": "tools/call",
                    "name": "search",
                    "differences": [{"pointer": "/arguments/query", "recorded": '"dogs"'}],
                },
            },
        },
    }
    assert NOT_RECORDED in LEGACY_RANGE


def test_lines_say_how_the_nearest_request_differs() -> None:
    lead = "no recorded answer for tools/call search"
    advice = "record it, or use --on-miss pass"
    pointers = tuple(f"/arguments/{number}" for number in range(5))
    ignored = [f"--ignore 'tools/call search {pointer}'" for pointer in pointers]
    allowed = f"record it, allow the differences with {' '.join(ignored[:2])}, or use --on-miss pass"
    for nearest, expected in (
        (None, f"{lead}, and no request of this method was recorded; {advice}"),
        (
            _NEAREST._replace(name="find"),
            f"{lead}; the nearest is frame 14, tools/call find; {advice}",
        ),
        (
            _NEAREST._replace(pointers=pointers),
            f"{lead}; the nearest is frame 14, which differs at {', '.join(pointers[:3])} and 2 more; {advice}",
        ),
        (
            _NEAREST._replace(pointers=pointers[:2]),
            f"{lead}; the nearest is frame 14, which differs at /arguments/0, /arguments/1; {allowed}",
        ),
        (
            _NEAREST._replace(pointers=("",)),
            f'{lead}; the nearest is frame 14, which differs at ""; record it, or use --on-miss pass',
        ),
        (
            _NEAREST._replace(pointers=()),
            f"{lead} at this point; frame 14 asks for the same; --match arguments allows any order",
        ),
    ):
        assert miss_line("tools/call", "search", nearest) == expected


def test_texts_of_the_traffic_are_sanitised() -> None:
    text = "\x1b[31m\ud800\n'" + "x" * 100_000
    long = NearestRequest(1, bounded(text), bounded(text), (bounded(text),) * 10, 1, ((bounded(text), None),) * 10)
    for nearest in (long, long._replace(pointers=("/\x1b'",), values=(("1", None),)), None):
        line = miss_line(text, text, nearest)
        assert line == sanitise(line)
        answer = json.loads(miss_response(b"1", text, text, nearest))
        assert answer["error"]["message"] == sanitise(answer["error"]["message"])
        assert len(json.dumps(answer)) < 20_000
