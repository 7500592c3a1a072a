"""Proofs that a value fits a JSON Schema, for schemas that can be checked quickly.

Nearly all schemas that people write are plain: types, members, enumerations, limits. These are checked here, usually in
a microsecond or two, and always in bounded time. A proof is sound but not complete: a value without a proof may still
fit, and `validator.py` has to check it. Rare keywords, and those that differ between dialects, are therefore not
supported here.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

Proof: TypeAlias = Callable[[Any, "ProofBudget"], bool]
"""Whether a value certainly fits."""

MAX_PROOF_STEPS: Final = 10_000
"""The most values examined in one proof."""
MAX_REFERENCE_DEPTH: Final = 200
"""How many levels of recursive references are followed."""
MAX_SCHEMA_PARTS: Final = 2_000
"""The most parts of a schema; there are no proofs for larger ones."""

_ANNOTATIONS: Final = frozenset(
    {
        *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"),
        *("$schema", "$defs", "definitions", "format", "enumNames", "x-mcp-header"),
    }
)
"""Keywords that reject no value; formats are not asserted."""
_SCALAR_TYPES: Final = frozenset({str, int, bool, type(None)})
_SIZED_TYPES: Final[dict[str, type]] = {"Length": str, "Items": list, "Properties": dict}
_NUMBER_TYPES: Final[frozenset[type]] = frozenset({int, float})
_TYPES: Final[dict[str, frozenset[type]]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "null": frozenset({type(None)}),
    "object": frozenset({dict}),
    "array": frozenset({list}),
}
"""The Python types whose values are all of a type. A float may be an integer, too; the full validator decides that."""


class ProofBudget:
    """The remaining budget of a proof."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_PROOF_STEPS


class _TypeProof:
    """A proof that a value is of a type. It is by far the most frequent one, so callers may inline it."""

    __slots__ = ("right",)

    def __init__(self, right: frozenset[type]) -> None:
        self.right = right

    def __call__(self, value: Any, _budget: ProofBudget) -> bool:
        return type(value) in self.right


class _UnsupportedSchema(Exception):
    """Raised if a schema contains something that is not supported here."""


def certainly_fits(proof: Proof, value: Any) -> bool:
    """Whether a value certainly fits."""
    try:
        return proof(value, ProofBudget())
    except RecursionError:
        return False


def proof_of(schema: object) -> Proof | None:
    """Returns the proof for a schema, or None if the schema is not plain."""
    try:
        return _ProofBuilder(schema).proof
    except (_UnsupportedSchema, RecursionError):
        return None


class _ProofBuilder:
    """Turns one schema into nested proofs."""

    def __init__(self, schema: object) -> None:
        self._root = schema
        self._parts = 0
        self._definition_proofs: dict[str, Proof | None] = {}
        self.proof = self._proof(schema)

    def _proof(self, schema: object) -> Proof:
        self._parts += 1
        if self._parts > MAX_SCHEMA_PARTS:
            raise _UnsupportedSchema
        if schema is True:
            return _accept_anything
        if not isinstance(schema, dict):
            raise _UnsupportedSchema
        proofs = [proof for name, value in schema.items() if (proof := self._keyword(name, value, schema)) is not None]
        if not proofs:
            return _accept_anything
        return proofs[0] if len(proofs) == 1 else _all_of(proofs)

    def _keyword(self, name: str, value: Any, schema: dict[str, Any]) -> Proof | None:
        """Returns the proof for a keyword, or None if it requires nothing or another keyword covers it."""
        if name in _ANNOTATIONS or name in ("required", "additionalProperties"):
            return None if name in _ANNOTATIONS or "properties" in schema else self._object({}, schema)
        if name == "properties":
            return self._object(value, schema)
        if name == "type":
            return _type_proof(value)
        if name == "enum":
            return _enum_proof(value)
        if name == "const":
            return _enum_proof([value])
        if name == "items":
            return _items_proof(self._proof(value))
        if name in ("anyOf", "allOf"):
            if not isinstance(value, list) or not value:
                raise _UnsupportedSchema
            proofs = [self._proof(part) for part in value]
            return _any_of(proofs) if name == "anyOf" else _each_of(proofs)
        if name == "$ref":
            return self._reference(value)
        return _limit_proof(name, value)

    def _object(self, members: object, schema: dict[str, Any]) -> Proof:
        required, additional = schema.get("required", []), schema.get("additionalProperties", True)
        if not isinstance(members, dict) or not isinstance(required, list) or "patternProperties" in schema:
            raise _UnsupportedSchema
        if not all(isinstance(name, str) for name in required):
            raise _UnsupportedSchema
        member_proofs = {name: self._proof(member) for name, member in members.items()}
        other_proof = None if additional is False else self._proof(additional)
        return _members_proof(member_proofs, tuple(required), other_proof)

    def _reference(self, target: object) -> Proof:
        """The proof for a definition in the same schema, which may refer to itself."""
        if not isinstance(target, str) or not isinstance(self._root, dict):
            raise _UnsupportedSchema
        keyword, _, name = target.removeprefix("#/").partition("/")
        definitions = self._root.get(keyword)
        if keyword not in ("$defs", "definitions") or not isinstance(definitions, dict) or name not in definitions:
            raise _UnsupportedSchema
        if "~" in name or "%" in name or "/" in name:
            raise _UnsupportedSchema
        if target not in self._definition_proofs:
            self._definition_proofs[target] = None
            self._definition_proofs[target] = self._proof(definitions[name])
        named_proofs = self._definition_proofs

        def deferred_proof(value: Any, budget: ProofBudget) -> bool:
            proof = named_proofs[target]
            budget.left -= MAX_PROOF_STEPS // MAX_REFERENCE_DEPTH  # it may refer to itself endlessly
            return budget.left > 0 and proof is not None and proof(value, budget)

        return named_proofs[target] or deferred_proof


# ---- the parts of a proof


def _accept_anything(_value: Any, _budget: ProofBudget) -> bool:
    return True


def _type_proof(value: Any) -> Proof:
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name in _TYPES for name in names):
        raise _UnsupportedSchema
    accepted_types: frozenset[type] = frozenset().union(*(_TYPES[name] for name in names))
    return _TypeProof(accepted_types)


def _enum_proof(values: Any) -> Proof:
    if not isinstance(values, list):
        raise _UnsupportedSchema
    # 1, 1.0 and True are equal in Python and not in JSON.
    accepted_values = {(type(value), value) for value in values if type(value) in _SCALAR_TYPES}
    return lambda value, _budget: type(value) in _SCALAR_TYPES and (type(value), value) in accepted_values


def _items_proof(proof: Proof) -> Proof:
    def prove(value: Any, budget: ProofBudget) -> bool:
        if type(value) is not list:
            return True
        budget.left -= len(value)
        if budget.left <= 0:
            return False
        for item in value:  # noqa: SIM110 - `all` takes twice as long
            if not proof(item, budget):
                return False
        return True

    return prove


def _members_proof(member_proofs: dict[str, Proof], required: tuple[str, ...], other_proof: Proof | None) -> Proof:
    types = {name: proof.right for name, proof in member_proofs.items() if isinstance(proof, _TypeProof)}

    def prove(value: Any, budget: ProofBudget) -> bool:
        if type(value) is not dict:
            return True
        budget.left -= len(value) + 1
        if budget.left <= 0:
            return False
        for name in required:
            if name not in value:
                return False
        for name, member in value.items():
            if name in types:
                if type(member) in types[name]:
                    continue
                return False
            proof = member_proofs.get(name, other_proof)
            if proof is None or not proof(member, budget):
                return False
        return True

    return prove


def _all_of(proofs: list[Proof]) -> Proof:
    if len(proofs) == 2:
        first, second = proofs
        return lambda value, budget: first(value, budget) and second(value, budget)
    return lambda value, budget: all(proof(value, budget) for proof in proofs)


def _each_of(proofs: list[Proof]) -> Proof:
    """The proof for `allOf`, whose schemas may refer to others that have an `allOf`, too, and so on."""

    def prove(value: Any, budget: ProofBudget) -> bool:
        budget.left -= len(proofs)
        return budget.left > 0 and all(proof(value, budget) for proof in proofs)

    return prove


def _any_of(proofs: list[Proof]) -> Proof:
    def prove(value: Any, budget: ProofBudget) -> bool:
        budget.left -= len(proofs)
        return budget.left > 0 and any(proof(value, budget) for proof in proofs)

    return prove


def _limit_proof(name: str, limit: Any) -> Proof:
    """The proof for a limit on numbers or sizes, which accepts all values of other types."""
    if type(limit) not in (int, float):
        raise _UnsupportedSchema  # draft 4 has booleans here
    if name == "minimum":
        return lambda value, _budget: type(value) not in _NUMBER_TYPES or value >= limit
    if name == "maximum":
        return lambda value, _budget: type(value) not in _NUMBER_TYPES or value <= limit
    if name == "exclusiveMinimum":
        return lambda value, _budget: type(value) not in _NUMBER_TYPES or value > limit
    if name == "exclusiveMaximum":
        return lambda value, _budget: type(value) not in _NUMBER_TYPES or value < limit
    sized_type: Any = _SIZED_TYPES.get(name[3:])
    if sized_type is None or name[:3] not in ("min", "max"):
        raise _UnsupportedSchema
    if name[:3] == "min":
        return lambda value, _budget: not isinstance(value, sized_type) or len(value) >= limit
    return lambda value, _budget: not isinstance(value, sized_type) or len(value) <= limit
