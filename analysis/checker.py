"""Checker: the items of a capture become findings, by the rules that hold where each was said.

Sans-IO and streaming: `feed`, `advance` and `finish` give back what has become certain. Decisions depend on the bytes
and stamps of the capture alone. Which rules are asked about a message is looked up by its kind, method, revision, era
and transport; the answer is remembered, so a rule that does not hold costs nothing.

One cause, one finding: bytes that are no JSON reach the rules of framing alone, what cannot be classified those of the
envelope, and a rule that `replaces` another takes its findings about the same message away.

It never raises. A rule that does is switched off, and `faults` names it: a bug of ours must not hide what others find.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Literal

from analysis.exchange import Exchange
from analysis.finding import Finding
from analysis.fold import Fold
from analysis.http import HttpExchange
from analysis.message import Invalid, Notification, Request, Response
from analysis.methods import METHODS, UNPREFIXED
from analysis.rules import Ending, Later, Rule, rules
from analysis.session import Seen, Session
from captures.frame import Frame
from captures.limits import MEMBERS
from captures.record import Record

Hook = Callable[..., Iterable[Finding]]


class Checker:
    """Runs rules over one capture."""

    def __init__(self, picked: Iterable[type[Rule]] | None = None) -> None:
        """`picked`: the rules to run; None for all."""
        self.fold = Fold()
        """What is known of the capture."""
        self.faults: dict[str, str] = {}
        """Rules that raised, which is a bug of theirs, by id: what they raised."""
        self.counts: Counter[tuple[str, int, str]] = Counter()
        """How often rules that tell of the first time only were broken, by rule, session and side."""
        self._rules = [rule(self._later) for rule in (rules().values() if picked is None else picked)]
        self._tables: dict[tuple[object, ...], tuple[tuple[Rule, Hook], ...]] = {}
        self._timers: list[tuple[int, int, Rule, Later]] = []
        self._timer_count = 0
        self._asking: Rule | None = None

    # ---- inputs

    def feed(self, item: object) -> list[Finding]:
        """The next item of a capture: a Frame, a Record, or damage."""
        found = self.advance(item.t_ns) if self._timers and isinstance(item, Frame | Record) else []
        seen = self.fold.feed(item)
        if seen:
            found += self._look(seen, item)
        if isinstance(item, Record):
            found += self._look_at_record(item)
        return found

    def advance(self, t_ns: int) -> list[Finding]:
        """Time has passed in the capture: what was put off until then is decided."""
        found: list[Finding] = []
        while self._timers and self._timers[0][0] <= t_ns:
            _, _, rule, ask = heapq.heappop(self._timers)
            found += self._ask(rule, ask)
        return self._settled(found)

    def finish(self, reason: Literal["closed", "killed", "open"] = "closed") -> list[Finding]:
        """The capture is over.

        Args:
            reason: whether it has an end, has none, or is still being written.
        """
        found: list[Finding] = []
        rest = self.fold.rest()
        if rest:
            found += self._look(rest, None)
        found += self.advance(self.fold.t_ns)
        left = self.fold.finish()
        ended: list[Finding] = []
        by_session: dict[int, list[Exchange]] = {}
        for exchange in left:
            by_session.setdefault(self.fold.session_of(exchange.request).number, []).append(exchange)
        for session in self.fold.routing.open():
            own = tuple(by_session.get(session.number, ()))
            ending = Ending(reason, self.fold.t_ns, own, is_clear=self.fold.is_clear)
            for rule, hook in self._hooks("end", session):
                ended += self._ask(rule, hook, session, ending)
        return found + self._settled(ended)

    # ---- asking

    def _look(self, seen: tuple[Seen, ...], item: object) -> list[Finding]:
        found: list[Finding] = []
        for one in seen:
            found += self._settled(self._look_at(one))
        if len(seen) > 1 and isinstance(item, Frame) and item.verdict.kind == "batch":
            found += self._settled(self._run("batch", seen[0], seen, ""))
        return found

    def _look_at(self, seen: Seen) -> list[Finding]:
        message = seen.message
        found = self._run("message", seen, seen, "")
        if isinstance(message, Invalid):
            return found + self._run("invalid", seen, seen, "")
        if _is_odd(message):
            found += self._run("odd", seen, seen, "")
        if isinstance(message, Request):
            found += self._run("request", seen, seen, message.method)
        elif isinstance(message, Notification):
            found += self._run("notification", seen, seen, UNPREFIXED.get(message.method, message.method))
        else:
            asked = seen.exchange.request.method if seen.exchange is not None else ""
            found += self._run("response", seen, seen, asked)
            if message.is_error:
                found += self._run("error", seen, seen, asked)
            elif seen.exchange is not None:
                found += self._run("result", seen, seen, asked)
        return found

    def _look_at_record(self, record: Record) -> list[Finding]:
        found: list[Finding] = []
        if record.rec == "exchange":
            if record.members.get("stage") == "end":
                found += self._look_at_exchange(record)
        elif self.fold.transport != "http":
            for session in self.fold.routing.open():
                for rule, hook in self._hooks("record", session):
                    found += self._ask(rule, hook, record, session)
        return self._settled(found)

    def _look_at_exchange(self, record: Record) -> list[Finding]:
        number = record.members.get("exchange")
        if type(number) is not int:
            return []
        http: HttpExchange = self.fold.exchanges.of(number)
        said = http.received or http.sent
        if not said:
            return []
        session, found = said[0].session, list[Finding]()
        for rule, hook in self._hooks("http", session):
            found += self._ask(rule, hook, http, session)
        return found

    def _run(self, hook: str, where: Seen, what: object, method: str) -> list[Finding]:
        session = where.session
        known = method if method in METHODS else ""
        key = (hook, where.revision, where.era, where.state, session.observed_start, session.transport, known)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = self._table(hook, where, method)
            if len(self._tables) > 10_000:  # of peers that invent revisions
                self._tables.clear()
        found: list[Finding] = []
        for rule, call in table:
            # `_ask`, written out: nearly all that a check does is to ask rules that have nothing to say.
            self._asking = rule
            try:
                for one in call(what):
                    found.append(one)  # noqa: PERF402 - what came before an exception stays
            except Exception as error:  # noqa: BLE001 - what a rule gets wrong must not hide what the others find
                self._switch_off(rule, error)
        return found

    def _table(self, hook: str, where: Seen, method: str) -> tuple[tuple[Rule, Hook], ...]:
        rank, era = where.rank, where.era
        return tuple(
            (rule, call)
            for rule, call in self._hooks(hook, where.session)
            if rule.versions.holds(rank, era)
            and (rule.methods is None or method in rule.methods)
            and (rule.states is None or where.state in rule.states)
        )

    def _hooks(self, hook: str, session: Session) -> list[tuple[Rule, Hook]]:
        name = f"on_{hook}"
        return [
            (rule, getattr(rule, name))
            for rule in self._rules
            if rule.id not in self.faults
            and getattr(type(rule), name) is not getattr(Rule, name)
            and (session.observed_start or not rule.needs_start)
            and (session.is_http or not rule.needs_http)
        ]

    def _ask(self, rule: Rule, call: Hook, *what: object) -> list[Finding]:
        if rule.id in self.faults:
            return []
        self._asking = rule
        try:
            return [*call(*what)]
        except Exception as error:  # noqa: BLE001 - as above
            self._switch_off(rule, error)
            return []

    def _switch_off(self, rule: Rule, error: Exception) -> None:
        self.faults[rule.id] = f"{type(error).__name__}: {error}"
        self._tables.clear()

    def _later(self, t_ns: int, ask: Later) -> None:
        assert self._asking is not None
        self._timer_count += 1
        heapq.heappush(self._timers, (t_ns, self._timer_count, self._asking, ask))

    # ---- one cause, one finding

    def _settled(self, found: list[Finding]) -> list[Finding]:
        """What is left when findings that others replace are taken away, and repeated ones are only counted."""
        if not found:
            return found
        if len(found) > 1:
            found = _without_replaced(found)
        return [one for one in found if self._is_news(one)]

    def _is_news(self, finding: Finding) -> bool:
        if not rules()[finding.rule].once:
            return True
        key = (finding.rule, finding.session, finding.blames)
        self.counts[key] += 1
        return self.counts[key] == 1


def _is_odd(message: Request | Notification | Response) -> bool:
    """Whether the rules of framing and of the envelope have to look: of nearly all messages they have not."""
    frame = message.frames[0]
    return (
        frame.verdict.problem is not None
        or message.body.get("jsonrpc") != "2.0"
        or not MEMBERS.issuperset(message.body)
        or type(message.body.get("id", 0)) not in (int, str)
        or message.index is not None
        or len(message.frames) > 1
        or (isinstance(message, Response) and message.is_error)
        or (frame.unit == "line" and (not frame.whole or frame.delim != b"\n"))
    )


def _without_replaced(found: list[Finding]) -> list[Finding]:
    by_message: dict[tuple[int, int | None], list[Finding]] = {}
    for one in found:
        by_message.setdefault((one.frame, one.item), []).append(one)

    def is_replaced(one: Finding) -> bool:
        rivals = by_message[one.frame, one.item]
        return len(rivals) > 1 and any(_replaces(other, one) for other in rivals if other.rule != one.rule)

    return [one for one in found if not is_replaced(one)]


def _replaces(finding: Finding, other: Finding) -> bool:
    for pattern in rules()[finding.rule].replaces:
        if fnmatchcase(other.rule, pattern):
            return not pattern.startswith("schema/") or finding.pointer == other.pointer
    return False
