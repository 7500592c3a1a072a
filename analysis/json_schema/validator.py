"""Validates untrusted JSON Schemas, and values against them.

Both come from the traffic, so a schema may be designed to take forever, to use up all memory, or to have something
fetched. Plain schemas are checked in this process (`fast_path.py`). All others go to a child process (`judge.py`),
which alone loads the library for them: it can open nothing, each question may take 100 ms of processor time, and one
that takes more ends the child. A question that could not be decided is unknown, and never leads to a finding.

Reports contain no value from the traffic: only a place, and in general words what is wrong there.
"""

from collections import OrderedDict
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import orjson

from analysis.json_schema.dialects import Draft, dialect
from analysis.json_schema.fast_path import Proof, certainly_fits, proof_of
from analysis.json_schema.worker import Worker

MAX_SCHEMA_OR_VALUE_BYTES: Final = 1 << 20
"""The most bytes of a schema or value that is examined."""
MAX_CACHED_SCHEMAS: Final = 2_000
"""The most schemas that are kept; the least recently used is forgotten first."""
MAX_TOTAL_SCHEMA_BYTES: Final = 32 << 20
"""The most bytes of these."""
ANSWERS: Final = 200
"""The most answers kept about one schema."""
SHORT: Final = 1_000
"""The most bytes of a value whose answer is kept."""
PATIENCE_US: Final = 5_000_000
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
        refusal = self._ask(text)
        if len(text) <= SHORT and len(self._answers) < ANSWERS:
            self._answers[text] = refusal
        return refusal

    def _ask(self, value: bytes) -> SchemaFault | None:
        """A fault in every dialect that it may use; an empty value asks about the schema itself."""
        refusal = None
        for draft in self.drafts:
            if self._spent_us > PATIENCE_US:
                return None
            answer = WORKER.ask(draft, self.text, value)
            if answer is None:
                self._spent_us = PATIENCE_US + 1
                return None
            spent_us, fits, pointer, text = answer
            self._spent_us += spent_us
            if fits is not False:
                return None
            refusal = SchemaFault(pointer[:_MAX_POINTER_CHARS], text)
        return refusal


WORKER: Final = Worker()
"""The child shared by the whole process; started with the first question."""

_schemas: OrderedDict[tuple[bytes, bool], Schema] = OrderedDict()
_bytes = 0


def schema_of(value: object, *, is_old: bool = False) -> Schema | None:
    """The schema for a value; the same object for the same value as long as it is kept.

    Args:
        value: an object or a boolean.
        is_old: whether it comes from a revision that had not settled on a dialect.

    Returns:
        None if it is too large, or cannot be written as JSON.
    """
    global _bytes
    if not isinstance(value, dict | bool):
        return None
    try:
        text = orjson.dumps(value)
    except TypeError:
        return None
    if len(text) > MAX_SCHEMA_OR_VALUE_BYTES:
        return None
    key = blake2b(text, digest_size=16).digest(), is_old
    known = _schemas.get(key)
    if known is not None:
        _schemas.move_to_end(key)
        return known
    schema_ = _schemas[key] = Schema(value, text, _drafts(value, is_old))
    _bytes += len(text)
    while len(_schemas) > 1 and (len(_schemas) > MAX_CACHED_SCHEMAS or _bytes > MAX_TOTAL_SCHEMA_BYTES):
        _bytes -= len(_schemas.popitem(last=False)[1].text)
    return schema_


def _drafts(value: object, is_old: bool) -> tuple[Draft, ...]:
    if isinstance(value, dict) and "$schema" in value:
        named = dialect(value)
        return () if named is None else (named,)
    return ("7", "2020-12") if is_old else ("2020-12",)
