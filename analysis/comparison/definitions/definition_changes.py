"""Judges a definition that both sides have: each member of it by the table of kinds, its schemas with direction."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from analysis.comparison.canonical import canonical_json
from analysis.comparison.change import Change
from analysis.comparison.definitions.definition_lists import LISTS, ListName
from analysis.comparison.definitions.hidden_text import names_of, new_hidden_text, visible_text
from analysis.comparison.definitions.prompt_arguments import argument_changes
from analysis.comparison.definitions.tool_claims import annotation_changes, execution_changes
from analysis.comparison.kind import Kind
from analysis.comparison.kinds import definitions as kinds
from analysis.comparison.members import changed_members, how_changed, is_object_or_absent, members_of, step_to
from analysis.comparison.requests import bounded
from analysis.comparison.schemas.schema_changes import SchemaRole, schema_changes
from analysis.comparison.schemas.witness import TryBudget

MAX_META_MEMBERS: Final = 20
"""The most changed members of `_meta` that have a change of their own; further ones share the last."""

_OWN_KINDS: Final[dict[str, tuple[Kind, str]]] = {
    "title": (kinds.TITLE, "the title"),
    "description": (kinds.DESCRIPTION, "the description"),
    "icons": (kinds.ICONS, "the list of icons"),
    "mimeType": (kinds.MIME_TYPE, "the MIME type"),
}
"""The kinds of members that all definitions have, or several, with the words for them."""
_RESOURCE_KINDS: Final[dict[str, tuple[Kind, str]]] = {
    "name": (kinds.RESOURCE_NAME, "the name"),
    "size": (kinds.RESOURCE_SIZE, "the size"),
}
SCHEMA_MEMBERS: Final[dict[str, SchemaRole]] = {"inputSchema": "arguments", "outputSchema": "result"}
"""The members of a tool that are schemas, with what they describe."""
_IDENTITIES: Final = {row.name: row.identity for row in LISTS}


class SchemaJudgement(NamedTuple):
    """How the schemas of definitions are judged."""

    budget: TryBudget
    """How many values may still be tried as witnesses, in the whole comparison."""
    old_predates_dialects: bool = False
    """Whether the revision of the old side does not specify a default dialect of schemas."""
    new_predates_dialects: bool = False


def definition_changes(
    list_name: ListName, subject: str, old: Any, new: Any, judgement: SchemaJudgement
) -> list[Change]:
    """Compare two definitions, except their names.

    Args:
        list_name: the list that they are in.
        subject: `Change.subject`, such as `tool search`.
        old: the definition on the old side, a JSON value.
        new: the definition on the new side.
        judgement: how their schemas are judged.

    Returns:
        The changes, without places.
    """
    changes: list[Change] = []
    for name, before, after in changed_members(members_of(old), members_of(new)):
        if name == _IDENTITIES[list_name]:
            continue
        if list_name == "tools" and name in SCHEMA_MEMBERS:
            changes += _schema_changes(before, after, subject, name, judgement)
        elif list_name == "tools" and name == "annotations":
            changes += annotation_changes(subject, before, after)
        elif list_name == "tools" and name == "execution":
            changes += execution_changes(subject, before, after)
        elif list_name == "prompts" and name == "arguments":
            changes += argument_changes(subject, before, after)
        elif name == "_meta":
            changes += _meta_changes(subject, before, after)
        else:
            changes += _member_changes(list_name, subject, name, before, after)
    return changes + hidden_text_changes(subject, old, new)


def hidden_text_changes(subject: str, old: Any, new: Any, pointer: str = "") -> list[Change]:
    """Returns at most one change: new hidden text in a definition or another value.

    Args:
        subject: `Change.subject`.
        old: the JSON value on the old side; `ABSENT` if there is none.
        new: the JSON value on the new side.
        pointer: the place of the values.
    """
    hidden_texts = new_hidden_text(old, new)
    if not hidden_texts:
        return []
    characters = "".join(text.characters for text in hidden_texts)
    count = "a hidden character was" if len(characters) == 1 else f"{len(characters):,} hidden characters were"
    message = f"{count} added: {names_of(characters)}"
    place = pointer + hidden_texts[0].pointer
    return [Change(kinds.HIDDEN_TEXT, subject, message, place, times=len(hidden_texts))]


def differs_only_in_hidden_text(before: Any, after: Any) -> bool:
    """Whether two texts are the same but for hidden text that is new."""
    if not isinstance(before, str) or not isinstance(after, str) or not new_hidden_text(before, after):
        return False
    return visible_text(before) == visible_text(after)


def _schema_changes(before: Any, after: Any, subject: str, member: str, judgement: SchemaJudgement) -> list[Change]:
    return schema_changes(
        before,
        after,
        SCHEMA_MEMBERS[member],
        subject,
        f"/{member}",
        old_predates_dialects=judgement.old_predates_dialects,
        new_predates_dialects=judgement.new_predates_dialects,
        budget=judgement.budget,
    )


def _meta_changes(subject: str, before: Any, after: Any) -> Iterator[Change]:
    """Yields a change for each member of `_meta` that differs, or one for all if it is not an object."""
    if not is_object_or_absent(before) or not is_object_or_absent(after):
        yield Change(kinds.META, subject, how_changed("`_meta`", before, after), "/_meta", before, after)
        return
    members = changed_members(members_of(before), members_of(after))
    for index, (name, old, new) in enumerate(members[:MAX_META_MEMBERS]):
        times = len(members) - index if index == MAX_META_MEMBERS - 1 else 1
        message = how_changed(f"the member {bounded(name)!r} of `_meta`", old, new)
        yield Change(kinds.META, subject, message, f"/_meta{step_to(name)}", old, new, times=times)


def _member_changes(list_name: ListName, subject: str, name: str, before: Any, after: Any) -> Iterator[Change]:
    """Yields the change of any other member, unless only the order of a list without order differs."""
    if name == "icons" and _is_permutation(before, after):
        return
    is_resource = list_name in ("resources", "resource templates")
    known = _OWN_KINDS.get(name) or (_RESOURCE_KINDS.get(name) if is_resource else None)
    kind, what = known or (kinds.MEMBER, f"the member {bounded(name)!r}")
    if differs_only_in_hidden_text(before, after):
        return  # it is reported as such
    verb = "was reworded" if kind is kinds.DESCRIPTION else "changed"
    yield Change(kind, subject, how_changed(what, before, after, verb), step_to(name), before, after)


def _is_permutation(before: Any, after: Any) -> bool:
    return (
        isinstance(before, list)
        and isinstance(after, list)
        and sorted(map(canonical_json, before)) == sorted(map(canonical_json, after))
    )
