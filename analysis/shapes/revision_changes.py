"""What a revision changes in the bodies of the one before it, until mcp-types has types for it.

`body_table.json` has the bodies of the revisions that mcp-types knows. A newer one begins with all bodies and types of
its predecessor; a row of `CHANGES` says what it adds, replaces or removes. When a release of mcp-types knows the
revision, `make body-table` takes its bodies from there. The row is then removed, and `since.py` gets the members that
were added.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Declaration: TypeAlias = str | dict[str, Any]
"""A word for a scalar, `any` or `json`; the era and name of a type; or a dict for array, map, choice or any of."""
MemberDeclaration: TypeAlias = dict[str, Any]
"""A member: what it `is`, whether it is `required` (and still `nullable`), and the `least` and `most` of a number."""


class RevisionChanges(NamedTuple):
    """The changes of one revision. None removes what its predecessor has."""

    bodies: Mapping[str, Declaration | None] = {}
    """Bodies by their rows, such as `params tools/call complete`."""
    types: Mapping[str, Mapping[str, MemberDeclaration | None]] = {}
    """Members by their types, such as `modern/Tool`; a type that is new begins without members."""


CHANGES: Final[dict[str, RevisionChanges]] = {}
"""The changes by revision: one row for each that mcp-types does not know, if it changes any body."""
