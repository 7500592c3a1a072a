"""The lines that a mock writes to stderr: what of a capture is not used, and what clients did not ask for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mcpproxy.mock.usage import Miss, Usage
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.counts import count_text

if TYPE_CHECKING:
    from analysis.playback.script import Script
    from mcpproxy.mock.usage import UnusedRequests

MAX_LINES: Final = 20
"""How many lines a list has before the rest is only counted."""
_MAX_NAME_CHARS: Final = 80
_MAX_SEQS: Final = 5


def notice_of(script: "Script") -> str | None:
    """Returns one line on what of a script is used, or missing; None if there is nothing to say."""
    ending, clauses = script.ending, []
    if ending is not None:
        if ending.is_growing:
            clauses.append("it is still being recorded, and is used up to its current end")
        clauses += ending.caveats
    session_count = len(script.sessions)
    if session_count > 1:
        clauses.append(
            f"it holds {count_text(session_count, 'session')}: each handshake of a client gets the next one, then the "
            "last again"
        )
    if not session_count:
        clauses.append("it holds no message of a client, so every request fails")
    return "; ".join(clauses) or None


def end_lines(usage: Usage, script: "Script", *, is_strict: bool) -> list[str]:
    """Returns the misses, and what clients never asked for, as sanitised lines."""
    lines = [_miss_line(miss) for miss in usage.misses]
    if usage.miss_count > len(usage.misses):
        hidden_count = usage.miss_count - len(usage.misses)
        lines.append(f"and {count_text(hidden_count, 'more request')} without a recorded answer")
    lines += [
        f"note: a client tried {method} first, which is of the era that was not recorded; it was refused"
        for method in sorted(usage.probes)
    ]
    if usage.invalid_count:
        lines.append(f"{count_text(usage.invalid_count, 'line')} from the client {_are_no_messages(usage)}")
    if usage.unsendable_count:
        count = count_text(usage.unsendable_count, "recorded message")
        lines.append(f"{count} not sent: a line break in bytes that are not JSON would end the line")
    unused = usage.unused_requests(script)
    lines += _unused_lines(unused)
    if unused and not script.is_complete:
        lines.append("the capture was not read to its end, so there may be more")
    if unused and is_strict:
        total = sum(requests.request_count for requests in unused)
        lines.append(f"--strict: {count_text(total, 'recorded request')} never asked for, so the exit code is 1")
    return lines


def _are_no_messages(usage: Usage) -> str:
    return "is not a message" if usage.invalid_count == 1 else "are not messages"


def _miss_line(miss: Miss) -> str:
    from mcpproxy.mock.miss import failure_line, miss_line

    if miss.failure:
        return failure_line(miss.method, miss.name, miss.failure)
    return miss_line(miss.method, miss.name, miss.nearest)


def _unused_lines(unused: "Sequence[UnusedRequests]") -> list[str]:
    lines = [f"never asked for: {_subject(requests)} ({_frames(requests)})" for requests in unused[:MAX_LINES]]
    if len(unused) > MAX_LINES:
        hidden = sum(requests.request_count for requests in unused[MAX_LINES:])
        lines.append(f"never asked for: {count_text(hidden, 'more request')}")
    return lines


def _subject(requests: "UnusedRequests") -> str:
    return sanitise(" ".join(filter(None, (requests.method, requests.name))), _MAX_NAME_CHARS)


def _frames(requests: "UnusedRequests") -> str:
    shown = requests.seqs[:_MAX_SEQS]
    hidden = requests.request_count - len(shown)
    frames = ", ".join(map(str, shown)) + (f" and {hidden} more" if hidden else "")
    return f"frame {frames}" if requests.request_count == 1 else f"frames {frames}"
