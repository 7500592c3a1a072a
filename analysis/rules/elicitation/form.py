"""Forms that a server asks the user to fill in."""

import re
from collections.abc import Iterator
from typing import Any, Final

from analysis.conversation.call import MessageContext
from analysis.protocol import features
from analysis.protocol.json_pointer import encode_step
from analysis.protocol.revisions import MODERN_ERA
from analysis.rules.base import NOTE, WARNING
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member
from analysis.rules.support.inputs import INTERIM_METHODS
from analysis.rules.support.questions import ServerQuestionRule

ELICITATION_CREATE: Final = "elicitation/create"
ELICITING_METHODS: Final = frozenset({ELICITATION_CREATE, *INTERIM_METHODS})
"""The methods of messages that may contain an elicitation."""
MAX_FIELDS: Final = 1_000
"""The most fields of one form that are checked."""
MAX_TEXT_CHARS: Final = 10_000
"""The most characters of a text that are checked."""
PAGE: Final = "2025-06-18 client/elicitation"

_FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})
_PRIMITIVE_TYPES: Final = ("number", "integer", "boolean")
_NAMES_OF_SECRETS: Final = (
    r"\b(?:pass ?words?|pass ?phrases?|secrets?|api ?keys?|access ?tokens?|private ?keys?|card ?numbers?|cvv|pin)\b"
)
_search_secret: Final = re.compile(_NAMES_OF_SECRETS).search
_split_clauses: Final = re.compile(r"[.;!?\n]|\bbut\b|, (?=(?:please )?(?:enter|type|give|use|provide)\b)").split
_VERBS: Final = (
    "add|ask|contain|disclos|enter|fill|giv|includ|past|provid|put|reveal|send|shar|stor|submit|tell|typ|us|writ"
)
# "Never enter your PIN here" forbids the rest of its clause as well; "not your password" forbids only the password.
_replace_prohibitions: Final = re.compile(
    rf"\b(?:never|avoid|not|do ?nt|\w+n['’]t)(?: \w+){{0,3}}? (?:{_VERBS})(?:e|s|es|ed|ing|ting)?\b.*"
).sub
_replace_negated_secrets: Final = re.compile(
    rf"\b(?:no|not|without|except|other than|instead of)(?: (?:an?|any|the|your|my|real|actual))* {_NAMES_OF_SECRETS}"
).sub
_replace_case_changes: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])").sub
_search_url: Final = re.compile(r"(?i)\bhttps?://\S").search


class _FormRule(ServerQuestionRule):
    """The base class of the rules about forms."""

    about = ELICITATION_CREATE
    methods = ELICITING_METHODS

    def check_question(self, context: MessageContext, params: dict[str, Any], pointer: str) -> Iterator[Finding]:
        if not is_url_mode(context, params):
            yield from self.capped(self.check_form(context, params, pointer))

    def check_form(self, context: MessageContext, params: dict[str, Any], pointer: str) -> Iterator[Finding]:
        """Yields findings about one form."""
        raise NotImplementedError


class SchemaNotFlat(_FormRule):
    """A form asks for something other than text, numbers, booleans and choices.

    **Why it matters.** Clients draw a field for each member. They have no field for nested values, and refuse the form.

    **On the wire.** `…"requestedSchema":{"type":"object","properties":{"address":{"type":"object",…}}}`

    **Instead.** Use one level of members: `"street":{"type":"string"}`. The formats are email, uri, date and date-time.
    Since 2025-11-25 a user may choose several values from a list: an array whose `items` have `enum` or `anyOf`.
    """

    id = "elicitation/schema-not-flat"
    versions = features.ELICITATION
    replaces = ("schema/*",)
    source = "2025-06-18 client/elicitation, schema"

    def check_form(self, context: MessageContext, params: dict[str, Any], pointer: str) -> Iterator[Finding]:
        schema = params.get("requestedSchema")
        if not isinstance(schema, dict):
            return
        schema_pointer = f"{pointer}/requestedSchema"
        if schema.get("type") != "object":
            yield self.finding(
                context, "the schema of a form does not describe an object", pointer=f"{schema_pointer}/type"
            )
        if not isinstance(schema.get("properties"), dict):
            yield self.finding(
                context, "the schema of a form has no properties", pointer=f"{schema_pointer}/properties"
            )
        for name, field in fields_of(params):
            fault = _field_fault(field, context.rank)
            if fault is not None:
                yield self.finding(
                    context,
                    f"a field of a form {fault}",
                    pointer=f"{schema_pointer}/properties/{encode_step(name, 200)}",
                )


class RequiredUnknown(_FormRule):
    """A form requires a field that it does not have.

    **Why it matters.** No answer can satisfy it: the user cannot fill in a field that is not shown.

    **On the wire.** `…"requestedSchema":{"type":"object","properties":{"name":{…}},"required":["email"]}`

    **Instead.** List only fields of `properties` in `required`.
    """

    id = "elicitation/required-unknown"
    versions = features.ELICITATION
    level = WARNING
    source = PAGE

    def check_form(self, context: MessageContext, params: dict[str, Any], pointer: str) -> Iterator[Finding]:
        schema = params.get("requestedSchema")
        required, properties = member(schema, "required"), member(schema, "properties")
        if not isinstance(required, list) or not isinstance(properties, dict):
            return
        for index, name in enumerate(required[:MAX_FIELDS]):
            if isinstance(name, str) and name not in properties:
                name_pointer = f"{pointer}/requestedSchema/required/{index}"
                yield self.finding(context, "a required field is not in the form", pointer=name_pointer)


class Sensitive(_FormRule):
    """A form asks for a secret.

    **Why it matters.** What the user fills in passes through the client, its logs, and perhaps its model.

    **On the wire.** `…"requestedSchema":{"type":"object","properties":{"password":{"type":"string"}}}`

    **Instead.** Send the user to a page of your own, with an elicitation that has `"mode":"url"`, or use OAuth. A text
    that warns against entering a secret is not reported, nor is a checkbox or a choice.
    """

    id = "elicitation/sensitive"
    versions = features.ELICITATION
    level = WARNING
    impact = Impact.SECURITY
    source = PAGE

    def check_form(self, context: MessageContext, params: dict[str, Any], pointer: str) -> Iterator[Finding]:
        for name, field in fields_of(params):
            if member(field, "type") == "boolean" or isinstance(member(field, "enum") or member(field, "oneOf"), list):
                continue
            texts = (name, member(field, "title"), member(field, "description"))
            if any(isinstance(text, str) and _asks_for_secret(text) for text in texts):
                field_pointer = f"{pointer}/requestedSchema/properties/{encode_step(name, 200)}"
                yield self.finding(
                    context, "a field of a form asks for what looks like a secret", pointer=field_pointer
                )


class ClickableUrl(_FormRule):
    """A form shows a URL.

    **Why it matters.** Users click anything that looks like a link. The client has not checked the target of a link in
    a form.

    **On the wire.** `…"message":"Sign in at https://example.com first"`

    **Instead.** Use `"mode":"url"`, which shows the target and asks for consent.
    """

    id = "elicitation/clickable-url"
    versions = features.ELICITATION_MODES
    level = WARNING
    impact = Impact.SECURITY
    source = "2025-11-25 client/elicitation"

    def check_form(self, context: MessageContext, params: dict[str, Any], pointer: str) -> Iterator[Finding]:
        if _has_url(params.get("message")):
            yield self.finding(context, "the message of a form has a URL", pointer=f"{pointer}/message")
        for name, field in fields_of(params):
            for key in ("title", "description"):
                if _has_url(member(field, key)):
                    text_pointer = f"{pointer}/requestedSchema/properties/{encode_step(name, 200)}/{key}"
                    yield self.finding(context, f"the {key} of a field has a URL", pointer=text_pointer)


class LegacyEnumNames(_FormRule):
    """A choice has its titles in `enumNames`.

    **Why it matters.** This is the form of 2025-06-18; clients may show the bare values instead of the titles.

    **On the wire.** `{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]}`

    **Instead.** `{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}]}`
    """

    id = "elicitation/legacy-enum-names"
    versions = features.ELICITATION_MODES
    level = NOTE
    source = "2025-11-25 schema"

    def check_form(self, context: MessageContext, params: dict[str, Any], pointer: str) -> Iterator[Finding]:
        for name, field in fields_of(params):
            if isinstance(field, dict) and "enumNames" in field:
                names_pointer = f"{pointer}/requestedSchema/properties/{encode_step(name, 200)}/enumNames"
                yield self.finding(
                    context, "enumNames is an older revision's way to give titles", pointer=names_pointer
                )


class IdInModern(ServerQuestionRule):
    """An elicitation has an `elicitationId`.

    **Why it matters.** 2026-07-28 does not use it: the notification that an elicitation is complete was removed.

    **On the wire.** `…"inputRequests":{"q":{"method":"elicitation/create","params":{"elicitationId":"e1",…}}}`

    **Instead.** Leave it out; the key in `inputRequests` connects the elicitation with its reply.
    """

    id = "elicitation/id-in-modern"
    about = ELICITATION_CREATE
    methods = ELICITING_METHODS
    versions = MODERN_ERA
    level = NOTE
    source = "2026-07-28 changelog"

    def check_question(self, context: MessageContext, params: dict[str, Any], pointer: str) -> Iterator[Finding]:
        if "elicitationId" in params:
            yield self.finding(context, "this revision does not have elicitationId", pointer=f"{pointer}/elicitationId")


# ---- shared by the rules


def is_url_mode(context: MessageContext, params: dict[str, Any]) -> bool:
    """Whether an elicitation sends the user to a page, in revisions that have that mode."""
    return params.get("mode") == "url" and (context.rank is None or features.ELICITATION_MODES.includes(context.rank))


def fields_of(params: dict[str, Any]) -> list[tuple[str, Any]]:
    """Returns the fields of a form, each with its name."""
    properties = member(params.get("requestedSchema"), "properties")
    return [*properties.items()][:MAX_FIELDS] if isinstance(properties, dict) else []


def _field_fault(field: object, rank: int | None) -> str | None:
    """Returns what is wrong with a field, or None if nothing is."""
    if not isinstance(field, dict):
        return "is not a schema"
    if "$ref" in field:
        return "refers to another schema"
    type_ = field.get("type")
    if type_ in _PRIMITIVE_TYPES:
        return None
    if type_ == "string":
        format_ = field.get("format")
        return None if format_ is None or format_ in _FORMATS else "has a format that forms do not support"
    if type_ == "array" and (rank is None or features.ELICITATION_MODES.includes(rank)):
        return None if _is_choice(field.get("items")) else "is an array of something other than choices"
    return "is nested" if type_ in ("object", "array") else "is neither text, number, boolean nor choice"


def _is_choice(items: object) -> bool:
    return isinstance(member(items, "enum"), list) or isinstance(member(items, "anyOf"), list)


def _asks_for_secret(text: str) -> bool:
    """Whether a text names a secret without saying that it must not be entered."""
    words = _normalized(text)
    if not _search_secret(words):
        return False
    return any(
        _search_secret(_replace_prohibitions("", _replace_negated_secrets("", clause)))
        for clause in _split_clauses(words)
    )


def _normalized(text: str) -> str:
    return _replace_case_changes(" ", text[:MAX_TEXT_CHARS]).replace("_", " ").replace("-", " ").lower()


def _has_url(text: object) -> bool:
    return isinstance(text, str) and _search_url(text, 0, MAX_TEXT_CHARS) is not None
