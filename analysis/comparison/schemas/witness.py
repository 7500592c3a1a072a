"""Finds witnesses: values that one of two schemas accepts and the other does not.

Values are created from the schemas (`schema_instances.py`), steered towards a difference between them, always in the
same order. The validator judges them, in a child process with a time limit (`analysis/json_schema`). So a witness is a
proof, and only the lack of one may be due to this search.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from analysis.comparison.change import Witness
from analysis.comparison.schemas.schema_difference import Difference
from analysis.comparison.schemas.schema_document import Document
from analysis.comparison.schemas.schema_instances import Instances
from analysis.comparison.schemas.schema_part import Part, Undecidable
from analysis.comparison.schemas.step_budget import MAX_STEPS_PER_COMPARISON, StepBudget
from analysis.json_schema.validator import Schema
from analysis.json_schema.worker import ValidatorFailure

MAX_TRIES: Final = 60
"""The most values that are tried for one difference."""
MAX_WITNESS_BYTES: Final = 2_000
"""The size in bytes of the largest witness, as JSON."""
MAX_JUDGED_BYTES: Final = 16 << 20
"""The bytes of schemas that are sent to the validator to compare two of them; large schemas get fewer tries."""
MAX_TRIES_PER_COMPARISON: Final = 50_000
"""The most values that are tried in a whole comparison."""

NOT_FOUND: Final = "no value was found that proves it"
NO_TIME: Final = "the time for finding a value that proves it ran out"
NOT_DECIDED: Final = "the validator cannot decide about these schemas"
NONE_FITS: Final = "no value was created that fits the schema that it must fit"
NO_VALIDATOR: Final = "the validator cannot run"


class TryBudget:
    """What may still be done to compare schemas. One instance is shared by all schemas of a comparison."""

    def __init__(self, tries: int = MAX_TRIES_PER_COMPARISON) -> None:
        self.left = tries
        """How many values may still be tried."""
        self.steps = StepBudget(MAX_STEPS_PER_COMPARISON)
        self.has_validator_failed = False
        """Whether the validator could not run: then nothing more is asked, and the comparison has failed."""


class JudgedSchema(NamedTuple):
    """A schema as its text says and as the validator judges it."""

    document: Document
    validator: Schema | None
    """None if it is too large."""

    @property
    def bytes(self) -> int:
        """The size of the schema as JSON."""
        return 0 if self.validator is None else len(self.validator.text)

    def fits(self, value: Any) -> bool | None:
        """Returns whether a value fits, or None if this cannot be decided."""
        return None if self.validator is None else self.validator.fits(value)


class WitnessSearch:
    """Looks for values that one schema accepts and another one refuses."""

    def __init__(self, accepting: JudgedSchema, refusing: JudgedSchema, is_old: bool, budget: TryBudget) -> None:
        """Prepare a search.

        Args:
            accepting: the schema that witnesses fit.
            refusing: the schema that they do not fit.
            is_old: whether the accepting schema is the old one.
            budget: how many values may be tried.
        """
        self._accepting, self._refusing = accepting, refusing
        self._is_old = is_old
        self._budget = budget
        self._bytes_left = MAX_JUDGED_BYTES
        self._instances = Instances(accepting.document)
        self._has_fitting = False
        """Whether a value was created that fits the accepting schema."""

    def for_difference(self, difference: Difference) -> Witness | str:
        """Returns a witness for a difference, or a clause that says why there is none."""
        old_schema, new_schema = difference.schemas
        mine, other = (old_schema, new_schema) if self._is_old else (new_schema, old_schema)
        if difference.is_about_member:
            has_member = self._is_old and difference.name == "removed-from-closed"
            place, values = difference.path[:-1], self._instances.objects(mine, difference.path[-1].name, has_member)
        else:
            listed = difference.before if self._is_old else difference.after
            first = listed if difference.keyword == "enum" and isinstance(listed, list) else []
            place, values = difference.path, chain(first, self._instances.variants(mine, self._parts(other)))
        root = self._accepting.document.schema
        return self._first(self._instances.containing(root, place, islice(values, MAX_TRIES)))

    def anywhere(self) -> Witness | str:
        """Returns a witness for any difference between the schemas, or a clause that says why there is none."""
        root = self._accepting.document.schema
        result = self._first(self._instances.variants(root, self._parts(self._refusing.document.schema)))
        was_tested = self._has_fitting or self._accepting.document.parts(root) == ()
        return result if was_tested or result != NOT_FOUND else NONE_FITS

    def among(self, values: Iterable[Any]) -> Witness | str:
        """Returns the first of some values that is a witness, or a clause that says why there is none."""
        return self._first(iter(values))

    def _parts(self, refusing_schema: Any) -> tuple[Part, ...]:
        try:
            return self._refusing.document.parts(refusing_schema)
        except Undecidable:
            return ()

    def _first(self, values: Iterator[Any]) -> Witness | str:
        if self._budget.has_validator_failed:
            return NO_VALIDATOR
        try:
            return self._first_judged(values)
        except ValidatorFailure:
            self._budget.has_validator_failed = True
            return NO_VALIDATOR

    def _first_judged(self, values: Iterator[Any]) -> Witness | str:
        was_undecided = False
        tried: set[str] = set()
        for value in islice(values, 4 * MAX_TRIES):
            text = json.dumps(value)
            if len(text) > MAX_WITNESS_BYTES or text in tried:
                continue
            if self._budget.left <= 0 or self._bytes_left <= 0:
                return NO_TIME
            if len(tried) >= MAX_TRIES:
                break
            tried.add(text)
            self._budget.left -= 1
            self._bytes_left -= self._accepting.bytes + self._refusing.bytes
            is_accepted = self._accepting.fits(value)
            self._has_fitting = self._has_fitting or is_accepted is True
            is_refused = self._refusing.fits(value) if is_accepted else None
            if is_refused is False:
                return Witness(value, self._is_old)
            if is_accepted is None or (is_accepted and is_refused is None):
                if was_undecided:
                    return NOT_DECIDED
                was_undecided = True
        if self._instances.is_exhausted:
            return NO_TIME
        return NOT_DECIDED if was_undecided else NOT_FOUND
