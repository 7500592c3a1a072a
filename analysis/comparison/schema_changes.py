"""Compares two JSON Schemas of a definition, with direction: arguments may only widen, results may only narrow."""

from typing import Literal, TypeAlias

from analysis.comparison.change import Change
from analysis.comparison.kinds.schemas import UNDECIDED

SchemaRole: TypeAlias = Literal["arguments", "result"]
"""What a schema describes: what a client may send, or what a server answers."""


def schema_changes(
    old: object,
    new: object,
    role: SchemaRole,
    subject: str,
    pointer: str = "",
    *,
    old_predates_dialects: bool = False,
    new_predates_dialects: bool = False,
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

    Returns:
        The changes, without places, in the order of the old schema; none if both schemas mean the same.
    """
    if old == new:
        return []
    return [Change(UNDECIDED, subject, f"the schema of the {role} changed", pointer, old, new)]
