"""The supported dialects of JSON Schema, and how a schema names its dialect."""

from typing import Final, Literal, TypeAlias

Dialect: TypeAlias = Literal["4", "6", "7", "2019-09", "2020-12"]
"""A version of JSON Schema; drafts 4 to 7 are named by their numbers."""

DIALECTS: Final[dict[str, Dialect]] = {
    "json-schema.org/draft-04/schema": "4",
    "json-schema.org/draft-06/schema": "6",
    "json-schema.org/draft-07/schema": "7",
    "json-schema.org/draft/2019-09/schema": "2019-09",
    "json-schema.org/draft/2020-12/schema": "2020-12",
}
"""The supported dialects, by their URIs without the scheme."""
DEFAULT_DIALECT: Final[Dialect] = "2020-12"
"""The dialect of a schema that names none, if its revision specifies a default."""


def dialect_of(schema: object) -> Dialect | None:
    """Returns the dialect that a schema names, or None if it names none or an unsupported one."""
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(uri, str):
        return None
    return DIALECTS.get(uri.removesuffix("#").removeprefix("https://").removeprefix("http://"))
