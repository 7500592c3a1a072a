"""Keys of questions in the extension for tasks: each key names one question of a task, which is answered once."""

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Message
from analysis.conversation.tasks import Task
from analysis.protocol.json_pointer import encode_step
from analysis.protocol.revisions import MODERN_ERA
from analysis.rules.base import NOTE, RACE_NS, Rule
from analysis.rules.ext_tasks.capability import SOURCE
from analysis.rules.ext_tasks.reports import TASK_NOTIFICATION, task_questions
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.digests import json_digest
from analysis.rules.support.eras import member
from analysis.rules.support.inputs import MAX_INPUT_ENTRIES

MAX_KEYS_PER_TASK: Final = 1_000
"""The most keys of one task that are remembered."""
MAX_KEY_FINDINGS: Final = 10
"""The most findings about keys of one message."""

_KEY: Final = "ext-tasks keys"


class TaskKeys:
    """The known keys of a task. The rules share them: the first rule that sees a message adds its keys."""

    def __init__(self) -> None:
        self.last_seq = -1
        """The number of the last message that listed keys."""
        self.current_keys: frozenset[str] | None = None
        """The keys in the last report; None if they are not known."""
        self.accepted_keys: set[str] = set()
        """Keys whose replies the server has accepted."""
        self._digests: dict[str, bytes] = {}
        """The digest of the question that each key names."""
        self._dropped_ns: dict[str, int] = {}
        """Accepted keys that a later report no longer lists, with the time of that report."""
        self._faults: list[tuple[str, str]] = []

    def add_questions(self, message: Message, questions: dict[str, Any], *, is_http: bool) -> list[tuple[str, str]]:
        """Add the questions of a report; returns each key that now names something else, with what is wrong."""
        if message.seq == self.last_seq:
            return self._faults
        self.last_seq, self._faults = message.seq, []
        for key, question in islice(questions.items(), MAX_INPUT_ENTRIES):
            digest, known_digest = _question_digest(question), self._digests.get(key)
            if known_digest is None and len(self._digests) < MAX_KEYS_PER_TASK:
                self._digests[key] = digest
            elif known_digest is not None and known_digest != digest:
                self._digests[key] = digest
                self.accepted_keys.discard(key)
                self._dropped_ns.pop(key, None)
                self._faults.append((key, "a key names a different question than before"))
            elif key in self._dropped_ns and not (is_http and message.t_ns - self._dropped_ns[key] <= RACE_NS):
                del self._dropped_ns[key]
                self._faults.append((key, "a key is used again after it was answered"))
        for key in self.accepted_keys:
            if key not in questions:
                self._dropped_ns.setdefault(key, message.t_ns)
        self.current_keys = frozenset(questions) if len(questions) <= MAX_INPUT_ENTRIES else None
        return self._faults

    def mark_accepted(self, replies: dict[str, Any]) -> None:
        """Mark the keys of replies that the server has accepted."""
        self.accepted_keys.update(key for key in islice(replies, MAX_INPUT_ENTRIES) if key in self._digests)


class _KeyRule(Rule):
    """The base class of the rules about keys."""

    versions = MODERN_ERA
    methods = frozenset({"tasks/get", "tasks/update", TASK_NOTIFICATION})
    era = "modern"
    source = SOURCE

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        if context.method != "tasks/update":
            return self._check_report(context)
        replies = member(context.request.params, "inputResponses") if context.request is not None else None
        if context.task is not None and isinstance(replies, dict):
            _keys_of(context.task).mark_accepted(replies)
        return ()

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        return self._check_report(context)

    def _check_report(self, context: MessageContext) -> Iterable[Finding]:
        inputs = task_questions(context, self.fold)
        if inputs is None:
            return ()
        task, questions = inputs
        faults = _keys_of(task).add_questions(context.message, questions, is_http=context.session.is_http)
        return self.fault_findings(context, faults) if faults else ()

    def fault_findings(self, context: MessageContext, faults: list[tuple[str, str]]) -> Iterable[Finding]:  # noqa: ARG002
        """Returns findings about keys that now name something else."""
        return ()


class KeyReused(_KeyRule):
    """A key of a task names a different question than before, or is used again after it was answered.

    **Why it matters.** Clients use the key to recognise a question that they have already asked their user. They send
    the old reply again, or none.

    **On the wire.** `…"status":"input_required","inputRequests":{"q":{…"message":"Which?"}}` … later
    `…"inputRequests":{"q":{…"message":"How many?"}}`

    **Instead.** Use a new key for each question, and repeat it in every report until the question is answered.
    """

    id = "ext-tasks/key-reused"
    who = "server"
    impact = Impact.WRONG

    def fault_findings(self, context: MessageContext, faults: list[tuple[str, str]]) -> Iterable[Finding]:
        part = "/result" if context.answered is not None else "/params"
        return [
            self.finding(context, text, pointer=f"{part}/inputRequests/{encode_step(key, 200)}")
            for key, text in faults[:MAX_KEY_FINDINGS]
        ]


class UnknownKey(_KeyRule):
    """A client answers a question that the task does not ask, or no longer asks.

    **Why it matters.** Servers ignore such a reply, which may belong to another task.

    **On the wire.** `…"inputRequests":{"q":{…}}`, then
    `> {"id":4,"method":"tasks/update","params":{"taskId":"t1","inputResponses":{"p":{…}},…}}`

    **Instead.** Use the keys of the last report.
    """

    id = "ext-tasks/unknown-key"
    who = "client"
    level = NOTE

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        replies = member(context.body.get("params"), "inputResponses")
        if context.task is None or not isinstance(replies, dict):
            return ()
        keys = _keys_of(context.task)
        if keys.current_keys is None or keys.last_seq <= context.session.lost_seq:
            return ()
        unknown_keys = [
            key
            for key in islice(replies, MAX_INPUT_ENTRIES)
            if key not in keys.current_keys or key in keys.accepted_keys
        ]
        text = "the task does not ask this question"
        return [
            self.finding(
                context, text, pointer=f"/params/inputResponses/{encode_step(key, 200)}", related=(keys.last_seq,)
            )
            for key in unknown_keys[:MAX_KEY_FINDINGS]
        ]


# ---- shared by the rules


def _keys_of(task: Task) -> TaskKeys:
    keys: TaskKeys | None = task.memory.get(_KEY)
    if keys is None:
        keys = task.memory[_KEY] = TaskKeys()
    return keys


def _question_digest(question: Any) -> bytes:
    """Returns a digest of a question that does not depend on the order of its members or on `_meta`."""
    if isinstance(question, dict):
        question = {name: value for name, value in question.items() if name != "_meta"}
        params = question.get("params")
        if isinstance(params, dict):
            question["params"] = {name: value for name, value in params.items() if name != "_meta"}
    return json_digest(question) or b""
