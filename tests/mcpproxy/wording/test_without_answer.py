"""What is said about requests without a response."""

from analysis.store.stats import AbandonedRequests, UnansweredRequests
from mcpproxy.wording.without_answer import (
    abandoned_kind,
    doubt_texts,
    first_abandoned,
    late_count_text,
    late_text,
    unanswered_kind,
)

LONGEST = AbandonedRequests("ping", 2, 1, 35_000.0, 8, "tired\x1b", 1_500.0, 1, "/a.mcpcap", None, None)
OPEN = UnansweredRequests("tools/call dig", 5, [4, 5, 6, 7, 9], 1, 0, 0, 1, "/a.mcpcap", 12_000.0, 40, "4")


def test_abandoned_requests_name_the_one_that_waited_longest() -> None:
    text = 'ping 2 (1 answered late), the longest after 35.0 s (frame 8, "tired\\x1b", answered 1.5 s later)'
    assert abandoned_kind(LONGEST) == text
    alone = LONGEST._replace(times=1, late=0, reason=None, late_ms=None, probable_answer=9)
    assert abandoned_kind(alone, "a") == "ping after 35.0 s (frame 8 of a, probably answered by frame 9 without an id)"
    assert late_text(None) == "never answered"
    assert (late_count_text(1), late_count_text(0)) == ("1 answered late", "none answered")


def test_unanswered_requests_name_their_first_frames() -> None:
    assert unanswered_kind(OPEN) == (
        "tools/call dig (frames 4, 5, 6, …, waiting for 12.0 s, the first probably answered by frame 40 with id 4)"
    )
    assert unanswered_kind(OPEN._replace(captures=3)) == "tools/call dig 5 in 3 captures"
    alone = OPEN._replace(times=1, requests=[4], live=0, probable_answer=None)
    assert unanswered_kind(alone, "a") == "tools/call dig (frame 4 of a)"
    assert list(doubt_texts(1, 0, 2)) == [
        "1 may still be answered",
        "responses to 2 may be in frames that could not be parsed",
    ]


def test_the_first_abandoned_request_is_quoted() -> None:
    assert first_abandoned(1, 9, "x") == "1 request was abandoned in frame 9: x."
    assert first_abandoned(2, 9, "x") == "2 requests were abandoned, the first in frame 9: x."
