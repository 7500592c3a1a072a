"""The misses of a mock, as the capture of its conversation shows them."""

from collections.abc import Iterable
from typing import Any, Final

from analysis.protocol.methods import OPENING_METHODS
from mcpproxy.mock.miss import REASON
from mcpproxy.sanitise import sanitise
from mcpproxy.testing.calls import RecordedCall
from mcpproxy.wording.counts import count_text

_MAX_LISTED_MISSES: Final = 10


class RequestsMissed(AssertionError):
    """A mock got requests that its capture does not have or, if it is strict, did not get all that it has."""


def missed_calls(calls: Iterable[RecordedCall]) -> list[RecordedCall]:
    """Returns the calls that a mock answered with its own error, because they were not recorded.

    Those that open a session are left out: a client may try another revision first, and go on.
    """
    return [call for call in calls if call.method not in OPENING_METHODS and _is_miss(call.error)]


def _is_miss(error: Any) -> bool:
    data = error.get("data") if isinstance(error, dict) else None
    return isinstance(data, dict) and data.get("mcpproxy") == REASON


def misses_text(calls: list[RecordedCall], recording: str) -> str:
    """Returns the text about missed calls: a line for each of the first ones, safe to print.

    Args:
        calls: the calls, as from `missed_calls`.
        recording: the name of the capture that the mock plays.
    """
    lines = [f"{count_text(len(calls), 'request is', 'requests are')} not in {sanitise(recording, 200)}"]
    for call in calls[:_MAX_LISTED_MISSES]:
        subject = sanitise(" ".join(filter(None, (call.method, call.name))), 200)
        lines.append(f"  {subject}: {sanitise(str(call.error.get('message')), 600)}")
    if len(calls) > _MAX_LISTED_MISSES:
        lines.append(f"  … {len(calls) - _MAX_LISTED_MISSES:,} more")
    return "\n".join(lines)
