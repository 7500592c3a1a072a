"""Kinds of changes of schemas, judged by direction: arguments may only widen, results may only narrow."""

from typing import Final

from analysis.comparison.kind import Kind, Severity

# ---- arguments: compatible if they only widen

ARGUMENT_REQUIRED: Final = Kind(
    "arguments/newly-required",
    Severity.BREAKING,
    "an argument is required now",
    (
        "Calls without the argument, which were valid before, are refused from now on. If it has a default, this may"
        " break only clients that validate, because most servers fill it in."
    ),
    '"required": ["query"] → ["query", "limit"]',
)
ARGUMENT_OPTIONAL: Final = Kind(
    "arguments/no-longer-required",
    Severity.NOTE,
    "an argument is no longer required",
    (
        "All calls that were valid before still are. What the server does without the argument is for "
        "its description to say."
    ),
    '"required": ["query", "limit"] → ["query"]',
)
ARGUMENT_REMOVED: Final = Kind(
    "arguments/removed",
    Severity.BREAKING,
    "an argument was removed",
    (
        "A server whose schema excludes other arguments (`additionalProperties: false`) refuses calls "
        'that contain it. Otherwise the change is at most "may break": the call is still valid, but the '
        "server probably ignores the argument."
    ),
    '"properties": {"query": …, "limit": …} → {"query": …}',
)
ARGUMENT_ADDED: Final = Kind(
    "arguments/added",
    Severity.NOTE,
    "there is a new optional argument",
    (
        "Calls without it are as valid as before. That a call may already have had an argument of this "
        "name, which the schema did not describe, does not count."
    ),
    '"properties": {"query": …} → {"query": …, "limit": …}',
)
ARGUMENT_TYPE_NARROWED: Final = Kind(
    "arguments/type-narrowed",
    Severity.BREAKING,
    "an argument accepts fewer types",
    ("Calls with a value of a type that is gone are refused from now on."),
    '"type": ["string", "null"] → "string"',
)
ARGUMENT_TYPE_WIDENED: Final = Kind(
    "arguments/type-widened",
    Severity.NOTE,
    "an argument accepts more types",
    ("All calls that were valid before still are."),
    '"type": "integer" → "number"',
)
ARGUMENT_TYPE_CHANGED: Final = Kind(
    "arguments/type-changed",
    Severity.BREAKING,
    "an argument has another type",
    ("Calls with a value of the old type are refused from now on."),
    '"type": "string" → "integer"',
)
ARGUMENT_ENUM_NARROWED: Final = Kind(
    "arguments/enum-narrowed",
    Severity.BREAKING,
    "an argument no longer accepts some values",
    ("Calls with a value that is no longer in the list are refused from now on, such as those of a saved prompt."),
    '"enum": ["asc", "desc", "none"] → ["asc", "desc"]',
)
ARGUMENT_ENUM_WIDENED: Final = Kind(
    "arguments/enum-widened",
    Severity.NOTE,
    "an argument accepts more values",
    ("All calls that were valid before still are."),
    '"enum": ["asc", "desc"] → ["asc", "desc", "none"]',
)
ARGUMENT_RANGE_NARROWED: Final = Kind(
    "arguments/range-narrowed",
    Severity.BREAKING,
    "an argument has a tighter limit",
    (
        "Calls whose number, length or number of items is now beyond a limit are refused from now on. A limit of"
        " 9007199254740991, which some generators of schemas give to all integers, may break only senders of larger"
        " ones."
    ),
    '"maximum": 100 → 50',
)
ARGUMENT_RANGE_WIDENED: Final = Kind(
    "arguments/range-widened",
    Severity.NOTE,
    "an argument has a looser limit",
    ("All calls that were valid before still are."),
    '"maximum": 50 → 100',
)
ARGUMENTS_CLOSED: Final = Kind(
    "arguments/closed",
    Severity.MAY_BREAK,
    "arguments that the schema does not describe are no longer accepted",
    (
        "Calls with additional arguments were valid and are refused from now on. Clients seldom send "
        "any, but a model may invent one, and some clients add their own."
    ),
    '"additionalProperties": true → false',
)
ARGUMENTS_OPENED: Final = Kind(
    "arguments/opened",
    Severity.NOTE,
    "arguments that the schema does not describe are accepted now",
    ("All calls that were valid before still are. Misspelt names are no longer refused."),
    '"additionalProperties": false → true',
)
ARGUMENT_ALTERNATIVES_NARROWED: Final = Kind(
    "arguments/alternatives-narrowed",
    Severity.BREAKING,
    "an argument has lost an alternative",
    ("Calls in the form of the alternative that is gone are refused from now on."),
    '"anyOf": [{"required": ["id"]}, {"required": ["name"]}] → [{"required": ["id"]}]',
)
ARGUMENT_ALTERNATIVES_WIDENED: Final = Kind(
    "arguments/alternatives-widened",
    Severity.NOTE,
    "an argument has a new alternative",
    ("All calls that were valid before still are."),
    '"anyOf": [{"required": ["id"]}] → [{"required": ["id"]}, {"required": ["name"]}]',
)
ARGUMENT_CONSTRAINT_ADDED: Final = Kind(
    "arguments/constraint-added",
    Severity.BREAKING,
    "an argument has a new constraint, or a stricter one",
    ("Calls that violate it (a pattern, `not`, `if`, a dependency and so on) are refused from now on."),
    '"pattern": none → "^[a-z]+$"',
)
ARGUMENT_CONSTRAINT_REMOVED: Final = Kind(
    "arguments/constraint-removed",
    Severity.NOTE,
    "an argument has lost a constraint",
    ("All calls that were valid before still are."),
    '"pattern": "^[a-z]+$" → none',
)
ARGUMENT_CONSTRAINT_CHANGED: Final = Kind(
    "arguments/constraint-changed",
    Severity.BREAKING,
    "a constraint of an argument changed",
    (
        "The old and the new constraint cannot be compared in general. A value that only the old one "
        "accepts proves that calls are refused from now on; without such a value, the change may break."
    ),
    '"pattern": "^[a-z]+$" → "^[a-z0-9]+$"',
)
ARGUMENT_NARROWED: Final = Kind(
    "arguments/narrowed",
    Severity.BREAKING,
    "arguments that were valid are no longer valid",
    (
        "A value that the old schema accepts and the new one refuses was found, although the changes of "
        "the schema, taken by themselves, looked compatible."
    ),
    '"not": {"required": ["a", "b"]} is new in one of several alternatives',
)
DEFAULT_CHANGED: Final = Kind(
    "arguments/default-changed",
    Severity.MAY_BREAK,
    "the default of an argument changed, or is gone",
    ("A call without the argument is as valid as before, but means something else now."),
    '"default": 10 → 100',
)
# ---- results: compatible if they only narrow

RESULT_MEMBER_REQUIRED: Final = Kind(
    "result/newly-required",
    Severity.NOTE,
    "a member of the result is always there now",
    ("Clients that can do without it still can."),
    '"required": ["id"] → ["id", "name"]',
)
RESULT_MEMBER_OPTIONAL: Final = Kind(
    "result/no-longer-required",
    Severity.BREAKING,
    "a member of the result may be missing now",
    ("Clients that relied on the member fail on a result without it."),
    '"required": ["id", "name"] → ["id"]',
)
RESULT_MEMBER_REMOVED: Final = Kind(
    "result/removed",
    Severity.BREAKING,
    "a member of the result was removed",
    (
        "Clients that read the member find none. If it was optional, they had to be able to do without "
        'it, and the change is at most "may break".'
    ),
    '"properties": {"id": …, "name": …} → {"id": …}',
)
RESULT_MEMBER_ADDED: Final = Kind(
    "result/added",
    Severity.NOTE,
    "there is a new member in the result",
    ("Clients ignore members that they do not know, and the old schema allowed others."),
    '"properties": {"id": …} → {"id": …, "name": …}',
)
RESULT_MEMBER_ADDED_TO_CLOSED: Final = Kind(
    "result/added-to-closed",
    Severity.MAY_BREAK,
    "there is a new member in a result that allowed no others",
    (
        "The old schema excluded other members (`additionalProperties: false`). Most clients ignore "
        "members that they do not know; one that validates results with the old schema, or with types "
        "created from it, refuses them."
    ),
    '"properties": {"id": …}, "additionalProperties": false → {"id": …, "name": …}',
)
RESULT_TYPE_NARROWED: Final = Kind(
    "result/type-narrowed",
    Severity.NOTE,
    "a member of the result has fewer types",
    ("Clients that could deal with all types still can."),
    '"type": ["string", "null"] → "string"',
)
RESULT_TYPE_WIDENED: Final = Kind(
    "result/type-widened",
    Severity.BREAKING,
    "a member of the result may have more types",
    ("Clients get values of a type that they were never told of, often null."),
    '"type": "string" → ["string", "null"]',
)
RESULT_TYPE_CHANGED: Final = Kind(
    "result/type-changed",
    Severity.BREAKING,
    "a member of the result has another type",
    ("Clients get values of a type that they were never told of."),
    '"type": "integer" → "string"',
)
RESULT_ENUM_NARROWED: Final = Kind(
    "result/enum-narrowed",
    Severity.NOTE,
    "a member of the result no longer has some values",
    ("Clients that could deal with all values still can."),
    '"enum": ["open", "closed", "draft"] → ["open", "closed"]',
)
RESULT_ENUM_WIDENED: Final = Kind(
    "result/enum-widened",
    Severity.BREAKING,
    "a member of the result may have values that were not listed",
    (
        "A client with a case for each listed value has none for the new one. oasdiff only warns of "
        "this, because many clients have a default case. Here it is breaking, because the old list "
        "promised that there are no other values, and a value proves that there are now."
    ),
    '"enum": ["open", "closed"] → ["open", "closed", "draft"]',
)
RESULT_RANGE_NARROWED: Final = Kind(
    "result/range-narrowed",
    Severity.NOTE,
    "a member of the result has a tighter limit",
    ("Clients that could deal with all values still can."),
    '"maximum": 100 → 50',
)
RESULT_RANGE_WIDENED: Final = Kind(
    "result/range-widened",
    Severity.BREAKING,
    "a member of the result has a looser limit, or none",
    ("Clients get values beyond the limit that they were promised."),
    '"maxLength": 80 → 200',
)
RESULT_CLOSED: Final = Kind(
    "result/closed",
    Severity.NOTE,
    "the result no longer has members that the schema does not describe",
    ("Clients that ignored other members find none."),
    '"additionalProperties": true → false',
)
RESULT_OPENED: Final = Kind(
    "result/opened",
    Severity.MAY_BREAK,
    "the result may have members that the schema does not describe",
    ("Most clients ignore members that they do not know; one that validates results with the old schema refuses them."),
    '"additionalProperties": false → true',
)
RESULT_ALTERNATIVES_NARROWED: Final = Kind(
    "result/alternatives-narrowed",
    Severity.NOTE,
    "a member of the result has lost an alternative",
    ("Clients that could deal with all alternatives still can."),
    '"anyOf": [A, B] → [A]',
)
RESULT_ALTERNATIVES_WIDENED: Final = Kind(
    "result/alternatives-widened",
    Severity.BREAKING,
    "a member of the result has a new alternative",
    ("Clients get results in a form that they were never told of."),
    '"anyOf": [A] → [A, B]',
)
RESULT_CONSTRAINT_ADDED: Final = Kind(
    "result/constraint-added",
    Severity.NOTE,
    "a member of the result has a new constraint",
    ("Clients that could deal with all values still can."),
    '"pattern": none → "^[a-z]+$"',
)
RESULT_CONSTRAINT_REMOVED: Final = Kind(
    "result/constraint-removed",
    Severity.BREAKING,
    "a member of the result has lost a constraint, or has a weaker one",
    ("Clients get values that violate what they were promised."),
    '"pattern": "^[a-z]+$" → none',
)
RESULT_CONSTRAINT_CHANGED: Final = Kind(
    "result/constraint-changed",
    Severity.BREAKING,
    "a constraint of the result changed",
    (
        "The old and the new constraint cannot be compared in general. A value that only the new one "
        "accepts proves that clients get what they were never told of; without such a value, the change "
        "may break."
    ),
    '"pattern": "^[a-z]+$" → "^[a-z0-9]+$"',
)
RESULT_WIDENED: Final = Kind(
    "result/widened",
    Severity.BREAKING,
    "results are possible that were not possible before",
    (
        "A value that the new schema accepts and the old one refuses was found, although the changes of "
        "the schema, taken by themselves, looked compatible."
    ),
    '"not": {"required": ["a", "b"]} is gone from one of several alternatives',
)
RESULT_SCHEMA_ADDED: Final = Kind(
    "result/schema-added",
    Severity.NOTE,
    "the result has a schema now",
    ("Clients may use it, and those that validate results refuse those that violate it."),
    '"outputSchema": none → {"type": "object", …}',
)
RESULT_SCHEMA_REMOVED: Final = Kind(
    "result/schema-removed",
    Severity.BREAKING,
    "the result no longer has a schema",
    ("Nothing is promised of the structured result now, not even that there is one."),
    '"outputSchema": {"type": "object", …} → none',
)
# ---- both

DESCRIPTION_CHANGED: Final = Kind(
    "schema/description-changed",
    Severity.NOTE,
    "a title, a description or the examples in a schema changed",
    ("Models read these texts, so they may use the tool differently. The same values are valid."),
    '"description": "Where to search" → "The folder to search in"',
)
FORMAT_CHANGED: Final = Kind(
    "schema/format-changed",
    Severity.NOTE,
    "the format of a value changed",
    ("`format` is an annotation: only a validator that is set to assert it rejects values. Some are."),
    '"format": "date" → "date-time"',
)
ANNOTATION_CHANGED: Final = Kind(
    "schema/annotation-changed",
    Severity.NOTE,
    "an annotation in a schema changed",
    (
        "The same values are valid. `deprecated`, `readOnly`, the name of the dialect and keywords of "
        "vendors are annotations."
    ),
    '"deprecated": none → true',
)
UNDECIDED: Final = Kind(
    "schema/undecided",
    Severity.UNKNOWN,
    "it could not be decided whether a change of a schema is compatible",
    (
        "The schema refers to something outside of itself, names a dialect that is not known, is not "
        "valid, has a pattern that cannot be decided in linear time, takes too much work to compare, or is "
        "too large. Unknown is not compatible."
    ),
    '{"$ref": "https://example.com/filter.json"} → {"$ref": "https://example.com/filter-2.json"}',
)

KINDS: Final = (
    ARGUMENT_REQUIRED,
    ARGUMENT_OPTIONAL,
    ARGUMENT_REMOVED,
    ARGUMENT_ADDED,
    ARGUMENT_TYPE_NARROWED,
    ARGUMENT_TYPE_WIDENED,
    ARGUMENT_TYPE_CHANGED,
    ARGUMENT_ENUM_NARROWED,
    ARGUMENT_ENUM_WIDENED,
    ARGUMENT_RANGE_NARROWED,
    ARGUMENT_RANGE_WIDENED,
    ARGUMENTS_CLOSED,
    ARGUMENTS_OPENED,
    ARGUMENT_ALTERNATIVES_NARROWED,
    ARGUMENT_ALTERNATIVES_WIDENED,
    ARGUMENT_CONSTRAINT_ADDED,
    ARGUMENT_CONSTRAINT_REMOVED,
    ARGUMENT_CONSTRAINT_CHANGED,
    ARGUMENT_NARROWED,
    DEFAULT_CHANGED,
    RESULT_MEMBER_REQUIRED,
    RESULT_MEMBER_OPTIONAL,
    RESULT_MEMBER_REMOVED,
    RESULT_MEMBER_ADDED,
    RESULT_MEMBER_ADDED_TO_CLOSED,
    RESULT_TYPE_NARROWED,
    RESULT_TYPE_WIDENED,
    RESULT_TYPE_CHANGED,
    RESULT_ENUM_NARROWED,
    RESULT_ENUM_WIDENED,
    RESULT_RANGE_NARROWED,
    RESULT_RANGE_WIDENED,
    RESULT_CLOSED,
    RESULT_OPENED,
    RESULT_ALTERNATIVES_NARROWED,
    RESULT_ALTERNATIVES_WIDENED,
    RESULT_CONSTRAINT_ADDED,
    RESULT_CONSTRAINT_REMOVED,
    RESULT_CONSTRAINT_CHANGED,
    RESULT_WIDENED,
    RESULT_SCHEMA_ADDED,
    RESULT_SCHEMA_REMOVED,
    DESCRIPTION_CHANGED,
    FORMAT_CHANGED,
    ANNOTATION_CHANGED,
    UNDECIDED,
)
