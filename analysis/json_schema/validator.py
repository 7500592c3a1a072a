"""Validates untrusted JSON Schemas, and values against them.

Both come from the traffic, so a schema may be designed to take forever, to use up all memory, or to make the validator
fetch something. Plain schemas are checked in this process (`fast_path.py`). All others go to a child process
(`judge.py`), which alone loads the library for them and cannot open anything. Each question may take 100 ms of
processor time; one that takes more ends the child. A question without an answer never leads to a finding.

Faults contain no value from the traffic, only the place and, in general terms, what is wrong there.
"""

from collections import OrderedDict
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import orjson

from analysis.json_schema.dialects import Draft, dialect_of
from analysis.json_schema.fast_path import Proof, certainly_fits, proof_of
from analysis.json_schema.worker import Worker

MAX_SCHEMA_OR_VALUE_BYTES: Final = 1 << 20
"""The most bytes of a schema or value that is examined."""
MAX_CACHED_SCHEMAS: Final = 2_000
"""The most schemas that are kept; the least recently used one is dropped first."""
MAX_TOTAL_SCHEMA_BYTES: Final = 32 << 20
"""The most bytes of all these schemas together."""
MAX_ANSWERS_PER_SCHEMA: Final = 200
"""The most answers that are kept for one schema."""
MAX_REMEMBERED_VALUE_BYTES: Final = 1_000
"""The most bytes of a value whose answer is kept."""
MAX_SCHEMA_TIME_US: Final = 5_000_000
"""The processor time that all questions about one schema may take together."""

_MAX_POINTER_CHARS: Final = 200


class SchemaFault(NamedTuple):
    """A fault in a value or a schema."""

    pointer: str
    """The place of the fault: a JSON Pointer, truncated."""
    text: str
    """What is wrong there, in words without values: the end of a sentence that the place begins."""

    @property
    def sentence(self) -> str:
        """Place and fault; the names in the place are untrusted."""
        return f"{self.pointer} {self.text}" if self.pointer else f"the value {self.text}"


class Schema:
    """One schema, created by `schema_of`."""

    def __init__(self, value: Any, text: bytes, drafts: tuple[Draft, ...]) -> None:
        self.text = text
        self.drafts = drafts
        """The dialects that it may use; none if it names an unknown one."""
        self.memory: dict[str, Any] = {}
        """Facts that rules have derived from it."""
        self._proof: Proof | None = proof_of(value)
        self._answers: dict[bytes, SchemaFault | None] = {}
        self._fault: SchemaFault | None = None
        self._is_judged = False
        self._spent_us = 0

    @property
    def fault(self) -> SchemaFault | None:
        """The fault that makes it invalid in its dialect (or the last that it may use), or None if it is valid."""
        if not self._is_judged:
            self._is_judged = True
            self._fault = self._ask(b"")
        return self._fault

    def mismatch(self, value: object) -> SchemaFault | None:
        """Returns why a value does not fit, or None if it fits or that cannot be decided."""
        if self._proof is not None and certainly_fits(self._proof, value):
            return None
        if not self.drafts or self.fault is not None:
            return None
        try:
            text = orjson.dumps(value)
        except TypeError:
            return None  # numbers beyond 64 bits, lone surrogates
        if len(text) > MAX_SCHEMA_OR_VALUE_BYTES:
            return None
        if text in self._answers:
            return self._answers[text]
        fault = self._ask(text)
        if len(text) <= MAX_REMEMBERED_VALUE_BYTES and len(self._answers) < MAX_ANSWERS_PER_SCHEMA:
            self._answers[text] = fault
        return fault

    def _ask(self, value: bytes) -> SchemaFault | None:
        """Returns the fault if there is one in every dialect that the schema may use, or else None.

        Args:
            value: the value as JSON; empty to check the schema itself.
        """
        fault = None
        for draft in self.drafts:
            if self._spent_us > MAX_SCHEMA_TIME_US:
                return None
            answer = WORKER.ask(draft, self.text, value)
            if answer is None:
                self._spent_us = MAX_SCHEMA_TIME_US + 1
                return None
            spent_us, fits, pointer, text = answer
            self._spent_us += spent_us
            if fits is not False:
                return None
            fault = SchemaFault(pointer[:_MAX_POINTER_CHARS], text)
        return fault


WORKER: Final = Worker()
"""The worker that the whole process shares; it starts its child for the first question."""

_schemas: OrderedDict[tuple[bytes, bool], Schema] = OrderedDict()
_total_bytes = 0


def schema_of(value: object, *, is_old: bool = False) -> Schema | None:
    """The schema for a value; the same object for the same value as long as it is kept.

    Args:
        value: an object or a boolean.
        is_old: whether it comes from a revision that did not specify a dialect.

    Returns:
        The schema, or None if the value is too large or cannot be written as JSON.
    """
    global _total_bytes
    if not isinstance(value, dict | bool):
        return None
    try:
        text = orjson.dumps(value)
    except TypeError:
        return None
    if len(text) > MAX_SCHEMA_OR_VALUE_BYTES:
        return None
    key = blake2b(text, digest_size=16).digest(), is_old
    cached_schema = _schemas.get(key)
    if cached_schema is not None:
        _schemas.move_to_end(key)
        return cached_schema
    schema = _schemas[key] = Schema(value, text, _drafts(value, is_old))
    _total_bytes += len(text)
    while len(_schemas) > 1 and (len(_schemas) > MAX_CACHED_SCHEMAS or _total_bytes > MAX_TOTAL_SCHEMA_BYTES):
        _total_bytes -= len(_schemas.popitem(last=False)[1].text)
    return schema


def _drafts(value: object, is_old: bool) -> tuple[Draft, ...]:
    if isinstance(value, dict) and "$schema" in value:
        named_dialect = dialect_of(value)
        return () if named_dialect is None else (named_dialect,)
    return ("7", "2020-12") if is_old else ("2020-12",)
