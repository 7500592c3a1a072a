"""Document: a schema with what its references need, and the normal form of all schemas in it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from analysis.comparison.schemas.schema_combinations import ANYTHING, MAX_ALTERNATIVES, intersection, merged, with_rule
from analysis.comparison.schemas.schema_keywords import CONSTRAINTS, branches_of, own_parts
from analysis.comparison.schemas.schema_part import TYPES, Part, Rule, Undecidable, json_key
from analysis.comparison.schemas.schema_resources import EmbeddedSchemas
from analysis.comparison.schemas.step_budget import StepBudget
from analysis.json_schema.dialects import dialect_of
from analysis.protocol.json_pointer import decode_steps

MAX_REFERENCES: Final = 64
"""How deeply schemas that apply to the same value are nested, such as the target of a `$ref` in an `allOf`."""


class Document:
    """A schema with what its references need."""

    def __init__(self, schema: Any, steps: StepBudget | None = None) -> None:
        """Read a schema.

        Args:
            schema: a JSON value.
            steps: how many steps may be taken in the whole comparison; None for no such bound.

        Raises:
            Undecidable: its dialect is not known.
        """
        self.schema = schema
        self.steps = StepBudget(whole=steps)
        """How many steps may be taken for this document, and for comparing it with a newer one."""
        dialect = dialect_of(schema)
        if isinstance(schema, dict) and "$schema" in schema and dialect is None:
            raise Undecidable("its dialect is not known")
        self.dialect = dialect
        """The dialect that the schema names; None if it names none."""
        self._ignores_siblings = dialect in ("4", "6", "7")
        self.embedded = EmbeddedSchemas(schema, dialect)
        """The schemas that have an `$id` of their own; falsy if there are none."""
        self._parts: dict[int, tuple[Any, tuple[Part, ...]]] = {}
        """The parts of each schema by its identity. The schema is kept, so that no other gets the same identity."""
        self._depth = 0

    def parts(self, schema: Any) -> tuple[Part, ...]:
        """Returns the alternatives of a schema of this document; none if it accepts nothing.

        Raises:
            Undecidable: it has no normal form.
        """
        if isinstance(schema, bool):
            return ANYTHING if schema else ()
        if not isinstance(schema, dict):
            raise Undecidable("a schema in it is neither an object nor a boolean")
        known = self._parts.get(id(schema))
        if known is not None:
            return known[1]
        if self._depth >= MAX_REFERENCES:
            raise Undecidable("its references form a circle, or are nested too deeply")
        self.steps.take()
        self._depth += 1
        try:
            parts = self._parts_of(schema)
        finally:
            self._depth -= 1
        self._parts[id(schema)] = schema, parts
        return parts

    def named(self, schema: Any) -> Any:
        """Returns the definition that a schema names and does not constrain further, or else the schema itself."""
        for _ in range(MAX_REFERENCES):
            if not isinstance(schema, dict) or "$ref" not in schema or (CONSTRAINTS - {"$ref"}) & schema.keys():
                break
            try:
                schema = self.target(schema)
            except Undecidable:
                break
        return schema

    def target(self, schema: dict[str, Any]) -> Any:
        """Returns the schema that a `$ref` names.

        Raises:
            Undecidable: it is not in this document.
        """
        reference = schema["$ref"]
        resolved = self.embedded.resolved(schema) if isinstance(reference, str) else None
        if resolved is None:
            raise Undecidable("it refers to something outside of itself")
        found, fragment = resolved
        for step in decode_steps(fragment):
            if isinstance(found, dict) and step in found:
                found = found[step]
            elif isinstance(found, list) and step.isdecimal() and len(step) < 10 and int(step) < len(found):
                found = found[int(step)]
            else:
                raise Undecidable("it refers to a definition that it does not have")
        if fragment and not fragment.startswith("/"):
            raise Undecidable("it refers to an anchor")
        return found

    def _parts_of(self, schema: dict[str, Any]) -> tuple[Part, ...]:
        if "$dynamicRef" in schema or "$recursiveRef" in schema:
            raise Undecidable("it has a dynamic reference")
        if "$ref" in schema and self._ignores_siblings:
            return self.parts(self.target(schema))
        parts = own_parts(schema)
        if "$ref" in schema:
            parts = self._both(parts, self.parts(self.target(schema)))
        for branch in branches_of(schema, "allOf"):
            parts = self._both(parts, self.parts(branch))
        if "anyOf" in schema:
            parts = self._both(parts, self._any(branches_of(schema, "anyOf")))
        if "oneOf" in schema:
            parts = self._both(parts, self._exactly_one(branches_of(schema, "oneOf")))
        if "not" in schema:
            parts = self._without(parts, schema["not"])
        if "if" in schema and ("then" in schema or "else" in schema):
            parts = with_rule(parts, Rule("if", {name: schema.get(name, True) for name in ("if", "then", "else")}))
        return parts

    def _any(self, branches: list[Any]) -> tuple[Part, ...]:
        return merged([part for branch in branches for part in self.parts(branch)])

    def _exactly_one(self, branches: list[Any]) -> tuple[Part, ...]:
        """Returns the alternatives of `oneOf`: those of `anyOf`, with a rule for types in which they may overlap."""
        branch_parts = [self.parts(branch) for branch in branches]
        found: list[Part] = []
        for name in TYPES:
            alike = [[part for part in parts if part.type == name] for parts in branch_parts]
            parts = merged([part for group in alike for part in group])
            groups = [group for group in alike if group]
            found += (
                parts
                if _have_distinct_values(groups) or _pairwise(groups, self._are_disjoint)
                else with_rule(parts, Rule("oneOf", branches))
            )
        return tuple(found)

    def _without(self, parts: tuple[Part, ...], excluded: Any) -> tuple[Part, ...]:
        excluded_parts = self.parts(excluded)
        whole_types = {part.type for part in excluded_parts if part.accepts_all}
        parts = tuple(part for part in parts if part.type not in whole_types)
        others = {part.type for part in excluded_parts} - whole_types
        rule = Rule("not", excluded)
        return tuple(part._replace(rules=(*part.rules, rule)) if part.type in others else part for part in parts)

    def _both(self, parts: tuple[Part, ...], others: tuple[Part, ...]) -> tuple[Part, ...]:
        pairs = [(part, other) for part in parts for other in others if part.type == other.type]
        if len(pairs) > MAX_ALTERNATIVES:
            raise Undecidable("it has too many combinations of alternatives")
        for part, other in pairs:
            if not (part.accepts_all or other.accepts_all):
                self.steps.take_for(part, other)
        return merged([both for part, other in pairs if (both := intersection(part, other)) is not None])

    def _are_disjoint(self, parts: Sequence[Part], others: Sequence[Part], depth: int = 3) -> bool:
        """Whether it is certain that no value fits an alternative of both."""
        return all(
            part.type != other.type or self._are_parts_disjoint(part, other, depth)
            for part in parts
            for other in others
        )

    def _are_parts_disjoint(self, part: Part, other: Part, depth: int) -> bool:
        both = intersection(part, other)
        if both is None:
            return True
        if part.type != "object" or depth == 0:
            return False
        for name in both.required:
            schemas = part.schema_of_member(name), other.schema_of_member(name)
            if part.pattern_properties or other.pattern_properties or True in schemas:
                continue
            if self._are_disjoint(self.parts(schemas[0]), self.parts(schemas[1]), depth - 1):
                return True
        return False


def _have_distinct_values(groups: list[list[Part]]) -> bool:
    """Whether all groups accept only listed values, and no value is in two of them."""
    if any(part.values is None for group in groups for part in group):
        return False
    keys = [{json_key(value) for part in group for value in part.values or ()} for group in groups]
    return sum(map(len, keys)) == len(set().union(*keys))


def _pairwise(items: list[Any], check: Callable[[Any, Any], bool]) -> bool:
    pairs: Iterable[tuple[Any, Any]] = (
        (item, other) for index, item in enumerate(items) for other in items[index + 1 :]
    )
    return len(items) <= MAX_ALTERNATIVES and all(check(item, other) for item, other in pairs)
