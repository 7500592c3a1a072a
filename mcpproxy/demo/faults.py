"""The deliberate faults of the demo server, which make its recordings worth looking at."""

from collections.abc import Callable
from typing import Final, NamedTuple

from mcpproxy.demo.call import Json, encode


class Fault(NamedTuple):
    """A deliberate fault: what is written instead of a correct response."""

    description: str
    """What the server does, for the user."""
    shows: str
    """The rule that reports it, or the stream that shows it."""
    lines: Callable[[Json], list[bytes]]
    """Returns the lines for stdout, given the correct response."""
    stderr: bytes = b""


_NO_VERSION: Final = {"method": "notifications/message", "params": {"level": "info", "data": "prompts are loaded"}}

FAULTS: Final[dict[str, Fault]] = {
    "tools/list": Fault(
        "a line for humans on stdout, before the answer",
        "framing/stdout-not-json",
        lambda answer: [b"Loaded 5 tools\n", encode(answer)],
    ),
    "tools/call add": Fault("a second answer", "id/duplicate-response", lambda answer: [encode(answer)] * 2),
    "tools/call word_count": Fault(
        "the id's type changed: a string for a number",
        "id/type-changed",
        lambda answer: [encode({**answer, "id": str(answer["id"])})],
    ),
    "resources/list": Fault(
        "a warning on stderr, which is allowed, and which most clients hide",
        "stderr",
        lambda answer: [encode(answer)],
        b"warning: the notebook was written by an older version\n",
    ),
    "prompts/list": Fault(
        "a notification without `jsonrpc`, before the answer",
        "jsonrpc/missing-version",
        lambda answer: [encode(_NO_VERSION), encode(answer)],
    ),
    "resources/templates/list": Fault("no answer at all", "timeout/unanswered", lambda _: []),
}
"""The fault that a request gets the first time, by its method and, for a tool call, its tool."""
