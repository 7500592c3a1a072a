"""The page of one message, as `mcpproxy show --frame` prints it: its kind, partner, times, findings and text.

`SelectedMessages` needs all steps of a reading, in order. Its memory is bounded by the requested frames and by the
state of the conversation.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from analysis.conversation.call import Call, MessageContext, context_of
from analysis.conversation.client_ids import NO_IDS
from analysis.conversation.fold import Fold
from analysis.conversation.message import Message, Request, Response
from analysis.facts import size_of
from analysis.filter import Facts, Filter, facts_of
from analysis.reading import End, Step
from analysis.rules.finding import Level
from captures.frame import Frame
from captures.record import Record
from mcpproxy.check_run.result import LocatedFinding
from mcpproxy.report.waits import waited_ns
from mcpproxy.sanitise import sanitise
from mcpproxy.wording import units
from mcpproxy.wording.bodies import message_lines
from mcpproxy.wording.facts import Fact, facts, title
from mcpproxy.wording.http_head import request_head, response_head
from mcpproxy.wording.logins import outcome_text
from mcpproxy.wording.records import Remark, members_of, remark_on
from mcpproxy.wording.spans import Role, Span, Style
from mcpproxy.wording.turns import id_facts

_LABEL_CELLS: Final = 11
"""The width of the label before a value, in cells."""
_MEMBER_CELLS: Final = len("observed_start") + 1
"""The width of the label before a member of a record, in cells."""
_DIRECTIONS: Final = {"client": "client → server", "server": "server → client"}


_Key: TypeAlias = tuple[int, int]
"""The number of a message's frame, and the message's position in its batch; -1 outside a batch."""


class SelectedMessages:
    """The requested messages, with their outcomes."""

    def __init__(self, only: Filter, fold: Fold) -> None:
        """Start without messages.

        Args:
            only: selects the messages.
            fold: the state of the conversation, which each step updates.
        """
        self.fold = fold
        self.selected_messages: dict[_Key, MessageContext] = {}
        """The selected messages."""
        self.other_records: dict[int, Record] = {}
        """By number: the selected records that are not frames."""
        self._filter = only
        self._calls: dict[_Key, Call] = {}
        """The calls of selected requests and responses."""
        self._answers: dict[_Key, MessageContext] = {}
        """The response to each request."""
        self._end: End | None = None
        """Why nothing follows; None until the end."""

    def on_step(self, step: Step) -> None:
        """Process the next step."""
        self._end = step.end
        for context in step.messages:
            self._on_message(context)
        for call in step.changed:
            self._keep_call(call)
        item = step.item
        if not isinstance(item, Record):
            return
        if self._filter.matches(Facts(frames=(item.seq, item.seq))):
            self.other_records[item.seq] = item

    def _on_message(self, context: MessageContext) -> None:
        is_selected = self._filter.matches(facts_of(context))
        if is_selected:
            self.selected_messages[_key(context.message)] = context
        call = context.answered or context.cancelled
        if call is not None:
            self._keep_call(call, is_selected=is_selected)
            if context.answered is not None and _key(call.request) in self._calls:
                self._answers[_key(call.request)] = context

    def _keep_call(self, call: Call, *, is_selected: bool = False) -> None:
        key = _key(call.request)
        if is_selected or key in self.selected_messages:
            self._calls[key] = call

    def pages(self, findings: Iterable[LocatedFinding] | None, style: Style) -> Iterator[str]:
        """Yields the lines of all selected messages, each with its partner.

        Args:
            findings: the findings of the capture; None if no rules ran.
            style: colours or none.
        """
        by_frame = None if findings is None else _by_frame(findings)
        for record in self.other_records.values():
            yield from _record_lines(record, self._login_text(record.members.get("exchange")), style)
        printed_keys: set[_Key] = set()
        printed_frames: set[int] = set()
        for key, context in sorted(self.selected_messages.items()):
            for part in self._conversation(key, context):
                part_key = _key(part.message)
                if part_key in printed_keys:
                    continue
                yield from [""] if printed_keys else []
                printed_keys.add(part_key)
                yield from self._fact_lines(part, by_frame, style)
                # A batch is shown once, below the first of its messages.
                frames = [frame for frame in part.message.frames if frame.seq not in printed_frames]
                printed_frames.update(frame.seq for frame in frames)
                yield from [""] if frames else []
                yield from (f"  {line}" for frame in frames for line in message_lines(frame))

    @property
    def record_numbers(self) -> set[int]:
        """The numbers of the records of all selected messages and their partners."""
        frame_numbers = {
            frame.seq
            for key, context in self.selected_messages.items()
            for part in self._conversation(key, context)
            for frame in part.message.frames
        }
        return frame_numbers | set(self.other_records)

    def _conversation(self, key: _Key, context: MessageContext) -> list[MessageContext]:
        """Returns a message and its partner, in the order in which they crossed."""
        if isinstance(context.message, Request):
            response = self._answers.get(key)
            return [context] if response is None else [context, response]
        request = context.answered.request if context.answered is not None else context.cancels
        if request is None:
            return [context]
        return [context_of(request, context.session), context]

    def _fact_lines(
        self, context: MessageContext, findings: dict[int, list[LocatedFinding]] | None, style: Style
    ) -> Iterator[str]:
        message = context.message
        frame = message.frames[0]
        size = size_of(message.frames)
        head = [
            Span(message_name(frame, message.index), "accent"),
            Span(f"  {_DIRECTIONS[message.sender]}  {title(context)}  session {context.session.number}"),
            Span("" if frame.exchange is None else f"  exchange {frame.exchange}"),
            Span(f"  {units.size(size)}", "dim"),
        ]
        yield style.paint(head)
        wall_ns = self.fold.wall_ns
        wall_time = "" if wall_ns is None else f"  {units.local_time(wall_ns + message.t_ns)}"
        qualifier = "" if frame.time_is_exact else "about "
        page_facts = [
            Fact("crossed", f"{qualifier}+{message.t_ns / 1e9:,.6f} s{wall_time}"),
            *self.facts(context),
            *self._id_facts(message),
        ]
        if login_text := self._login_text(frame.exchange):
            page_facts.append(Fact("login", login_text))
        page_facts += _finding_facts(findings, frame.seq, message.index)
        label_cells = max(_LABEL_CELLS, *(len(fact.name) + 1 for fact in page_facts))
        for fact in page_facts:
            role: Role = "bad" if fact.is_bad else "plain"
            yield style.paint([Span(f"  {fact.name:<{label_cells}}", "dim"), Span(fact.text, role)])
        http = context.http or (None if frame.exchange is None else self.fold.exchanges.get(frame.exchange))
        if http is not None:
            lines = request_head(http) if message.sender == "client" else response_head(http)
            for number, spans in enumerate(lines):
                yield style.paint([Span(f"  {'' if number else 'http':<{label_cells}}", "dim"), *spans])

    def _id_facts(self, message: Message) -> Iterator[Fact]:
        """Yields what the client says that a request belongs to."""
        call = self._calls.get(_key(message)) if isinstance(message, Request) else None
        return id_facts(NO_IDS if call is None else call.client_ids)

    def _login_text(self, exchange: object) -> str:
        """Returns the login of an HTTP exchange, and what became of it; an empty text if it belongs to none."""
        login = self.fold.logins.of_exchange(exchange) if type(exchange) is int else None
        return "" if login is None else f"{login.number}: {outcome_text(login)}"

    def facts(self, context: MessageContext) -> Iterator[Fact]:
        """Yields how a message relates to others: what became of a request, or what a response answers."""
        call = self._calls.get(_key(context.message)) if isinstance(context.message, Request) else None
        may_come = call is not None and call.is_open and self._end == "open"
        return facts(context, call, waited_ns(self.fold, call.request) if call is not None and may_come else None)


def _record_lines(record: Record, login_text: str, style: Style) -> Iterator[str]:
    """Yields the text of a record that is not a frame: its line in the list, and its members if that leaves any out.

    Args:
        record: the record.
        login_text: the login of which it is a part, if any.
        style: colours or none.
    """
    line = remark_on(record, ended=False)
    remark = line or Remark("·", sanitise(record.rec, 60))
    yield style.paint([Span(f"record {record.seq}", "accent"), Span(f"  {remark.text}", remark.role)])
    yield from [f"  {remark.detail}"] if remark.detail else []
    if line is not None and record.rec != "exchange":
        return
    if login_text:
        yield style.paint([Span(f"  {'login':<{_MEMBER_CELLS}}", "dim"), Span(login_text)])
    for name, lines in members_of(record):
        for number, spans in enumerate(lines):
            yield style.paint([Span(f"  {'' if number else name:<{_MEMBER_CELLS}}", "dim"), *spans])


def message_name(frame: Frame, index: int | None) -> str:
    """Returns a message's name: its frame, and its position in a batch."""
    return f"frame {frame.seq}" if index is None else f"frame {frame.seq} item {index}"


def id_lines(messages: SelectedMessages, style: Style) -> Iterator[str]:
    """Yields a line for each selected message: its name, its session, the sender of the request, and its outcome."""
    for _, context in sorted(messages.selected_messages.items()):
        message = context.message
        if isinstance(message, Response):
            side = "client" if message.sender == "server" else "server"
        else:
            side = message.sender
        arrow = "→" if message.sender == "client" else "←"
        fact_texts = ", ".join(f"{fact.name} {fact.text}" for fact in messages.facts(context))
        yield style.paint(
            [
                Span(f"{message_name(message.frames[0], message.index):<12}", "accent"),
                Span(f"  {units.offset_text(message.t_ns)}", "dim"),
                Span(f"  session {context.session.number}  id of the {side}  "),
                Span(f"{arrow} ", "accent"),
                Span(f"{title(context)}  "),
                Span(fact_texts, "dim"),
            ]
        )


def _key(message: Message) -> _Key:
    return message.seq, -1 if message.index is None else message.index


def _by_frame(findings: Iterable[LocatedFinding]) -> dict[int, list[LocatedFinding]]:
    """Returns findings by the frames that they are about."""
    by_frame: dict[int, list[LocatedFinding]] = {}
    for located in findings:
        for seq in {located.finding.frame, *located.finding.related}:
            by_frame.setdefault(seq, []).append(located)
    return by_frame


def _finding_facts(findings: dict[int, list[LocatedFinding]] | None, seq: int, index: int | None) -> Iterator[Fact]:
    if findings is None:
        yield Fact("findings", "not searched for, because the capture is large; run `mcpproxy check` to find them")
        return
    for located in findings.get(seq, ()):
        finding = located.finding
        # For a batch, it is unknown which message a finding at another frame is about.
        if finding.item in (None, index) if finding.frame == seq else index is None:
            location = "" if finding.frame == seq else f", at frame {finding.frame}"
            text = f"{finding.level} {finding.rule} ({finding.blames}{location}): {sanitise(located.text)}"
            yield Fact("finding", text, is_bad=finding.level is Level.ERROR)
