"""Types for the bodies of revisions that mcp-types does not know, built from the declarations of `body_table.py`.

They judge such bodies as the types of mcp-types judge those of the revisions that it knows.
"""

from functools import cache
from typing import Any, Final, Literal, Union

from pydantic import Field, create_model

from analysis.shapes.body_table import Body, declaration_of, members_of
from analysis.shapes.revision_changes import Declaration

_TYPES: Final[dict[str, Any]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "any": Any,
    "json": Any,
}


def declared_type(body: Body) -> Any:
    """Returns the type of a body, from its declaration."""
    return _type(declaration_of(body), body.rank)


def _type(declaration: Declaration, rank: int) -> Any:
    if isinstance(declaration, str):
        return _object(declaration, rank) if "/" in declaration else _TYPES[declaration]
    ((word, inner),) = declaration.items()
    if word == "any of":
        return Union[tuple(_type(arm, rank) for arm in inner)]  # noqa: UP007 - of a computed tuple
    if word == "choice":
        return Literal[tuple(inner)]
    item: Any = _type(inner, rank)
    return list[item] if word == "array" else dict[str, item]


@cache
def _object(type_key: str, rank: int) -> Any:
    fields: dict[str, Any] = {}
    for index, (member, declaration) in enumerate(members_of(type_key, rank).items()):
        type_, is_required = _type(declaration["is"], rank), "required" in declaration
        bounds = {word: declaration[key] for key, word in (("least", "ge"), ("most", "le")) if key in declaration}
        # The name of a member need not be one of Python, so each gets a name that cannot occur in a body.
        fields[f"member_{index}"] = (
            type_ | None if not is_required or "nullable" in declaration else type_,
            Field(default=... if is_required else None, alias=member, **bounds),
        )
    make: Any = create_model
    return make(type_key.partition("/")[2], **fields)
