"""A stdio server that answers any client as the server in a conversation did.

    python replay.py CONVERSATION       a file with a JSON object a line: `dir` and `raw` of each message

A request gets what the server sent from the matching recorded request up to its response, with the new id; each
recorded request is used once. A request that is not in the conversation is refused as an unknown method, except that a
list of tools is empty: clients ask for it of their own accord.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

NO_TOOLS: Final = {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""A result that is an empty list in every revision."""
REFUSAL: Final = "not in this conversation"


class ReplayMessage(NamedTuple):
    """A message of the conversation."""

    is_client: bool
    raw: bytes
    body: Any
    """The parsed message; None if it is not JSON."""


class Asked(NamedTuple):
    """A request of the client that was answered."""

    place: int
    request: dict[str, Any]
    answered: int
    """The index of its response."""


def replay_message(direction: str, raw: bytes) -> ReplayMessage:
    """A message from its bytes."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    return ReplayMessage(direction == "c2s", raw, body)


class Replay:
    """A server that replays the messages of a conversation."""

    def __init__(self, course: list[ReplayMessage]) -> None:
        self._course = course
        self._sent: set[int] = set()
        self.asked = tuple(self._pairs())

    def _pairs(self) -> Iterator[Asked]:
        for place, one in enumerate(self._course):
            request = one.body
            if one.is_client and isinstance(request, dict) and isinstance(request.get("method"), str):
                for later in range(place + 1, len(self._course)) if "id" in request else ():
                    answer = self._course[later]
                    if not answer.is_client and _is_answer(answer.body) and answer.body.get("id") == request["id"]:
                        yield Asked(place, request, later)
                        break

    def is_spent(self, one: Asked) -> bool:
        """Whether the response of a recorded request was sent."""
        return one.answered in self._sent

    def body(self, place: int) -> Any:
        """The message at an index."""
        return self._course[place].body

    def answers(self, request: dict[str, Any]) -> Iterator[bytes]:
        """The lines that the server sends for a request."""
        for one in self.asked:
            if one.answered not in self._sent and _is_same(one.request, request):
                self._sent.add(one.answered)
                for place in range(one.place, one.answered):
                    between = self._course[place]
                    if not between.is_client and place not in self._sent and not _is_answer(between.body):
                        self._sent.add(place)
                        yield between.raw
                yield json.dumps({**self.body(one.answered), "id": request["id"]}).encode()
                return
        outcome = (
            {"result": NO_TOOLS}
            if request["method"] == "tools/list"
            else {"error": {"code": -32601, "message": REFUSAL}}
        )
        yield json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}).encode()


def _is_answer(body: object) -> bool:
    return isinstance(body, dict) and "method" not in body and ("result" in body or "error" in body)


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    first, second = (it["params"] if isinstance(it.get("params"), dict) else {} for it in (one, other))
    named = all(first.get(it) == second.get(it) for it in ("name", "uri", "cursor"))
    return named and one["method"] == other["method"] and ("task" in first) == ("task" in second)


def main(argv: list[str]) -> None:
    told = [json.loads(line) for line in Path(argv[0]).read_text().splitlines()]
    replay = Replay([replay_message(one["dir"], one["raw"].encode()) for one in told])
    for line in sys.stdin:
        request = json.loads(line)
        if "method" in request and "id" in request:
            for answer in replay.answers(request):
                sys.stdout.buffer.write(answer + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
