"""Finds the schemas of a document that have an `$id` of their own, and resolves references among them."""

from typing import Any, Final
from urllib.parse import urljoin

from analysis.json_schema.dialects import Dialect

_VALUES: Final = frozenset({"enum", "const", "default", "examples"})
"""Keywords whose values are not schemas."""
_NAMED_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose values are schemas by names, which are no keywords."""


class EmbeddedSchemas:
    """The schemas in a document that references may name by a URI."""

    def __init__(self, schema: Any, dialect: Dialect | None) -> None:
        """Find them.

        Args:
            schema: the whole document.
            dialect: its dialect; None if it names none.
        """
        self._keyword = "id" if dialect == "4" else "$id"
        self._ignores_siblings = dialect in ("4", "6", "7")
        self._root_uri = self._own_uri(schema, "")
        self._by_uri: dict[str, Any] = {self._root_uri: schema}
        """The schema of each URI; None if several have the same."""
        self._uris: dict[int, str] = {}
        """The URI of the embedded schema around each schema, by its identity; those of the root are left out."""
        pending: list[tuple[Any, str, bool]] = [(schema, "", True)]
        while pending:
            place, around, is_schema = pending.pop()
            if isinstance(place, list):
                pending += ((item, around, True) for item in place)
            elif isinstance(place, dict):
                uri = self._own_uri(place, around) if is_schema else around
                if uri != around and place is not schema:
                    self._by_uri[uri] = None if uri in self._by_uri else place
                if uri != self._root_uri:
                    self._uris[id(place)] = uri
                pending += (
                    (member, uri, not (is_schema and name in _NAMED_SCHEMAS))
                    for name, member in place.items()
                    if not (is_schema and name in _VALUES)
                )

    def __bool__(self) -> bool:
        """Whether a schema other than the whole has an `$id`."""
        return bool(self._uris)

    def resolved(self, schema: dict[str, Any]) -> tuple[Any, str] | None:
        """Returns the schema that the URI of a `$ref` names, and its fragment; None if it is not in the document."""
        uri, _, fragment = str(schema["$ref"]).partition("#")
        around = self._uris.get(id(schema), self._root_uri)
        found = self._by_uri.get(_joined(around, uri) if uri else around)
        return None if found is None else (found, fragment)

    def _own_uri(self, schema: Any, around: str) -> str:
        """Returns the URI of a schema, which is that of the schema around it unless it has its own."""
        own = schema.get(self._keyword) if isinstance(schema, dict) else None
        if not isinstance(own, str) or not own.partition("#")[0]:  # `#name` is an anchor, before 2019-09
            return around
        return around if "$ref" in schema and self._ignores_siblings else _joined(around, own)


def _joined(base: str, uri: str) -> str:
    """Returns a URI that may be relative to another one, without its fragment."""
    try:
        return urljoin(base, uri).partition("#")[0]
    except ValueError:
        return uri
