"""Checker: turns the messages of a capture into findings, by the rules that apply to each.

Only `analysis.reading` creates a checker. Sans-IO and streaming: `check`, `advance` and `finish` return the findings
that are now certain, in the order of `sort_key`. Decisions depend only on the bytes and times in the capture; for
logins in a capture that is being recorded, the caller also says how late it is. The findings of a rule do not depend on
which other rules run, except those that replace its findings (`shares`). The rules for a message are looked up by its
kind, method, revision, era and transport (`plans`), so a rule that does not apply costs nothing.

One cause, one finding: bytes that are not JSON reach only the framing rules, messages that cannot be classified only
the envelope rules, and a rule that `replaces` another removes its findings about the same message.

It never raises. A rule that raises is disabled, and `faults` names it: a bug in one rule must not hide other findings.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Final, Literal, NamedTuple

from analysis.checking.plans import BoundHookPlan, BoundHookPlans, Calls, Hook, fault_text, kind_of
from analysis.checking.profile import Costs
from analysis.conversation.annotated_objects import META_KEY_JSON, searchable_bytes, unusual_metas
from analysis.conversation.bounded_dict import BoundedDict
from analysis.conversation.call import Call, MessageContext
from analysis.conversation.fold import Fold
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.login import GIVEN_UP_NS, UNSUCCESSFUL, Login
from analysis.conversation.logins import MAX_LOGINS
from analysis.conversation.session import Session
from analysis.rules.base import CaptureEnd, DeferredCheck, Rule
from analysis.rules.discovery import rule_numbers, rules
from analysis.rules.finding import Finding
from analysis.rules.odd import NOTHING, oddities_of
from analysis.rules.odd_exchange import oddities_in
from analysis.rules.unchanged_content import words_of
from analysis.shapes.bodies import problems_of
from captures.damage import Damage
from captures.frame import Frame
from captures.record import Record

MAX_SESSIONS_WITH_CAUSES: Final = 10_000
"""The most sessions whose causes are remembered."""


class RuleSelection(NamedTuple):
    """The rules that judge a capture, and the callbacks that run with them."""

    selected: Iterable[type[Rule]] | None = None
    """The rules that run; None for all."""
    on_message: Callable[[MessageContext], None] | None = None
    """Called with each message before the rules run on it."""
    costs: Costs | None = None
    """Records the cost of each rule; None to measure nothing."""
    is_cause: Callable[[Finding], bool] | None = None
    """Whether the findings that follow from a finding may be counted under it, because it is itself reported; None if
    this holds for every finding."""


class Checker:
    """Runs rules over the messages of one capture, which the caller's fold interprets."""

    def __init__(self, fold: Fold, selection: RuleSelection | None = None) -> None:
        """Create a checker for a capture of which no item has been processed yet.

        Args:
            fold: the state of the conversation, which the caller keeps up to date.
            selection: the rules and the callbacks; None for all rules.
        """
        selected_rules, on_message, costs, is_cause = selection or RuleSelection()
        self._on_message, self._is_cause = on_message, is_cause
        self._fold = fold
        self.counts: Counter[tuple[str, int, str]] = Counter()
        """The number of violations of rules that report only the first one, by rule, session and side."""
        self.followers: Counter[tuple[str, int, str]] = Counter()
        """The number of findings that follow from a cause, by the rule and session of the cause, and their own rule."""
        self._causes: BoundedDict[int, dict[str, None]] = BoundedDict(MAX_SESSIONS_WITH_CAUSES)
        """The rules that have reported a cause, by session."""
        self._bound = BoundHookPlans(
            rules().values() if selected_rules is None else selected_rules, costs, self._prepare
        )
        self._judged_logins: BoundedDict[int, None] = BoundedDict(MAX_LOGINS)
        self._stopped_logins: BoundedDict[int, int] = BoundedDict(MAX_LOGINS)
        """How many legs each login had when its client had last stopped, by its number."""
        self._waiting_logins: dict[Login, int] = {}
        """The logins whose client may go on, and when it counts as gone."""
        self._next_stop_ns = 0
        """When the first of these clients may count as gone."""
        self._timers: list[tuple[int, int, Rule, DeferredCheck]] = []
        self._timer_count = 0
        self._watchers: dict[int, dict[Rule, None]] = {}

    @property
    def faults(self) -> dict[str, str]:
        """Exceptions by the id of the rule that raised them; each is a bug in that rule."""
        return self._bound.faults

    # ---- inputs

    def is_due(self, item: Frame | Record | Damage) -> bool:
        """Whether `advance` must be called before the fold processes an item, because deferred checks may be due."""
        return bool(self._timers or self._waiting_logins) and not isinstance(item, Damage)

    def check(
        self, item: Frame | Record | Damage, messages: tuple[MessageContext, ...], due: list[Finding] | None = None
    ) -> list[Finding]:
        """Check the next item of a capture, which the fold has already processed.

        Args:
            item: the item.
            messages: the messages that it completes.
            due: the findings that `advance` returned for the time of the item, if any.
        """
        findings = [] if due is None else due
        if len(messages) == 1:
            new_findings = self._check_message(messages[0])
            if new_findings:
                findings += self._settle(new_findings)
        elif messages:
            findings += self._check_messages(messages, item)
        if isinstance(item, Record):
            findings += self._check_record(item)
        return findings if len(findings) < 2 else sorted(findings, key=sort_key)

    def advance(self, t_ns: int) -> list[Finding]:
        """Advance capture time to `t_ns`, and run the checks that were deferred until then."""
        findings: list[Finding] = []
        while self._timers and self._timers[0][0] <= t_ns:
            _, _, rule, callback = heapq.heappop(self._timers)
            findings += self._call_hook(rule, callback)
        return sorted(self._settle(findings + self._check_waiting_logins(t_ns)), key=sort_key)

    def advance_logins(self, t_ns: int) -> list[Finding]:
        """Advance the time of logins alone to `t_ns`, because no record has come since."""
        return sorted(self._settle(self._check_waiting_logins(t_ns)), key=sort_key)

    @property
    def undecided_login_count(self) -> int:
        """How many logins have no token yet although their client may still go on."""
        return sum(login.outcome in UNSUCCESSFUL for login in self._waiting_logins)

    def finish(
        self,
        last_messages: tuple[MessageContext, ...],
        open_calls: Iterable[Call],
        reason: Literal["closed", "killed", "open"],
    ) -> list[Finding]:
        """End the capture.

        Args:
            last_messages: the messages that only the end of the capture completes.
            open_calls: the calls without a response.
            reason: whether the capture was closed, stops without a `close` record, or is still being written.
        """
        findings: list[Finding] = []
        if last_messages:
            findings += self._check_messages(last_messages, None)
        findings += self.advance(self._fold.t_ns)
        end_findings = self._check_logins(CaptureEnd(reason, self._fold.t_ns, (), is_clear=self._fold.is_complete))
        by_session: dict[int, list[Call]] = {}
        for call in open_calls:
            if call.session is not None:
                by_session.setdefault(call.session.number, []).append(call)
        for session in self._fold.routing.sessions():
            session_calls = tuple(by_session.get(session.number, ()))
            capture_end = CaptureEnd(reason, self._fold.t_ns, session_calls, is_clear=self._fold.is_complete)
            for rule, hook in self._bound.of_session("end", session):
                end_findings += self._call_hook(rule, hook, session, capture_end)
        return sorted(findings + self._settle(end_findings), key=sort_key)

    # ---- calling the rules

    def _check_messages(self, contexts: tuple[MessageContext, ...], item: object) -> list[Finding]:
        findings: list[Finding] = []
        for message in contexts:
            findings += self._settle(self._check_message(message))
        if len(contexts) > 1 and isinstance(item, Frame) and item.verdict.kind == "batch" and not contexts[0].is_repeat:
            batch_findings: list[Finding] = []
            self._run_hooks(self._bound.of_message("batch", contexts[0], "").unconditional, contexts, batch_findings)
            findings += self._settle(batch_findings)
        return findings

    def _check_message(self, context: MessageContext) -> list[Finding]:
        kind, method = kind_of(context)
        if self._on_message is not None:
            self._on_message(context)
        if context.is_repeat or context.message.frames[0].is_abridged:
            return []
        plan = self._bound.of_message(kind, context, method)
        findings: list[Finding] = []
        if self._watchers and context.session.number in self._watchers:
            findings += self._run_watchers(context)
        if plan.plan.anomaly and (oddities := oddities_of(context)) is not NOTHING:
            self._run_hooks(plan.calls_for_oddities(oddities), context, findings)
        if plan.unconditional:
            self._run_hooks(plan.unconditional, context, findings)
        if plan.has_conditional_hooks:
            self._run_conditional_hooks(plan, context, findings)
        return findings

    def _run_conditional_hooks(self, plan: BoundHookPlan, context: MessageContext, findings: list[Finding]) -> None:
        """Call the hooks that run only if a member or word is present, or if the envelope or list is new."""
        unbound_plan = plan.plan
        body = context.body.get(unbound_plan.part)
        if plan.members and type(body) is dict and (present_members := plan.members.intersection(body)):
            self._run_hooks(plan.calls_for_members(present_members), context, findings)
        raw = searchable_bytes(context.message)
        for word in plan.words:
            if raw is None or word in raw:
                self._run_hooks(plan.calls_for_word(word), context, findings)
        if unbound_plan.meta and (raw is None or META_KEY_JSON in raw) and (metas := unusual_metas(context, raw)):
            for rule, hook in plan.meta:
                findings += self._call_hook(rule, hook, context, metas)
        count_before, envelope, is_known = len(findings), None, False
        if unbound_plan.by_envelope:
            envelope = words_of(context, "envelope")
            is_known = envelope is not None and envelope in plan.clean_words
            if not is_known:
                self._run_hooks(plan.by_envelope, context, findings)
        if unbound_plan.is_list:
            self._check_list(plan, context, findings)
        elif unbound_plan.problems:
            proof = unbound_plan.proof_without_envelope if is_known else unbound_plan.proof
            if type(body) is not dict or proof is None or not proof(body):
                self._check_shape(plan, context, findings)
        if envelope is not None and not is_known and len(findings) == count_before:
            plan.clean_words.add(envelope)

    def _check_list(self, plan: BoundHookPlan, context: MessageContext, findings: list[Finding]) -> None:
        """Call the hooks that depend on the list alone, if it is new, or if it led to findings before."""
        words, count_before = words_of(context, "result"), len(findings)
        if words is not None and words in plan.clean_words:
            return
        self._run_hooks(plan.by_result, context, findings)
        self._check_shape(plan, context, findings)
        if words is not None and len(findings) == count_before:
            plan.clean_words.add(words)

    def _check_shape(self, plan: BoundHookPlan, context: MessageContext, findings: list[Finding]) -> None:
        if plan.plan.needs_no_params and "params" not in context.body:
            return
        problems = problems_of(context)
        if problems:
            for rule, hook in plan.problems:
                findings += self._call_hook(rule, hook, context, problems)

    def _run_watchers(self, context: MessageContext) -> list[Finding]:
        findings: list[Finding] = []
        for rule in (*self._watchers[context.session.number],):
            if rule.versions.applies_to(context.rank, context.era):
                findings += self._call_hook(rule, rule.on_message, context)
        return findings

    def _check_record(self, record: Record) -> list[Finding]:
        findings: list[Finding] = []
        if record.rec == "exchange":
            findings += self._check_exchange(record)
            if self._fold.logins.changed:
                findings += self._check_logins(None)
        elif self._fold.transport != "http":
            for session in self._fold.routing.sessions():
                for rule, hook in self._bound.of_session("record", session):
                    findings += self._call_hook(rule, hook, record, session)
        return self._settle(findings)

    def _check_exchange(self, record: Record) -> list[Finding]:
        number = record.members.get("exchange")
        http = self._fold.exchanges.get(number) if type(number) is int else None
        if http is None:
            return []
        is_answer, is_end = (mark is not None and mark.seq == record.seq for mark in (http.answered_ref, http.end_ref))
        findings: list[Finding] = []
        if is_answer or is_end:
            session = self._fold.routing.session_of_exchange(http)
            oddities = oddities_in(http, session)
            if is_answer:
                self._run_exchange_hooks(
                    self._bound.of_exchange("response_start", http, session, oddities), http, session, findings
                )
            if is_end:
                self._run_exchange_hooks(
                    self._bound.of_exchange("exchange_end", http, session, oddities), http, session, findings
                )
                messages = http.server_messages or http.client_messages
                if messages:
                    message_session = messages[0].session
                    self._run_exchange_hooks(
                        self._bound.of_exchange("messages_exchanged", http, message_session, oddities),
                        http,
                        message_session,
                        findings,
                    )
        return findings

    def _check_logins(self, ending: CaptureEnd | None) -> list[Finding]:
        """Call the hooks for the logins that are now over, once for each login."""
        findings: list[Finding] = []
        for login in self._fold.logins.changed:
            if not login.is_over:
                self._waiting_logins[login] = stop_ns = login.ended_ns + login.patience_ns
                self._next_stop_ns = min(self._next_stop_ns, stop_ns) if len(self._waiting_logins) > 1 else stop_ns
                continue
            self._waiting_logins.pop(login, None)
            if login.number not in self._judged_logins:
                self._judged_logins.put(login.number, None)
                for rule, hook in self._bound.of_login("login"):
                    findings += self._call_hook(rule, hook, login, ending)
                findings += self._check_stopped_login(login, ending)
        return findings

    def _check_waiting_logins(self, t_ns: int) -> list[Finding]:
        """Call the hooks for the logins whose client has not gone on in time."""
        findings: list[Finding] = []
        if not self._waiting_logins or t_ns < self._next_stop_ns:
            return findings
        for login, stop_ns in [*self._waiting_logins.items()]:
            if t_ns < stop_ns:
                continue
            if self._has_open_request(login):
                self._waiting_logins[login] = t_ns + GIVEN_UP_NS
            else:
                del self._waiting_logins[login]
                findings += self._check_stopped_login(login, None)
        self._next_stop_ns = min(self._waiting_logins.values(), default=0)
        return findings

    def _has_open_request(self, login: Login) -> bool:
        """Whether a client of a login has sent a request since, other than a message, that has not ended."""
        hosts = {host for host, _ in login.clients}
        return any(
            http.started_ref is not None
            and http.started_ref.t_ns >= login.ended_ns
            and not http.client_messages
            and http.peer_host in hosts
            for http in self._fold.exchanges.open_exchanges()
        )

    def _check_stopped_login(self, login: Login, ending: CaptureEnd | None) -> list[Finding]:
        findings: list[Finding] = []
        if self._stopped_logins.get(login.number) != login.count:
            self._stopped_logins.put(login.number, login.count)
            for rule, hook in self._bound.of_login("login_stop"):
                findings += self._call_hook(rule, hook, login, ending)
        return findings

    def _run_exchange_hooks(
        self, calls: Calls, http: HttpExchange, session: Session | None, findings: list[Finding]
    ) -> None:
        for rule, call in calls:
            try:
                findings += call(http, session)  # keeps what comes before an exception
            except Exception as error:  # noqa: BLE001 - a faulty rule must not hide the findings of the others
                self._switch_off(rule, error)

    def _run_hooks(self, calls: Calls, subject: object, findings: list[Finding]) -> None:
        for rule, call in calls:
            # `_call_hook`, inlined: nearly all the work of a check is calling rules that report nothing.
            try:
                new_findings = call(subject)
                if new_findings:
                    for finding in new_findings:
                        findings.append(finding)  # noqa: PERF402 - keeps findings before an exception
            except Exception as error:  # noqa: BLE001 - a faulty rule must not hide the findings of the others
                self._switch_off(rule, error)

    def _call_hook(self, rule: Rule, call: Hook, *arguments: object) -> list[Finding]:
        if rule.id in self.faults:
            return []
        try:
            return [*call(*arguments)]
        except Exception as error:  # noqa: BLE001 - as above
            self._switch_off(rule, error)
            return []

    def _switch_off(self, rule: Rule, error: Exception) -> None:
        self._bound.switch_off(rule.id, fault_text(error))

    # ---- services that rules can call

    def _prepare(self, rule: Rule) -> None:
        rule.fold, rule.check_later, rule.set_watching = (
            self._fold,
            partial(self._schedule, rule),
            partial(self._set_watching, rule),
        )

    def _schedule(self, rule: Rule, t_ns: int, callback: DeferredCheck) -> None:
        self._timer_count += 1
        heapq.heappush(self._timers, (t_ns, self._timer_count, rule, callback))

    def _set_watching(self, rule: Rule, session: Session, is_on: bool) -> None:
        watchers = self._watchers.setdefault(session.number, {})
        if is_on:
            watchers[rule] = None
        else:
            watchers.pop(rule, None)
        if not watchers:
            del self._watchers[session.number]

    # ---- one cause, one finding

    def _settle(self, findings: list[Finding]) -> list[Finding]:
        """Drop the findings that others replace, and count repeated ones; return those to report."""
        if not findings:
            return findings
        if not self._fold.is_verbatim or self._fold.has_inexact_times:
            findings = [finding for finding in findings if self._is_provable(finding)]
        if len(findings) > 1:
            findings = _without_replaced(findings)
        if self._fold.routing.guess_count:
            findings = [finding for finding in findings if not self._is_guess(finding)]
        for finding in findings:
            if finding.rule in _cause_rules() and (self._is_cause is None or self._is_cause(finding)):
                session = self._fold.routing.resembled_number(finding.session)
                if session not in self._causes:
                    self._causes.put(session, {})
                self._causes[session][finding.rule] = None
        return [finding for finding in findings if self._count_if_repeated(finding)]

    def _is_provable(self, finding: Finding) -> bool:
        """Whether the capture has the bytes and times that a rule needs."""
        rule = rules()[finding.rule]
        return (self._fold.is_verbatim or not rule.needs_bytes) and not (
            rule.needs_time and self._fold.has_inexact_times
        )

    def _is_guess(self, finding: Finding) -> bool:
        return rules()[finding.rule].needs_session and self._fold.routing.is_guess(finding.session)

    def _count_if_repeated(self, finding: Finding) -> bool:
        rule = rules()[finding.rule]
        if not (rule.once or rule.follows):
            return True
        session = self._fold.routing.resembled_number(finding.session)
        cause = next((id_ for id_ in rule.follows if id_ in self._causes.get(session, ())), None)
        if cause is not None:
            self.followers[cause, session, finding.rule] += finding.finding_count
            return False
        if not rule.once:
            return True
        key = (finding.rule, session, repeat_key(finding))
        earlier_count = self.counts[key]
        self.counts[key] += finding.finding_count
        return not earlier_count


@cache
def _cause_rules() -> frozenset[str]:
    """The rules whose findings can be causes of other findings."""
    return frozenset(id_ for rule in rules().values() for id_ in rule.follows)


def repeat_key(finding: Finding) -> str:
    """Returns the text that the repetitions of a finding in one session share."""
    rule = rules().get(finding.rule)
    return finding.blames + finding.message if rule is not None and rule.once_each else finding.blames


def sort_key(finding: Finding) -> tuple[int, int, int]:
    """The sort key of findings that become certain at the same time: frame, message in it, rule."""
    return finding.frame, -1 if finding.item is None else finding.item, rule_numbers()[finding.rule]


def _without_replaced(findings: list[Finding]) -> list[Finding]:
    by_message: dict[tuple[int, int | None], list[Finding]] = {}
    for finding in findings:
        by_message.setdefault((finding.frame, finding.item), []).append(finding)

    def is_replaced(finding: Finding) -> bool:
        rivals = by_message[finding.frame, finding.item]
        return len(rivals) > 1 and any(_replaces(other, finding) for other in rivals if other.rule != finding.rule)

    return [finding for finding in findings if not is_replaced(finding)]


def _replaces(finding: Finding, other: Finding) -> bool:
    for pattern in rules()[finding.rule].replaces:
        if fnmatchcase(other.rule, pattern):
            return not pattern.startswith("schema/") or f"{other.pointer}/".startswith(f"{finding.pointer}/")
    return False
