"""What totals and lists say about abandoned and unanswered requests, for `check`, `stats` and reports."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from analysis.conversation.call import ProbableAnswer
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import duration, nanoseconds

if TYPE_CHECKING:
    from analysis.store.stats import AbandonedRequests, UnansweredRequests

MAX_NAMED_FRAMES: Final = 3
"""The most frames that are named."""
MAX_REASON_CHARS: Final = 60
"""The most characters of the reason for a cancellation."""
_MAX_WHAT_CHARS: Final = 100
"""The most characters of a method and a name."""


def first_abandoned(count: int, frame: int, message: str) -> str:
    """How many requests were abandoned, with a finding about the first: `2 requests were abandoned, the first in …`.

    Args:
        count: the number of requests.
        frame: the frame of the first of them.
        message: what the finding says about it.
    """
    predicate = "was abandoned" if count == 1 else "were abandoned, the first"
    return f"{count_text(count, 'request')} {predicate} in frame {frame}: {sanitise(message)}."


def late_text(late_ms: float | None) -> str:
    """How long after its cancellation a call was answered: `answered 1.5 s later`, or `never answered`."""
    return "never answered" if late_ms is None else f"answered {duration(nanoseconds(late_ms))} later"


def late_count_text(count: int) -> str:
    """How many abandoned requests were answered anyway: `1 answered late`, or `none answered`."""
    return f"{count:,} answered late" if count else "none answered"


def probable_answer_text(row: "AbandonedRequests | UnansweredRequests") -> str:
    """Returns which response with a wrong id probably answered a request, or an empty string if there is none."""
    if row.probable_answer is None:
        return ""
    return sanitise(ProbableAnswer(row.probable_answer, row.probable_answer_id).text)


def abandoned_kind(row: "AbandonedRequests", capture: str = "") -> str:
    """Abandoned requests of one kind, with the one that waited longest.

    It reads `ping 2 (1 answered late), the longest after 35.0 s (frame 8)`.

    Args:
        row: the figures of these requests.
        capture: the name of the capture with the longest wait; empty if there is only one capture.
    """
    details = [
        f"frame {row.request}{f' of {capture}' if capture else ''}",
        f'"{sanitise(row.reason, MAX_REASON_CHARS)}"' if row.reason else "",
        "" if row.late_ms is None else late_text(row.late_ms),
        probable_answer_text(row),
    ]
    late = f" ({late_count_text(row.late)})" if row.late else ""
    times = f" {row.times:,}{late}, the longest" if row.times > 1 else ""
    wait_text = duration(nanoseconds(row.waited_ms))
    return f"{sanitise(row.what, _MAX_WHAT_CHARS)}{times} after {wait_text} ({', '.join(filter(None, details))})"


def unanswered_kind(row: "UnansweredRequests", capture: str = "") -> str:
    """Unanswered requests of one kind, with their first frames: `tools/call search (frames 4, 5, 6, …)`.

    Args:
        row: the figures of these requests.
        capture: as in `abandoned_kind`.
    """
    name = sanitise(row.what, _MAX_WHAT_CHARS)
    if row.captures > 1:
        # Frame numbers mean nothing without their capture.
        return f"{name} {row.times:,} in {row.captures:,} captures"
    numbers = [*map(str, row.requests[:MAX_NAMED_FRAMES]), *(["…"] if row.times > MAX_NAMED_FRAMES else [])]
    probable_answer = probable_answer_text(row)
    details = [
        f"{'frame' if row.times == 1 else 'frames'} {', '.join(numbers)}{f' of {capture}' if capture else ''}",
        f"waiting for {duration(nanoseconds(row.waited_ms))}" if row.live else "",
        f"{'the first ' if row.times > 1 else ''}{probable_answer}" if probable_answer else "",
    ]
    return f"{name} ({', '.join(filter(None, details))})"


def doubt_texts(live: int, may_be_lost: int, may_be_unjudged: int) -> Iterator[str]:
    """What is uncertain about unanswered requests: how many responses may still come, or may be missing.

    Args:
        live: the number of requests in captures that are being recorded.
        may_be_lost: the number of requests in captures that lack records or bodies.
        may_be_unjudged: the number of other requests before frames that could not be parsed.
    """
    if live:
        yield f"{live:,} may still be answered"
    if may_be_lost:
        yield f"responses to {may_be_lost:,} may be among the lost records"
    if may_be_unjudged:
        yield f"responses to {may_be_unjudged:,} may be in frames that could not be parsed"
