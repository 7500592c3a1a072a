"""HttpAnswers: collects how a server answered each HTTP exchange, apart from the messages in it."""

from typing import Final

from analysis.conversation.http_exchange import HttpExchange
from analysis.playback.items import HttpAnswer
from analysis.playback.request_fields import is_repeatable
from analysis.playback.script_table import ScriptTable
from analysis.reading import Reading
from captures.record import Record

REPEATED_FIELDS: Final = frozenset(
    {
        "accept",
        "accept-post",
        "allow",
        "cache-control",
        "content-language",
        "content-type",
        "link",
        "location",
        "mcp-protocol-version",
        "retry-after",
        "www-authenticate",
        "x-accel-buffering",
    }
)
"""The header fields of a response that can be repeated."""
REFUSAL_FIELDS: Final = frozenset({"server", "via"})
"""Fields that are repeated with a refusal: they show whether the server or a gateway refused."""
MAX_NUMBER: Final = (1 << 63) - 1
"""The highest number of an exchange that is kept; no recorder gets that far."""
_ENDS: Final = (None, "complete", "client", "server", "proxy", "error")
_STATUSES: Final = range(100, 1_000)
_MIN_REFUSAL_STATUS: Final = 300
_SESSION_FIELD: Final = "mcp-session-id"


class HttpAnswers:
    """Fills the HTTP answers of a table from the exchanges of a reading."""

    def __init__(self, reading: Reading, table: ScriptTable) -> None:
        """Create an object that has seen no exchanges."""
        self._reading, self._table = reading, table
        self._calls: dict[int, tuple[int, ...]] = {}
        """The client's calls in exchanges without a response so far."""
        self._fields: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = {}

    def add_calls(self, http: HttpExchange, calls: tuple[int, ...]) -> None:
        """Note that an exchange carried a message of the client, with these calls."""
        number = http.number
        self._calls[number] = self.calls_in(number) + calls
        if number in self._table.http_answers:
            self._put(http)

    def note_server_message(self, http: HttpExchange) -> None:
        """Note that an exchange carried a message of the server: only that may show to which session it belongs."""
        answer = self._table.http_answers.get(http.number)
        if answer is not None and not answer.session:
            self._put(http)

    def calls_in(self, number: int) -> tuple[int, ...]:
        """Returns the client's calls that an exchange carried."""
        calls = self._calls.get(number)
        if calls is not None:
            return calls
        answer = self._table.http_answers.get(number)
        return () if answer is None else answer.calls

    def on_record(self, record: Record, segment: int) -> int | None:
        """Note what a record says about an exchange; return the number of the exchange."""
        members = record.members
        number = members.get("exchange")
        http = self._reading.exchange(number) if type(number) is int and 0 < number <= MAX_NUMBER else None
        if http is None:
            return None
        stage = members.get("stage")
        if isinstance(members.get("response_text"), str) and members["response_text"]:
            self._table.response_texts[http.number] = segment, max(0, record.offset)
        if stage == "response" or stage == "end" or (record.rec == "stream" and members.get("event") == "ended"):
            self._put(http)
        return http.number

    def _put(self, http: HttpExchange) -> None:
        started, end = http.started_ref or http.answered_ref, http.end_ref
        session = self._reading.fold.routing.session_of_exchange(http)
        answer = HttpAnswer(
            http.number,
            0 if session is None else session.number,
            http.method[:20],
            self.calls_in(http.number),
            _status_of(http),
            self._repeated_fields(http),
            "",
            (http.ended_by or "") if http.ended_by in _ENDS else "error",
            0 if started is None else started.t_ns,
            -1 if end is None else end.t_ns,
            (session is not None and session.is_legacy) or bool(http.method == "GET" and http.uri_key),
            http.retry,
            _SESSION_FIELD in http.answer_fields,
        )
        self._table.put_http_answer(answer, has_message=http.number in self._calls)
        if end is not None:
            self._calls.pop(http.number, None)

    def _repeated_fields(self, http: HttpExchange) -> tuple[tuple[str, str], ...]:
        is_refusal = _status_of(http) >= _MIN_REFUSAL_STATUS
        repeated = REPEATED_FIELDS | REFUSAL_FIELDS if is_refusal else REPEATED_FIELDS
        fields = tuple(
            [
                (name, value)
                for name, value in http.answer_field_lines
                if name in repeated and _can_be_repeated(name, value)
            ]
        )
        return self._fields.setdefault(fields, fields) if len(self._fields) < 1_000 else fields


def _status_of(http: HttpExchange) -> int:
    """Returns the status of an exchange; 0 if there is none, or none that HTTP can have."""
    return http.status if http.status is not None and http.status in _STATUSES else 0


def _can_be_repeated(name: str, value: str) -> bool:
    if not is_repeatable(value):
        return False
    # An absolute address would send the client to the recorded server.
    return name != "location" or (value.startswith("/") and not value.startswith("//"))
