"""The traffic of a report: a row for each line that `show` would print, in columns, and the payloads next to them.

The words are those of `show` and `tui`; `mcpproxy.wording.lines` sanitises them. Payloads are exact; the page escapes
them when it shows them.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from analysis.conversation.call import Call, MessageContext
from analysis.conversation.fold import Fold
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import Notification, Request, Response
from analysis.facts import raw_of
from analysis.protocol.extensions import ENDLESS_METHODS
from analysis.protocol.revisions import rank_of
from analysis.reading import Step
from analysis.rules.finding import Level
from captures.frame import Frame
from captures.record import Record
from mcpproxy.html_report import limits
from mcpproxy.html_report.blocks import Payloads
from mcpproxy.report.conversation import Conversation, ConversationItem
from mcpproxy.report.conversation_rows import Batch, frame_of, line_of, size_of
from mcpproxy.report.waits import waited_ns
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.facts import Fact, extension_facts, facts, outcome_facts
from mcpproxy.wording.http_head import request_head, response_head
from mcpproxy.wording.logins import LegLine, LoginSummary
from mcpproxy.wording.records import Remark
from mcpproxy.wording.statuses import Status, fate_status, waiting_status
from mcpproxy.wording.turns import id_facts

MAX_METHOD_CHARACTERS: Final = 120
"""The maximum length of a method, in characters."""
_MAX_AWAITED_MARKS: Final = 20
"""The maximum number of findings that are kept for a row that comes later."""
NO_NUMBER: Final = -1
"""The value of a number that a row does not have."""


class _TrafficRow(NamedTuple):
    """The content of a row about a message or remark."""

    kind: str
    """request, response, notification, batch, other (not a message), login, leg or remark."""
    way: str = ""
    """→ or ←, or the sign of a remark."""
    method: str = ""
    name: str = ""
    id: str = ""
    word: str = ""
    """The outcome that a response shows, or what became of a request without one."""
    text: str = ""
    is_bad: bool = False
    problem: str = ""
    """The rule that the frame breaks by itself."""
    size: int = NO_NUMBER
    took_ns: int = NO_NUMBER
    facts: tuple[tuple[str, str, bool], ...] = ()
    """What `show --frame` says, such as how a request was cancelled: name, text, and whether it is bad."""
    exchange: int = NO_NUMBER
    login: int = NO_NUMBER
    """For a leg, the row of its login, which is above."""
    request_seq: int = NO_NUMBER
    """For a leg, the number of the record of its request; that of its end is `seq`."""


class Traffic:
    """All rows, by column, and the findings of each."""

    def __init__(self, payloads: Payloads, payload_limit: int) -> None:
        """Start without rows.

        Args:
            payloads: receives the payloads.
            payload_limit: how many bytes of each payload are kept.
        """
        self.payloads = payloads
        self.cut = payload_limit
        self.columns: dict[str, list[Any]] = {
            name: [] for name in ("capture", "seq", "t", "session", *_TrafficRow._fields, "payload", "level", "rules")
        }
        self.heads: list[tuple[int, int, int]] = []
        """For each HTTP exchange: its capture, its number, and the payload with its two heads."""
        self.rows: dict[tuple[int, int], int] = {}
        """The first row of a record, by capture and number."""
        self.leg_count = self.omitted_leg_count = 0
        """How many legs of logins have a row, and how many have none because there are too many."""
        self._awaited_rows: dict[tuple[int, int], list[tuple[str, Level]]] = {}
        """The records whose rows come later, with the findings about them so far."""

    def __len__(self) -> int:
        return len(self.columns["seq"])

    def add_row(self, capture: int, seq: int, t_ns: int, session: int, row: _TrafficRow, payload: int) -> int:
        """Add a row; returns its number."""
        number = len(self)
        for name, value in (
            *(("capture", capture), ("seq", seq), ("t", t_ns // 1000), ("session", session)),
            *zip(_TrafficRow._fields, row, strict=True),
            *(("payload", payload), ("level", 0), ("rules", "")),
        ):
            self.columns[name].append(value)
        for record in (seq, row.request_seq):
            self.rows.setdefault((capture, record), number)
            for rule, level in self._awaited_rows.pop((capture, record), ()):
                self.mark_finding(capture, record, rule, level)
        return number

    def await_row(self, capture: int, seq: int) -> None:
        """Expect the row of a record later: that of a leg comes with its login."""
        if len(self._awaited_rows) < limits.MAX_LEGS:
            self._awaited_rows[capture, seq] = []

    def forget_row(self, capture: int, seq: int) -> None:
        """Stop expecting the row of a record."""
        self._awaited_rows.pop((capture, seq), None)

    def mark_finding(self, capture: int, seq: int, rule: str, level: Level) -> None:
        """Mark the row of a record that a finding is about."""
        row = self.rows.get((capture, seq))
        if row is None:
            marks = self._awaited_rows.get((capture, seq))
            if marks is not None and len(marks) < _MAX_AWAITED_MARKS:
                marks.append((rule, level))
        else:
            self.columns["level"][row] = max(self.columns["level"][row], int(level))
            rules = self.columns["rules"][row].split()
            if rule not in rules:
                self.columns["rules"][row] = " ".join([*rules, rule])

    def set_outcome(self, row: int, status: Status, facts: Iterable[Fact]) -> None:
        """Write into the row of a request how the request ended without a response."""
        self.columns["facts"][row] = _json_facts(facts)
        self.columns["word"][row] = f"{status.word}{status.text}"
        self.columns["is_bad"][row] = status.is_bad


class CaptureTraffic:
    """Turns one capture into rows."""

    def __init__(self, traffic: Traffic, capture: int, fold: Fold) -> None:
        """Start without rows.

        Args:
            traffic: receives the rows.
            capture: the position of the capture in the report.
            fold: the state of the conversation, which each step updates.
        """
        self.frame_count = self.last_record = 0
        """How many frames have rows, and the number of the last record that has one."""
        self._traffic = traffic
        self._capture = capture
        self._conversation = Conversation(fold)
        self._open_requests: dict[tuple[int, int | None], int] = {}
        """The rows of requests that have no response so far."""
        self._headless_exchanges: dict[int, int] = {}
        """Open HTTP exchanges, whose heads have not been written yet, and the first record of each."""

    def on_step(self, step: Step) -> None:
        """Process the next step, unless it is the last."""
        item = step.item
        if isinstance(item, Frame):
            self.frame_count += 1
        seq = item.seq if isinstance(item, Frame | Record) else NO_NUMBER
        self.last_record = max(self.last_record, seq)
        for shown_item in self._conversation.items_of(step):
            self._add_item(shown_item, seq)
        for call in step.unanswered:
            self._set_outcome(call)
        number = item.members.get("exchange") if isinstance(item, Record) and item.rec == "exchange" else None
        if isinstance(item, Record) and type(number) is int:
            first_record = self._headless_exchanges.setdefault(number, seq)
            self._traffic.await_row(self._capture, seq)
            if item.members.get("stage") == "end":
                self._add_head(number)
                if self._conversation.session.logins.of_exchange(number) is None:
                    self._traffic.forget_row(self._capture, first_record)
                    self._traffic.forget_row(self._capture, seq)

    def finish(self, last_step: Step, *, is_whole: bool) -> None:
        """Process the last step.

        Args:
            last_step: the last step.
            is_whole: whether all earlier steps were processed; if not, the end and unanswered requests get no row.
        """
        for number in sorted(self._headless_exchanges):
            self._add_head(number)
        if not is_whole:
            return
        for item in self._conversation.items_of(last_step):
            if isinstance(item.content, Remark | MessageContext | LoginSummary):
                self._add_item(item, NO_NUMBER)
        fold = self._conversation.session
        for call in fold.open_calls():
            if call.response is None:
                may_come = last_step.end == "open" and call.is_open
                self._set_outcome(call, waited_ns(fold, call.request) if may_come else None)

    def _set_outcome(self, call: Call, waits_ns: int | None = None) -> None:
        """Record how a request without a response ended, if it has a row and expects one.

        Args:
            call: the call of the request.
            waits_ns: how long it has waited, if it may still be answered.
        """
        row = self._open_requests.get((call.request.seq, call.request.index))
        if row is not None and call.request.method not in ENDLESS_METHODS:
            status = fate_status(call) if waits_ns is None else waiting_status(waits_ns)
            self._traffic.set_outcome(row, status, _request_facts(call, waits_ns))

    def _add_head(self, number: int) -> None:
        self._headless_exchanges.pop(number, None)
        http = self._conversation.session.exchanges.get(number)
        if http is not None and len(self._traffic.heads) < limits.MAX_HTTP_HEADS:
            payload = self._traffic.payloads.add(_heads(http))
            self._traffic.heads.append((self._capture, number, payload))

    def _add_item(self, item: ConversationItem, seq: int) -> None:
        traffic, content = self._traffic, item.content
        if isinstance(content, Remark):
            row = _TrafficRow("remark", content.glyph, text=content.full_text, is_bad=content.role == "bad")
            exchange = NO_NUMBER if content.exchange is None else content.exchange
            traffic.add_row(self._capture, seq, item.t_ns, NO_NUMBER, row._replace(exchange=exchange), NO_NUMBER)
        elif isinstance(content, Batch):
            frame = content.frame
            traffic.add_row(
                self._capture, frame.seq, frame.t_ns, NO_NUMBER, _row_of(content), self._add_payload((frame,))
            )
        elif isinstance(content, LoginSummary):
            self._add_login(content)
        elif isinstance(content, MessageContext):
            self._add_message(content)

    def _add_login(self, login: LoginSummary) -> None:
        """Add a row for a login, and one below it for each leg."""
        traffic = self._traffic
        # The outcome stands out if it matters.
        word, outcome = ("", login.outcome) if login.is_unneeded else (login.outcome, "")
        texts = (outcome, login.explanation, login.extent, login.client)
        row = _TrafficRow(
            "login",
            "▲" if login.is_bad else "·",
            f"login {login.number}",
            word=word,
            text="  ".join(filter(None, texts)),
            is_bad=login.is_bad,
            took_ns=login.took_ns,
            facts=_json_facts(_login_facts(login)),
        )
        number = traffic.add_row(self._capture, NO_NUMBER, login.ended_ns, NO_NUMBER, row, NO_NUMBER)
        for leg in login.legs:
            if traffic.leg_count == limits.MAX_LEGS:
                traffic.omitted_leg_count += 1
                continue
            traffic.leg_count += 1
            traffic.add_row(
                self._capture, leg.seq, leg.started_ns, NO_NUMBER, _row_of_leg(leg)._replace(login=number), NO_NUMBER
            )

    def _add_message(self, context: MessageContext) -> None:
        traffic, message, call = self._traffic, context.message, context.answered
        row = _row_of(context)
        if isinstance(message, Response | Notification):
            row = row._replace(facts=_json_facts(facts(context, None)))
        elif context.call is not None and not context.is_repeat:
            row = row._replace(facts=_json_facts(_context_facts(context.call)))
        if call is not None and call.latency_ns is not None and call.has_exact_times:
            row = row._replace(took_ns=call.latency_ns)
        payload = NO_NUMBER if message.index is not None else self._add_payload(message.frames)
        number = traffic.add_row(self._capture, message.seq, message.t_ns, context.session.number, row, payload)
        if context.is_repeat:
            return
        if isinstance(message, Request):
            self._open_requests[message.seq, message.index] = number
        elif call is not None:
            request = self._open_requests.pop((call.request.seq, call.request.index), None)
            if request is not None:
                traffic.columns["facts"][request] = _json_facts(_request_facts(call))

    def _add_payload(self, frames: tuple[Frame, ...]) -> int:
        return self._traffic.payloads.add(_text(raw_of(frames), self._traffic.cut))


def _request_facts(call: Call, waits_ns: int | None = None) -> Iterator[Fact]:
    """Yields what the detail of a request shows: what became of it, its extension, and the ids of its client."""
    yield from outcome_facts(call, waits_ns)
    yield from _context_facts(call)


def _context_facts(call: Call) -> Iterator[Fact]:
    """Yields what the detail of a request shows from the start: its extension, and the ids that its client gave it."""
    yield from extension_facts(call.request, rank_of(call.revision), call.session)
    yield from id_facts(call.client_ids)


def _login_facts(login: LoginSummary) -> Iterator[Fact]:
    """Yields what the detail of a login shows, apart from its outcome and its legs."""
    if login.is_unneeded:
        yield Fact("outcome", login.outcome)
    if login.explanation:
        yield Fact("reason", login.explanation, is_bad=login.is_bad)
    yield Fact("requests", f"{login.request_count:,}")
    if login.omitted_count:
        yield Fact("not kept", count_text(login.omitted_count, "request"))
    if login.client:
        yield Fact("client", login.client)


def _row_of_leg(leg: LegLine) -> _TrafficRow:
    """Returns the row of a leg, in which its facts are text that the filter finds."""
    times = f"×{leg.times:,}" if leg.times > 1 else ""
    # The status and the text before the facts contain the error already.
    facts = ", ".join(
        f"{fact.name} {fact.text}" for fact in leg.facts if not fact.is_bad and fact.name != "description"
    )
    return _TrafficRow(
        "leg",
        "▲" if leg.has_failed else "·",
        leg.name,
        word=leg.status,
        text="  ".join(filter(None, (times, leg.request, leg.description, facts))),
        is_bad=leg.has_failed,
        took_ns=leg.took_ns,
        facts=_json_facts(leg.facts),
        exchange=leg.exchange,
        request_seq=leg.request_seq,
    )


def _json_facts(facts: Iterable[Fact]) -> tuple[tuple[str, str, bool], ...]:
    """Returns facts as tuples, which JSON can represent."""
    return tuple((fact.name, fact.text, fact.is_bad) for fact in facts)


def _text(raw: bytes, max_bytes: int) -> str:
    r"""Returns the first `max_bytes` bytes as text; bytes that are not UTF-8 become `\xNN`. No character is split."""
    if len(raw) > max_bytes:
        while max_bytes and 0x80 <= raw[max_bytes] < 0xC0:
            max_bytes -= 1
        raw = raw[:max_bytes]
    return raw.decode("utf-8", "backslashreplace")


def _heads(http: HttpExchange) -> str:
    """Returns the two heads of an HTTP exchange, with a blank line between them."""
    heads = (request_head(http), response_head(http))
    return "\n\n".join("\n".join("".join(span.text for span in line) for line in head) for head in heads)


def _row_of(item: MessageContext | Batch) -> _TrafficRow:
    line, frame, size = line_of(item), frame_of(item), size_of(item)
    status = line.status or Status("", line.gist.text)
    return _TrafficRow(
        "other" if line.kind in ("aside", "invalid") else line.kind,
        line.direction.text[0],
        line.subject.text[:MAX_METHOD_CHARACTERS],
        line.name,
        line.id,
        status.word,
        status.text,
        is_bad=status.is_bad or line.kind == "invalid",
        problem=line.problem,
        size=NO_NUMBER if size is None else size,
        exchange=NO_NUMBER if frame.exchange is None else frame.exchange,
    )
