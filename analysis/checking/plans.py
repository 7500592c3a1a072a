"""Decides which rule hooks run on each kind of message, HTTP exchange and record.

Whether a rule concerns a kind depends on the rule, not on a capture. Asking all rules takes longer than checking a
small capture, so the process keeps the answers as `HookPlan`s, and each checker binds them to its own rules
(`BoundHookPlans`). Rules are created when they are first bound, because most captures need only some of them.
"""

from collections.abc import Callable, Hashable, Iterable
from functools import cached_property, lru_cache, partial
from typing import Any, Final, Literal, TypeAlias, get_args

from analysis.checking.profile import Costs
from analysis.conversation.call import MessageContext, Outcome
from analysis.conversation.http_exchange import HttpExchange
from analysis.conversation.message import InvalidMessage, Notification, Request
from analysis.conversation.session import Session
from analysis.protocol.extensions import KNOWN_METHODS
from analysis.protocol.methods import UNPREFIXED_NOTIFICATIONS
from analysis.rules.base import ResultKind, Rule
from analysis.rules.finding import Finding
from analysis.rules.odd import MessageOddity
from analysis.rules.odd_exchange import ExchangeOddity
from analysis.rules.unchanged_content import ENVELOPE_MEMBERS, REPEATED_METHODS, CleanWords
from analysis.shapes.bodies import needs_no_params, proof_for

Hook: TypeAlias = Callable[..., Iterable[Finding]]
Calls: TypeAlias = tuple[tuple[Rule, Hook], ...]
UnboundCalls: TypeAlias = tuple[tuple[type[Rule], str], ...]
"""Calls that are not bound yet: the class of the rule, and the name of the hook."""
Proof: TypeAlias = Callable[[Any], bool]

MAX_CACHED_KINDS: Final = 10_000
"""The most kinds that are cached; peers can invent any number of revisions."""

_HOOKS: Final[dict[str, tuple[str, ...]]] = {
    "request": ("request",),
    "notification": ("notification",),
    **dict.fromkeys(get_args(ResultKind), ("response", "result")),
    "error": ("response", "error"),
    "unpaired result": ("response", "unpaired"),
    "unpaired error": ("response", "error", "unpaired"),
    "invalid": ("invalid",),
    "aside": (),
    "batch": ("batch",),
}
_TRANSPORT_GROUPS: Final = ("http/", "sse/")
"""The groups about Streamable HTTP itself, regardless of the revision spoken over it."""
_HTTP_METHODS: Final = frozenset({"POST", "GET", "DELETE"})
_MEDIA_TYPES: Final = frozenset({"application/json", "text/event-stream"})
_RESULT_KINDS: Final = frozenset(get_args(ResultKind))
_PROVABLE_KINDS: Final = frozenset({"request", "notification", "complete", "failed"})
_SHAPED_KINDS: Final = _RESULT_KINDS | {"request", "notification"}
# Enum members are slow to look up.
_COMPLETE: Final = Outcome.RESULT
_OUTCOMES: Final[dict[Outcome, ResultKind | Literal["error"]]] = {
    Outcome.ERROR: "error",
    Outcome.TOOL_ERROR: "failed",
    Outcome.INPUT_REQUIRED: "interim",
    Outcome.TASK: "task",
}


class HookPlan:
    """The hooks for one kind of message, and the condition under which each is called."""

    def __init__(self) -> None:
        self.anomaly: UnboundCalls = ()
        """Hooks that are called if the message has one of the oddities that the rule names."""
        self.meta: UnboundCalls = ()
        """Hooks that are called if its `_meta` is unusual."""
        self.problems: UnboundCalls = ()
        """Hooks that are called if its body does not fit its shape."""
        self.unconditional: UnboundCalls = ()
        """Hooks that are always called."""
        self.by_members: tuple[tuple[frozenset[str], type[Rule], str], ...] = ()
        """Hooks that are called if one of these members is present."""
        self.by_word: dict[bytes, UnboundCalls] = {}
        """Hooks that are called if a word occurs in its bytes."""
        self.by_envelope: UnboundCalls = ()
        """Hooks that are called if its envelope is new."""
        self.by_result: UnboundCalls = ()
        """Hooks that are called if it is a list that differs from the previous one."""
        self.part = "params"
        """The member that contains the body of the messages."""
        self.proof: Proof | None = None
        """Whether a body certainly fits its shape; None if there is no quick test."""
        self.proof_without_envelope: Proof | None = None
        """The same test for a body whose envelope is known to fit."""
        self.needs_no_params = False
        """Whether a request or notification without params fits its shape."""
        self.is_list = False

    @property
    def has_conditional_hooks(self) -> bool:
        """Whether there are hooks that are not always called."""
        hooks = self.by_members or self.by_word or self.by_envelope
        return bool(hooks or self.meta or self.problems or self.is_list)


class BoundHookPlan:
    """A hook plan bound to the rules of one checker, and the words in which these have found nothing so far.

    Hooks are bound when a message first needs them, because most captures contain nothing odd.
    """

    def __init__(self, plan: HookPlan, bind: Callable[[UnboundCalls], Calls]) -> None:
        self.plan, self._bind = plan, bind
        self.unconditional = bind(plan.unconditional)
        self.has_conditional_hooks = plan.has_conditional_hooks
        self.words = (*plan.by_word,)
        """The keys of `by_word`."""
        self.members: frozenset[str] = frozenset().union(*(members for members, _, _ in plan.by_members))
        """Members whose presence triggers a hook."""
        self.clean_words = CleanWords()
        """Envelopes or lists that led to no findings."""
        self._for_oddities: dict[MessageOddity, Calls] = {}
        self._for_members: dict[frozenset[str], Calls] = {}
        self._for_words: dict[bytes, Calls] = {}

    @cached_property
    def meta(self) -> Calls:
        """The bound hooks of `HookPlan.meta`."""
        return self._bind(self.plan.meta)

    @cached_property
    def problems(self) -> Calls:
        """The bound hooks of `HookPlan.problems`."""
        return self._bind(self.plan.problems)

    @cached_property
    def by_envelope(self) -> Calls:
        """The bound hooks of `HookPlan.by_envelope`."""
        return self._bind(self.plan.by_envelope)

    @cached_property
    def by_result(self) -> Calls:
        """The bound hooks of `HookPlan.by_result`."""
        return self._bind(self.plan.by_result)

    def calls_for_word(self, word: bytes) -> Calls:
        """The hooks that a word triggers, which is one of `words`."""
        calls = self._for_words.get(word)
        if calls is None:
            calls = self._for_words[word] = self._bind(self.plan.by_word[word])
        return calls

    def calls_for_oddities(self, oddities: MessageOddity) -> Calls:
        """The hooks that any of these oddities triggers."""
        calls = self._for_oddities.get(oddities)
        if calls is None:
            calls = self._bind(tuple((rule, hook) for rule, hook in self.plan.anomaly if rule.oddities & oddities))
            _store_in_cache(self._for_oddities, oddities, calls)
        return calls

    def calls_for_members(self, present_members: frozenset[str]) -> Calls:
        """The hooks that any of these members triggers; all of them are in `members`."""
        calls = self._for_members.get(present_members)
        if calls is None:
            by_members = self.plan.by_members
            calls = self._bind(
                tuple((rule, hook) for members, rule, hook in by_members if not members.isdisjoint(present_members))
            )
            _store_in_cache(self._for_members, present_members, calls)
        return calls


class _HookPlans:
    """The hook plans of all kinds. They do not depend on a capture: rules are asked only which kinds they concern."""

    def __init__(self, rule_classes: tuple[type[Rule], ...]) -> None:
        self._rules = [rule() for rule in rule_classes]
        self.faults: dict[str, str] = {}
        """Exceptions by the id of the rule that raised them."""
        self._with_hook: dict[str, list[Rule]] = {}
        self._messages: dict[Hashable, HookPlan] = {}
        self._others: dict[Hashable, UnboundCalls] = {}

    def of_messages(self, key: Hashable, kind: str, context: MessageContext, method: str) -> HookPlan:
        """The hooks for messages like this one."""
        plan = self._messages.get(key)
        if plan is None:
            plan = self._plan(kind, context, method)
            _store_in_cache(self._messages, key, plan)
        return plan

    def of_exchanges(
        self, key: Hashable, hook: str, http: HttpExchange, session: Session | None, oddities: ExchangeOddity
    ) -> UnboundCalls:
        """The hooks for HTTP exchanges like this one."""
        unbound_calls = self._others.get(key)
        if unbound_calls is None:
            spoken_version, transport_version = http.revision_and_era(session), http.transport_revision_and_era(session)
            has_start = session is not None and session.observed_start
            unbound_calls = tuple(
                (type(rule), hook)
                for rule in self._rules_with_hook(hook, has_start, is_http=True)
                if (not rule.exchanges or rule.exchanges & oddities)
                # A hook for the messages of an exchange depends on the revision of each message.
                and (
                    hook == "messages_exchanged"
                    or rule.versions.applies_to(
                        *(transport_version if rule.id.startswith(_TRANSPORT_GROUPS) else spoken_version)
                    )
                )
                and self._is_concerned(rule, rule.concerns_exchange, hook, http)
            )
            _store_in_cache(self._others, key, unbound_calls)
        return unbound_calls

    def of_sessions(self, hook: str, has_start: bool, *, is_http: bool) -> UnboundCalls:
        """The hooks `record` or `end`, for all sessions of a kind."""
        key = (hook, has_start, is_http)
        unbound_calls = self._others.get(key)
        if unbound_calls is None:
            unbound_calls = tuple(
                (type(rule), hook) for rule in self._rules_with_hook(hook, has_start, is_http=is_http)
            )
            _store_in_cache(self._others, key, unbound_calls)
        return unbound_calls

    def of_logins(self, hook: str) -> UnboundCalls:
        """The hooks `login` or `login_stop`."""
        return tuple((type(rule), hook) for rule in self._rules_with_hook(hook, has_start=True, is_http=True))

    def _plan(self, kind: str, context: MessageContext, method: str) -> HookPlan:
        plan = HookPlan()
        is_shaped = kind in _SHAPED_KINDS
        if kind not in ("invalid", "aside", "batch"):
            plan.anomaly = self._unbound_calls("anomaly", context, method)
        if is_shaped:
            plan.problems, plan.meta = (
                self._unbound_calls("problems", context, method),
                self._unbound_calls("meta", context, method),
            )
        plan.is_list = kind in _RESULT_KINDS and kind != "interim" and method in REPEATED_METHODS
        plan.part = "result" if kind in _RESULT_KINDS else "params"
        if plan.problems and kind in _PROVABLE_KINDS and not plan.is_list:
            plan.proof, plan.proof_without_envelope = (
                proof_for(context),
                proof_for(context, frozenset(ENVELOPE_MEMBERS)),
            )
            plan.needs_no_params = needs_no_params(context)
        for hook in _HOOKS[kind]:
            for rule in self._concerned_rules(hook, context, method):
                if kind not in _RESULT_KINDS or rule.results is None or kind in rule.results:
                    _add_hook(plan, rule, hook, method, context, is_shaped=is_shaped)
        return plan

    def _unbound_calls(self, hook: str, context: MessageContext, method: str) -> UnboundCalls:
        return tuple((type(rule), hook) for rule in self._concerned_rules(hook, context, method))

    def _concerned_rules(self, hook: str, context: MessageContext, method: str) -> list[Rule]:
        rank, era = context.rank, context.era
        return [
            rule
            for rule in self._rules_with_hook(hook, context.session.observed_start, is_http=context.session.is_http)
            if rule.versions.applies_to(rank, era)
            and (rule.methods is None or method in rule.methods)
            and (rule.states is None or context.state in rule.states)
            and rule.sender in (None, context.message.sender)
            and rule.era in (None, era)
            and self._is_concerned(rule, rule.concerns, hook, method, context)
        ]

    def _rules_with_hook(self, hook: str, has_start: bool, *, is_http: bool) -> list[Rule]:
        with_hook = self._with_hook.get(hook)
        if with_hook is None:
            # Most rules have one or two hooks; examining all rules for each kind of message would take half the time.
            name = f"on_{hook}"
            default_hook = getattr(Rule, name)
            with_hook = self._with_hook[hook] = [
                rule for rule in self._rules if getattr(type(rule), name) is not default_hook
            ]
        return [rule for rule in with_hook if (has_start or not rule.needs_start) and (is_http or not rule.needs_http)]

    def _is_concerned(self, rule: Rule, question: Callable[..., bool], *arguments: object) -> bool:
        if rule.id in self.faults:
            return False
        try:
            return question(*arguments)
        except Exception as error:  # noqa: BLE001 - a faulty rule must not hide the findings of the others
            self.faults[rule.id] = fault_text(error)
            return False


class BoundHookPlans:
    """The hooks of one checker's rules, by the kind of message, exchange or session."""

    def __init__(
        self, rule_classes: Iterable[type[Rule]], costs: Costs | None, prepare: Callable[[Rule], None]
    ) -> None:
        """Create plans whose hooks are not bound yet.

        Args:
            rule_classes: the rules, in the order in which they are called.
            costs: records the cost of each rule; None to measure nothing.
            prepare: called with each rule before any of its hooks.
        """
        self._hook_plans, self._costs, self._prepare = _hook_plans_of(tuple(rule_classes)), costs, prepare
        self.faults: dict[str, str] = {}
        """Exceptions by the id of the rule that raised them; the hooks of these rules are not bound."""
        self._rules: dict[type[Rule], Rule] = {}
        self._messages: dict[Hashable, BoundHookPlan] = {}
        self._others: dict[Hashable, Calls] = {}

    def of_message(self, kind: str, context: MessageContext, method: str) -> BoundHookPlan:
        """The plan for messages like this one.

        Args:
            kind: the kind of message that `kind_of` returns, or `batch`.
            context: the message.
            method: the method whose rules apply to it.
        """
        session = context.session
        known_method = method if method in KNOWN_METHODS else ""
        key = (
            *(kind, known_method, context.message.sender, context.revision, context.era, context.state),
            *(session.observed_start, session.transport, session.gaps, session.learned),
        )
        plan = self._messages.get(key)
        if plan is None:
            unbound_plan = self._hook_plans.of_messages(key, kind, context, method)
            self._note_faults()
            plan = BoundHookPlan(unbound_plan, self._bind)
            _store_in_cache(self._messages, key, plan)
        return plan

    def of_exchange(
        self,
        hook: Literal["response_start", "exchange_end", "messages_exchanged"],
        http: HttpExchange,
        session: Session | None,
        oddities: ExchangeOddity,
    ) -> Calls:
        """The hooks for HTTP exchanges like this one, with these oddities."""
        media_type = http.media_type if http.media_type in _MEDIA_TYPES else ""
        method = http.method if http.method in _HTTP_METHODS else ""
        has_start = session is not None and session.observed_start
        spoken_version = http.revision_and_era(session)
        # The revision of the transport can differ from this only if this is the oldest one.
        transport_version = http.transport_revision_and_era(session) if spoken_version[0] == 0 else spoken_version
        key = (hook, method, http.status, media_type, has_start, spoken_version, transport_version, oddities)
        return self._calls_of(key, partial(self._hook_plans.of_exchanges, key, hook, http, session, oddities))

    def of_session(self, hook: Literal["record", "end"], session: Session) -> Calls:
        """The hooks that run in all sessions like this one."""
        key = (hook, session.observed_start, session.is_http)
        return self._calls_of(
            key, partial(self._hook_plans.of_sessions, hook, session.observed_start, is_http=session.is_http)
        )

    def of_login(self, hook: Literal["login", "login_stop"]) -> Calls:
        """The hooks that run for each login that is over, or whose client has stopped."""
        return self._calls_of(hook, partial(self._hook_plans.of_logins, hook))

    def switch_off(self, rule_id: str, fault: str) -> None:
        """Disable a rule: its hooks are no longer bound."""
        self.faults[rule_id] = fault
        self._messages.clear()
        self._others.clear()

    def _calls_of(self, key: Hashable, find_calls: Callable[[], UnboundCalls]) -> Calls:
        calls = self._others.get(key)
        if calls is None:
            unbound_calls = find_calls()
            self._note_faults()
            calls = self._bind(unbound_calls)
            _store_in_cache(self._others, key, calls)
        return calls

    def _note_faults(self) -> None:
        """Disable the rules that failed when asked which kinds they concern, here or for an earlier capture."""
        for rule_id, fault in self._hook_plans.faults.items():
            if rule_id not in self.faults:
                self.switch_off(rule_id, fault)

    def _bind(self, unbound_calls: UnboundCalls) -> Calls:
        return tuple(
            (rule := self._rule(rule_class), self._hook(rule, hook))
            for rule_class, hook in unbound_calls
            if rule_class.id not in self.faults
        )

    def _rule(self, rule_class: type[Rule]) -> Rule:
        rule = self._rules.get(rule_class)
        if rule is None:
            rule = self._rules[rule_class] = rule_class()
            self._prepare(rule)
        return rule

    def _hook(self, rule: Rule, name: str) -> Hook:
        hook: Hook = getattr(rule, f"on_{name}")
        return hook if self._costs is None else self._costs.measured_hook(rule.id, hook)


@lru_cache(maxsize=8)
def _hook_plans_of(rule_classes: tuple[type[Rule], ...]) -> _HookPlans:
    return _HookPlans(rule_classes)


def _store_in_cache(cache: dict[Any, Any], key: Hashable, value: object) -> None:
    if len(cache) > MAX_CACHED_KINDS:
        cache.clear()
    cache[key] = value


def _add_hook(plan: HookPlan, rule: Rule, hook: str, method: str, context: MessageContext, *, is_shaped: bool) -> None:
    """Add a hook; only requests, notifications and results can contain the members or words that trigger it."""
    unbound_call = (type(rule), hook)
    decisive_part = rule.decisive_words(hook, method, context) if is_shaped else None
    if decisive_part == "result" and plan.is_list:
        plan.by_result += (unbound_call,)
    elif decisive_part == "envelope":
        plan.by_envelope += (unbound_call,)
    elif is_shaped and (word := rule.required_word_for(hook, method, context)):
        plan.by_word[word] = (*plan.by_word.get(word, ()), unbound_call)
    elif is_shaped and (members := rule.required_members_for(hook, method, context)):
        plan.by_members += ((members, *unbound_call),)
    else:
        plan.unconditional += (unbound_call,)


def fault_text(error: Exception) -> str:
    """The text that describes an exception of a rule."""
    return f"{type(error).__name__}: {error}"


def kind_of(context: MessageContext) -> tuple[str, str]:
    """The kind of a message, and the method whose rules apply to it."""
    message = context.message
    if isinstance(message, Request):
        return "request", message.method
    if isinstance(message, Notification):
        return "notification", UNPREFIXED_NOTIFICATIONS.get(message.method, message.method)
    if isinstance(message, InvalidMessage):
        return "invalid" if context.is_posted else "aside", ""
    if context.answered is None:
        return "unpaired error" if message.is_error else "unpaired result", ""
    call = context.answered
    if call.outcome is not _COMPLETE:
        return _OUTCOMES[call.outcome], call.request.method
    if context.era != "handshake":
        result = message.body["result"]
        if type(result) is not dict or result.get("resultType") != "complete":
            return "untyped", call.request.method
    return "complete", call.request.method
