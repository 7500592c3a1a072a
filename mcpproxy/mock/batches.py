"""Batches: several requests in one unit of bytes, whose answers are sent as one unit, too."""

from typing import NamedTuple

from analysis.playback.items import HttpAnswer, Item
from analysis.playback.script import Script
from analysis.playback.translation import Substitutes, translated
from mcpproxy.mock.outgoing import Outgoing


class MemberAnswer(NamedTuple):
    """The answer to one request, which may have come in a batch."""

    request: int
    raw: bytes
    http: HttpAnswer | None = None
    item: Item | None = None
    """The recorded item that holds it; None if it was not recorded."""
    ids: tuple[bytes, bytes] = (b"", b"")
    """The recorded id, and the id that the client uses now, as JSON tokens."""


class _Batch:
    """A batch that the client has sent."""

    def __init__(self, requests: list[int]) -> None:
        self.open_requests = set(requests)
        self.answers: list[MemberAnswer] = []


class Batches:
    """The batches of a client that are not answered yet."""

    def __init__(self, script: Script) -> None:
        """Begin without a batch."""
        self._script = script
        self._by_request: dict[int, _Batch] = {}

    def add(self, requests: list[int]) -> None:
        """Note that requests came in one batch."""
        batch = _Batch(requests)
        self._by_request |= dict.fromkeys(requests, batch)

    def __contains__(self, request: int) -> bool:
        return request in self._by_request

    def answer(self, answer: MemberAnswer) -> list[Outgoing]:
        """Returns the answer to a request; if it came in a batch, all answers once they are complete."""
        batch = self._by_request.pop(answer.request, None)
        if batch is None:
            return [Outgoing(answer.raw, answer.request, ends_request=True, http=answer.http)]
        batch.open_requests.discard(answer.request)
        batch.answers.append(answer)
        return self._complete_answer(batch)

    def leave(self, request: int) -> list[Outgoing]:
        """Note that a request gets no answer in its batch; returns the answer to the batch if it is complete now."""
        batch = self._by_request.pop(request, None)
        if batch is None:
            return []
        batch.open_requests.discard(request)
        return self._complete_answer(batch)

    def _complete_answer(self, batch: _Batch) -> list[Outgoing]:
        if batch.open_requests or not batch.answers:
            return []
        first, *others = batch.answers
        recorded = self._recorded_batch(batch.answers)
        raw = b"[" + b",".join([answer.raw for answer in batch.answers]) + b"]" if recorded is None else recorded
        ends = [Outgoing(b"", answer.request, ends_request=True) for answer in others]
        return [Outgoing(raw, first.request, ends_request=True, http=first.http), *ends]

    def _recorded_batch(self, answers: list[MemberAnswer]) -> bytes | None:
        """Returns the recorded batch that answers exactly these requests, translated; None if there is none."""
        item = answers[0].item
        if item is None or any(answer.item is None or answer.item.number != item.number for answer in answers):
            return None
        if sum(member.call >= 0 for member in item.members) > len(answers):
            return None
        return translated(self._script.raw(item), Substitutes(dict(answer.ids for answer in answers), {}))
