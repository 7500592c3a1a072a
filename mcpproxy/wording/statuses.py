"""Status: what became of a call, in a word and an explanation, for all commands, reports and screens."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from analysis.conversation.call import ERRORS, FAILURES, Call, Outcome, outcome_of
from analysis.conversation.loss_counter import LostRecords
from analysis.conversation.message import Response
from analysis.facts import text_of_error
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import fit
from mcpproxy.wording.failures import failure_text
from mcpproxy.wording.gists import ID_STATES, error_text, summary
from mcpproxy.wording.meaning import Meaning
from mcpproxy.wording.units import duration
from mcpproxy.wording.values import MAX_EXCERPT_CHARS, excerpt, string

_WORDS: Final = {
    Outcome.RESULT: "ok",
    Outcome.ERROR: "error",
    Outcome.TOOL_ERROR: "tool error",
    Outcome.INPUT_REQUIRED: "input required",
    Outcome.TASK: "task",
    Outcome.CANCELLED: "cancelled",
    Outcome.FAILED: "failed",
    Outcome.UNANSWERED: "unanswered",
    Outcome.NOT_RECORDED: "not recorded",
}


class Status(NamedTuple):
    """What a response means, or what became of a request without one."""

    verdict: str
    """`ok`, `error -32602`, `abandoned`, …"""
    text: str = ""
    """The explanation: for a response, a count or the text of an error; otherwise a clause that continues the word."""
    is_bad: bool = False
    late_ns: int | None = None
    """How long after its cancellation the call was answered, if it was."""

    @property
    def word(self) -> str:
        """The verdict, and how late it came: `ok, 2.4 s late`."""
        return self.verdict if self.late_ns is None else f"{self.verdict}, {duration(self.late_ns)} late"

    @property
    def short(self) -> str:
        """The same for places with less room: `ok, late`."""
        return self.verdict if self.late_ns is None else f"{self.verdict}, late"

    @property
    def shortest(self) -> str:
        """The same for places with hardly any room: it says that an error came late, but not which error."""
        return "error, late" if self.late_ns is not None and self.is_bad else self.short


def outcome_status(outcome: Outcome, *, is_abandoned: bool = False) -> Status:
    """The word for an outcome, if nothing more is known about its call.

    Args:
        outcome: the outcome of the call.
        is_abandoned: whether its sender abandoned it.
    """
    if is_abandoned and outcome is Outcome.CANCELLED:
        return Status("abandoned", is_bad=True)
    return Status(_WORDS[outcome], is_bad=outcome in ERRORS or outcome in FAILURES)


def answer_status(response: Response, meaning: Meaning) -> Status:
    """What a response means for its call; if it belongs to none, why, and what it would mean."""
    call = meaning.call
    if call is not None:
        status = _outcome_content_status(response, call.outcome, call.request.method, call.late_ns)
        return status._replace(verdict=_WORDS[Outcome.CANCELLED], is_bad=False) if call.is_acknowledged else status
    content_text = " ".join(filter(None, content_status(response)[:2]))
    request_text = f"; {sanitise(meaning.probable_request, MAX_EXCERPT_CHARS)}" if meaning.probable_request else ""
    return Status(ID_STATES.get(meaning.id_state, "fits no request"), content_text + request_text, is_bad=True)


def content_status(response: Response) -> Status:
    """What a response means by itself, before it is known which call it belongs to."""
    return _outcome_content_status(response, outcome_of(response, None), "", None)


def fate_status(call: Call, *, says_how: bool = True) -> Status:
    """What became of a call without a response.

    Args:
        call: the call.
        says_how: whether to say that closing its HTTP exchange was the cancellation.
    """
    waited_ns = call.cancelled_after_ns
    is_abandoned = call.abandoned_ns is not None
    status = outcome_status(call.outcome, is_abandoned=is_abandoned)
    texts = []
    lost_records = call.lost_records
    if lost_records is not None:
        texts.append(f": lost with {lost_records_text(lost_records)}?")
    if call.outcome is Outcome.FAILED:
        texts.append(f": {failure_text(call.http, call.broken_after_ns)}")
    if waited_ns is not None and call.outcome is Outcome.CANCELLED:
        texts.append(f" after {duration(waited_ns)}")
        texts.append(
            " by closing its HTTP exchange" if says_how and call.is_closed_by_client and not is_abandoned else ""
        )
    elif waited_ns is not None and is_abandoned:
        texts.append(f", abandoned after {duration(waited_ns)}")
    if call.cancelled_ns is not None and call.cancel_reason:
        texts.append(f": {sanitise(call.cancel_reason, MAX_EXCERPT_CHARS)}")
    if call.probable_answer is not None:
        texts.append(f", {sanitise(call.probable_answer.text, MAX_EXCERPT_CHARS)}")
    return status._replace(text="".join(texts))


def lost_records_text(lost_records: LostRecords) -> str:
    """The lost records among which a response may be: `records 120 to 140`, `records in 3 places from 120 to 300`."""
    first, last, places = lost_records
    if first == last:
        return f"record {first:,}"
    if places == 1:
        return f"records {first:,} to {last:,}"
    return f"records in {places:,} places from {first:,} to {last:,}"


def lost_answer_forms(lost_records: LostRecords) -> tuple[str, ...]:
    """How a row says that a response may be lost, from the longest form to the shortest."""
    first, last, _ = lost_records
    numbers = f"{first:,}" if first == last else f"{first:,}–{last:,}"
    return f"answer lost with {numbers}?", f"lost with {numbers}?", f"lost {numbers}?", _WORDS[Outcome.NOT_RECORDED]


def waiting_status(waited_ns: int | None = None) -> Status:
    """The status of a request that may still be answered."""
    return Status("waiting", "" if waited_ns is None else f" for {duration(waited_ns)}")


def _outcome_content_status(response: Response, outcome: Outcome, method: str, late_ns: int | None) -> Status:
    if outcome is Outcome.ERROR:
        return Status(*_error_texts(response), is_bad=True, late_ns=late_ns)
    result = response.result if isinstance(response.result, dict) else {}
    return Status(_WORDS[outcome], _explanation(outcome, result, method), outcome in ERRORS, late_ns)


def _explanation(outcome: Outcome, result: Mapping[str, Any], method: str) -> str:
    if outcome is Outcome.TOOL_ERROR:
        return error_text(result)
    if outcome is Outcome.INPUT_REQUIRED:
        input_requests = result.get("inputRequests")
        methods = (
            [string(request, "method") for request in input_requests.values()]
            if isinstance(input_requests, dict)
            else []
        )
        return sanitise(", ".join(filter(None, methods)), MAX_EXCERPT_CHARS)
    if outcome is Outcome.TASK:
        return sanitise(string(result, "task", "taskId") or string(result, "taskId"), MAX_EXCERPT_CHARS)
    return summary(result, method)


def error_word(error: Mapping[str, Any]) -> str:
    """The verdict on a JSON-RPC error: `error -32602`."""
    return f"error {fit(excerpt(error.get('code')), 12) if 'code' in error else 'without code'}"


def _error_texts(response: Response) -> tuple[str, str]:
    error = response.error
    if not isinstance(error, dict):
        return "error", excerpt(error)
    message = text_of_error(response)
    return error_word(error), sanitise(message, MAX_EXCERPT_CHARS) if message is not None else excerpt(
        error.get("data", "")
    )
