"""Compares two JSON Schemas of a definition, with direction: arguments may only widen, results may only narrow.

First the schemas are walked together (`schema_differences.py`), keyword by keyword, in a form in which equal meaning
looks equal (`schema_part.py`). Each difference becomes a change of a kind. A change that is breaking by its kind needs
a witness (`witness.py`). If nothing looks bad, witnesses are looked for all the same, as the safety net.
"""

from typing import Any, Final, Literal, TypeAlias

import orjson

from analysis.comparison.change import ABSENT, MAX_QUOTED_CHARS, Change, Witness
from analysis.comparison.kind import Kind, Severity
from analysis.comparison.kinds import schemas as kinds
from analysis.comparison.same_json import is_same_json
from analysis.comparison.schemas.schema_annotations import without_annotations
from analysis.comparison.schemas.schema_difference import Difference, DifferenceName, Direction, Path, narrows, widens
from analysis.comparison.schemas.schema_differences import ambiguous_keyword, differences
from analysis.comparison.schemas.schema_document import Document
from analysis.comparison.schemas.schema_mitigations import mitigation
from analysis.comparison.schemas.schema_part import Undecidable
from analysis.comparison.schemas.step_budget import StepBudget
from analysis.comparison.schemas.witness import (
    NO_VALIDATOR,
    NOT_DECIDED,
    NOT_FOUND,
    JudgedSchema,
    TryBudget,
    WitnessSearch,
)
from analysis.json_schema.validator import schema_of
from analysis.json_schema.worker import ValidatorFailure

SchemaRole: TypeAlias = Literal["arguments", "result"]
"""What a schema describes: what a client may send, or what a server answers."""

_ANNOTATION_KINDS: Final[dict[DifferenceName, Kind]] = {
    "description-changed": kinds.DESCRIPTION_CHANGED,
    "format-changed": kinds.FORMAT_CHANGED,
    "annotation-changed": kinds.ANNOTATION_CHANGED,
    "default-added": kinds.ANNOTATION_CHANGED,
    "default-changed": kinds.ANNOTATION_CHANGED,
    "undecided": kinds.UNDECIDED,
}
_KINDS: Final[dict[SchemaRole, dict[DifferenceName, Kind]]] = {
    "arguments": {
        **_ANNOTATION_KINDS,
        "default-changed": kinds.DEFAULT_CHANGED,
        "newly-required": kinds.ARGUMENT_REQUIRED,
        "no-longer-required": kinds.ARGUMENT_OPTIONAL,
        "removed": kinds.ARGUMENT_REMOVED,
        "removed-from-closed": kinds.ARGUMENT_REMOVED,
        "added": kinds.ARGUMENT_ADDED,
        "added-to-closed": kinds.ARGUMENT_ADDED,
        "type-narrowed": kinds.ARGUMENT_TYPE_NARROWED,
        "type-widened": kinds.ARGUMENT_TYPE_WIDENED,
        "type-changed": kinds.ARGUMENT_TYPE_CHANGED,
        "enum-narrowed": kinds.ARGUMENT_ENUM_NARROWED,
        "enum-widened": kinds.ARGUMENT_ENUM_WIDENED,
        "range-narrowed": kinds.ARGUMENT_RANGE_NARROWED,
        "range-widened": kinds.ARGUMENT_RANGE_WIDENED,
        "closed": kinds.ARGUMENTS_CLOSED,
        "opened": kinds.ARGUMENTS_OPENED,
        "alternatives-narrowed": kinds.ARGUMENT_ALTERNATIVES_NARROWED,
        "alternatives-widened": kinds.ARGUMENT_ALTERNATIVES_WIDENED,
        "constraint-added": kinds.ARGUMENT_CONSTRAINT_ADDED,
        "constraint-removed": kinds.ARGUMENT_CONSTRAINT_REMOVED,
        "constraint-changed": kinds.ARGUMENT_CONSTRAINT_CHANGED,
    },
    "result": {
        **_ANNOTATION_KINDS,
        "newly-required": kinds.RESULT_MEMBER_REQUIRED,
        "no-longer-required": kinds.RESULT_MEMBER_OPTIONAL,
        "removed": kinds.RESULT_MEMBER_REMOVED,
        "removed-from-closed": kinds.RESULT_MEMBER_REMOVED,
        "added": kinds.RESULT_MEMBER_ADDED,
        "added-to-closed": kinds.RESULT_MEMBER_ADDED_TO_CLOSED,
        "type-narrowed": kinds.RESULT_TYPE_NARROWED,
        "type-widened": kinds.RESULT_TYPE_WIDENED,
        "type-changed": kinds.RESULT_TYPE_CHANGED,
        "enum-narrowed": kinds.RESULT_ENUM_NARROWED,
        "enum-widened": kinds.RESULT_ENUM_WIDENED,
        "range-narrowed": kinds.RESULT_RANGE_NARROWED,
        "range-widened": kinds.RESULT_RANGE_WIDENED,
        "closed": kinds.RESULT_CLOSED,
        "opened": kinds.RESULT_OPENED,
        "alternatives-narrowed": kinds.RESULT_ALTERNATIVES_NARROWED,
        "alternatives-widened": kinds.RESULT_ALTERNATIVES_WIDENED,
        "constraint-added": kinds.RESULT_CONSTRAINT_ADDED,
        "constraint-removed": kinds.RESULT_CONSTRAINT_REMOVED,
        "constraint-changed": kinds.RESULT_CONSTRAINT_CHANGED,
    },
}
_STILL_VALID: Final = "the schema still accepts it, with any value"
_WAS_OPTIONAL: Final = "results without it were possible before"
_MAX_PATH_CHARS: Final = 100
MAX_DIFFERENCES: Final = 200
"""The most differences of two schemas that are judged one by one."""


def schema_changes(
    old: object,
    new: object,
    role: SchemaRole,
    subject: str,
    pointer: str = "",
    *,
    old_predates_dialects: bool = False,
    new_predates_dialects: bool = False,
    budget: TryBudget | None = None,
) -> list[Change]:
    """Compare two schemas of the same definition.

    Args:
        old: the schema on the old side: any JSON value, or `ABSENT` if there is none, which accepts everything.
        new: the schema on the new side.
        role: what they describe.
        subject: `Change.subject`, such as `tool search`.
        pointer: the place of the schema in the definition, such as `/inputSchema`; changes append to it.
        old_predates_dialects: whether the old side's revision did not specify a default dialect.
        new_predates_dialects: the same of the new side.
        budget: what may still be done; pass the same one for all schemas of a comparison.

    Returns:
        The changes, without places, in the order of the old schema; none if both schemas mean the same.
    """
    if _is_same(old, new):
        return []
    budget = TryBudget() if budget is None else budget
    comparison = _SchemaComparison(role, subject, pointer, budget)
    try:
        old_side = _Side(old, old_predates_dialects, "old", budget.steps)
        new_side = _Side(new, new_predates_dialects, "new", budget.steps)
        if role == "result" and (old is ABSENT or new is ABSENT):
            return [comparison.schema_came_or_went(old_side, new_side, old is ABSENT)]
        return comparison.changes(old_side, new_side)
    except Undecidable as reason:
        text = str(reason)
    except RecursionError:
        text = "a schema is nested too deeply"
    except ValidatorFailure:
        budget.has_validator_failed = True
        text = NO_VALIDATOR
    message = f"the schema of the {role} changed and cannot be compared: {text}"
    return [Change(kinds.UNDECIDED, subject, message, pointer, old, new)]


class _Side:
    """A schema, read in all ways that a comparison needs."""

    def __init__(self, schema: Any, predates_dialects: bool, name: str, steps: StepBudget) -> None:
        """Read a schema.

        Raises:
            Undecidable: it is too large, or names a dialect that is not known.
        """
        self.schema = True if schema is ABSENT else schema
        self._name = name
        validator = schema_of(self.schema, predates_dialects=predates_dialects)
        self.judged = JudgedSchema(_document(self.schema, name, steps), validator)

    def constraints(self) -> Any:
        """Returns the schema without its annotations, and with its dialect, which says what the rest means."""
        dialect = self.schema.get("$schema") if isinstance(self.schema, dict) else None
        return [dialect, without_annotations(self.schema)]

    def check(self, budget: TryBudget) -> None:
        """Check that the schema is valid, unless the validator cannot run, which is noted.

        Raises:
            Undecidable: it is not.
        """
        validator = self.judged.validator
        if validator is None or budget.has_validator_failed:
            return
        try:
            fault = validator.fault
        except ValidatorFailure:
            budget.has_validator_failed = True
            return
        if fault is not None:
            raise Undecidable(f"the {self._name} schema is not valid")


class _SchemaComparison:
    """Compares two schemas that differ."""

    def __init__(self, role: SchemaRole, subject: str, pointer: str, budget: TryBudget) -> None:
        self._role = role
        self._subject, self._pointer = subject, pointer
        self._budget = budget
        self._is_bad = narrows if role == "arguments" else widens

    def changes(self, old: _Side, new: _Side) -> list[Change]:
        found = differences(old.judged.document, new.judged.document)
        if self._role == "arguments":
            required = {difference.path for difference in found if difference.name == "newly-required"}
            found = [each for each in found if each.name != "added-to-closed" or each.path not in required]
        has_only_annotations = all(difference.direction is Direction.NEITHER for difference in found)
        if has_only_annotations and is_same_json(old.constraints(), new.constraints()):
            kept, left = self._worst(found)
            return [*(self._change(difference) for difference in kept), *left]
        old.check(self._budget)
        new.check(self._budget)
        is_old = self._role == "arguments"
        accepting, refusing = (old.judged, new.judged) if is_old else (new.judged, old.judged)
        search = WitnessSearch(accepting, refusing, is_old, self._budget)
        kept, left = self._worst(found)
        changes = [self._judged_change(difference, search, new.judged.document) for difference in kept] + left
        if not any(map(self._is_bad, found)):
            witness = search.anywhere()
            if isinstance(witness, Witness):
                removed = [number for number, change in enumerate(changes) if change.unproved == _WAS_OPTIONAL]
                if len(removed) == 1:
                    change = changes[removed[0]]
                    changes[removed[0]] = change._replace(lowered=None, unproved="", witness=witness)
                else:
                    changes.append(self._unforeseen_change(witness))
            elif witness != NOT_FOUND:
                changes.append(self._undecided_change(witness))
            elif keyword := ambiguous_keyword(old.judged.document, new.judged.document):
                changes.append(self._undecided_change(f"`{keyword}` may mean something else in the other dialect"))
        return changes

    def _worst(self, found: list[Difference]) -> tuple[list[Difference], list[Change]]:
        """Returns the worst differences, and a change that says how many others there are, if there are any."""
        if len(found) <= MAX_DIFFERENCES:
            return found, []
        ordered = sorted(found, key=lambda difference: not self._may_break(difference))
        kept, left = ordered[:MAX_DIFFERENCES], ordered[MAX_DIFFERENCES:]
        message = f"the schema of the {self._role} has further differences: {len(left):,}"
        if self._may_break(left[0]):
            return kept, [Change(kinds.UNDECIDED, self._subject, message, self._pointer, times=len(left))]
        return kept, [self._change(left[0])._replace(message=message, times=len(left))]

    def _may_break(self, difference: Difference) -> bool:
        is_note = _KINDS[self._role][difference.name].severity is Severity.NOTE
        return self._is_bad(difference) or not is_note

    def schema_came_or_went(self, old: _Side, new: _Side, is_new: bool) -> Change:
        """Returns the change of a result that got or lost its schema."""
        kind = kinds.RESULT_SCHEMA_ADDED if is_new else kinds.RESULT_SCHEMA_REMOVED
        message = f"the result {'has a schema now' if is_new else 'no longer has a schema'}"
        change = Change(kind, self._subject, message, self._pointer, ABSENT if is_new else old.schema)
        if is_new:
            return change._replace(after=new.schema)
        search = WitnessSearch(new.judged, old.judged, False, self._budget)
        return _proved(change, search.among([{}, {"a": None}]))

    def _judged_change(self, difference: Difference, search: WitnessSearch, new: Document) -> Change:
        change = self._change(difference)
        if change.kind.severity is not Severity.BREAKING:
            return change
        if not self._is_bad(difference):  # only of members that are removed
            reason = _STILL_VALID if self._role == "arguments" else _WAS_OPTIONAL
            return change._replace(lowered=Severity.MAY_BREAK, unproved=reason)
        mitigated = mitigation(difference, new)
        if mitigated:
            return change._replace(lowered=Severity.MAY_BREAK, unproved=mitigated)
        result = search.for_difference(difference)
        if result == NOT_DECIDED and difference.keyword == "pattern":
            return change._replace(kind=kinds.UNDECIDED)
        return _proved(change, result)

    def _change(self, difference: Difference) -> Change:
        is_lost = self._role == "result" and difference.name == "removed-from-closed"
        text = "can no longer be there" if is_lost else difference.text
        message = f"{self._place(difference.path)} {text}"
        if len(message) > MAX_QUOTED_CHARS:
            message = f"{message[: MAX_QUOTED_CHARS - 1]}…"
        return Change(
            _KINDS[self._role][difference.name],
            self._subject,
            message,
            self._pointer + difference.pointer,
            difference.before,
            difference.after,
        )

    def _unforeseen_change(self, witness: Witness) -> Change:
        if self._role == "arguments":
            kind, message = kinds.ARGUMENT_NARROWED, "arguments that were valid are no longer valid"
        else:
            kind, message = kinds.RESULT_WIDENED, "results are possible that were not possible before"
        return Change(kind, self._subject, message, self._pointer, witness=witness)

    def _undecided_change(self, reason: str) -> Change:
        message = f"whether the schema of the {self._role} is still compatible is not known: {reason}"
        return Change(kinds.UNDECIDED, self._subject, message, self._pointer)

    def _place(self, path: Path) -> str:
        """Returns what a path leads to, in words."""
        if not path:
            return "the object of arguments" if self._role == "arguments" else "the result"
        text = "".join(_STEPS[step.keyword].format(step.name) for step in path).removeprefix(".")
        if len(text) > _MAX_PATH_CHARS:
            text = f"…{text[1 - _MAX_PATH_CHARS :]}"
        return f"argument `{text}`" if self._role == "arguments" else f"`{text}` in the result"


_STEPS: Final = {
    "properties": ".{}",
    "patternProperties": "./{}/",
    "additionalProperties": ".*",
    "items": "[]",
    "prefixItems": "[{}]",
}


def _proved(change: Change, result: Witness | str) -> Change:
    """Returns a change with its witness, or lowered because there is none."""
    if isinstance(result, Witness):
        return change._replace(witness=result)
    return change._replace(lowered=Severity.MAY_BREAK, unproved=result)


def _document(schema: Any, side: str, steps: StepBudget) -> Document:
    try:
        return Document(schema, steps)
    except Undecidable as reason:
        raise Undecidable(f"{reason} (the {side} one)") from None


def _is_same(old: Any, new: Any) -> bool:
    try:
        if orjson.dumps(old, option=orjson.OPT_SORT_KEYS) == orjson.dumps(new, option=orjson.OPT_SORT_KEYS):
            return True
    except TypeError:
        pass  # nested deeply, numbers beyond 64 bits, lone surrogates
    return is_same_json(old, new)
