"""Changes of schemas, compared with an oracle: `jsonsubschema` decides whether one schema contains another.

Nothing bad for arguments means that the new schema accepts all that the old one accepts; for results, the reverse.
Where the two disagree, one of `REASONS` must apply. A test below shows an example of each.
"""

import json
import signal
from typing import Any, Final, NoReturn

import jsonschema_rs
import pytest
from hypothesis import given
from jsonsubschema import is_subschema

from analysis.comparison.change import Change
from analysis.comparison.kind import Severity
from analysis.comparison.schemas.schema_changes import SchemaRole, schema_changes
from analysis.comparison.schemas.schema_document import Document
from analysis.comparison.schemas.witness import NOT_FOUND
from tests.analysis.comparison.schema_pairs import pairs, places, real_pairs
from tests.examples import examples

REASONS: Final = {
    "the oracle is wrong": "a witness that jsonschema-rs judges without our help shows it, or "
    "it contradicts itself about a pattern",
    "a new name": "the old schema is open and does not name the member, so that nobody is expected to send it",
    "a removed name": "the schema stays open, so that the same is valid; but the member is ignored now",
    "a default": "the same is valid, but a call without the argument means something else",
    "nothing fits": "a schema in the accepting one accepts nothing; the oracle does not notice",
    "no proof": "the new schema contains the old one, but only for a reason that is not examined: patterns, an `anyOf` "
    "as a whole, an `oneOf` whose schemas overlap, negations. Without a witness it is at most `may break`",
}
"""Why a change may be judged in another way than the oracle does."""
EXAMPLES: Final[dict[str, tuple[Any, Any]]] = {
    "the oracle is wrong": ({"type": "boolean"}, {"const": True}),
    "a new name": ({"type": "object"}, {"type": "object", "properties": {"limit": {"type": "integer"}}}),
    "a removed name": ({"type": "object", "properties": {"limit": {"type": "integer"}}}, {"type": "object"}),
    "a default": ({"default": 1}, {"default": 2}),
    "nothing fits": (
        {"type": "object", "minProperties": 1, "additionalProperties": False},
        {"type": "object", "required": ["a"]},
    ),
    "no proof": ({"type": "string", "pattern": "^a$"}, {"type": "string", "pattern": "^a"}),
}
"""A pair of arguments for each reason."""
MAX_ORACLE_S: Final = 5.0
NO_PROOF: Final = ("pattern", "anyOf", "oneOf", "not", "allOf")


class OutOfTime(BaseException):
    """Raised when the oracle has had its time. It catches all that is an `Exception`."""


def is_contained(inner: Any, outer: Any) -> bool | None:
    """The oracle's verdict, or None if it has none in a few seconds of the processor: some take it hours."""
    before = signal.signal(signal.SIGVTALRM, _give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_ORACLE_S)
    try:
        return bool(is_subschema(inner, outer))
    except (Exception, OutOfTime):  # noqa: BLE001 - it does not support everything, and fails in many ways
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _give_up(*_: object) -> NoReturn:
    raise OutOfTime


def reason(old: Any, new: Any, role: SchemaRole) -> str | None:
    """Compare a pair, and return why the verdicts differ; None if they agree, or if the oracle has none."""
    accepting, refusing = (old, new) if role == "arguments" else (new, old)
    contained = is_contained(accepting, refusing)
    if contained is None:
        return None
    changes = schema_changes(old, new, role, "tool t")
    bad = [change for change in changes if change.severity not in (Severity.NOTE, Severity.WORSE)]
    if contained is not bool(bad) or (bad and all(change.severity is Severity.UNKNOWN for change in bad)):
        return None  # "unknown" is no verdict
    if contained:
        return reason_for_too_much(accepting, refusing, bad)
    if is_contained(closed(accepting), refusing):
        return "a new name"
    if any(fits_nothing(accepting, place) for place in places(accepting)):
        return "nothing fits"
    if is_contained_without_patterns(accepting, refusing):
        return "the oracle is wrong"
    pytest.fail(f"{role}: nothing is found between {json.dumps(old)} and {json.dumps(new)}")


def reason_for_too_much(accepting: Any, refusing: Any, bad: list[Change]) -> str:
    proofs = [change.witness.value for change in bad if change.witness is not None]
    if any(jsonschema_rs.is_valid(accepting, it) and not jsonschema_rs.is_valid(refusing, it) for it in proofs):
        return "the oracle is wrong"
    assert proofs == []
    bad = [change for change in bad if change.kind.id != "arguments/default-changed"]
    if not bad:
        return "a default"
    unproved = [change for change in bad if not change.kind.id.endswith("/removed")]
    if not unproved:
        return "a removed name"
    if all(change.unproved == NOT_FOUND for change in unproved):
        if any(keyword in json.dumps([accepting, refusing]) for keyword in NO_PROOF):
            return "no proof"
        if any(fits_nothing(accepting, place) for place in places(accepting)):
            return "nothing fits"
    pytest.fail(f"{[change.message for change in bad]} between {json.dumps(accepting)} and {json.dumps(refusing)}")


def fits_nothing(schema: Any, place: Any) -> bool:
    """Whether a place in a schema accepts nothing: it has no alternative, or lists only values that it refuses."""
    parts = Document(schema).parts(place)
    values = [value for part in parts for value in part.values or ()]
    return all(part.values is not None for part in parts) and not any(
        jsonschema_rs.is_valid(place, it) for it in values
    )


def is_contained_without_patterns(inner: Any, outer: Any) -> bool:
    """Whether the inner schema is contained even without its patterns, which can only exclude values."""
    copy = json.loads(json.dumps(inner))
    for place in [*places(copy)]:
        place.pop("pattern", None)
    has_negation = any({"not", "oneOf"} & place.keys() for place in places(inner))
    return copy != inner and not has_negation and is_contained(copy, outer) is True


def closed(schema: Any) -> Any:
    """The schema without members that it does not name."""
    copy = json.loads(json.dumps(schema))
    for place in [*places(copy)]:
        if place.get("type", "object") == "object" and "additionalProperties" not in place:
            place["additionalProperties"] = False
    return copy


@examples(40)
@given(pairs())
def test_changes_of_random_schemas_are_judged_as_the_oracle_does(pair: tuple[Any, Any]) -> None:
    old, new = pair
    reason(old, new, "arguments")
    reason(new, old, "result")


@examples(20)
@given(real_pairs())
def test_changes_of_real_tools_are_judged_as_the_oracle_does(pair: tuple[Any, Any]) -> None:
    old, new = pair
    reason(old, new, "arguments")
    reason(new, old, "result")


def test_each_reason_for_a_disagreement_has_an_example() -> None:
    assert {name: reason(old, new, "arguments") for name, (old, new) in EXAMPLES.items()} == {
        name: name for name in REASONS
    }
