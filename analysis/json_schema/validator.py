"""Validates untrusted JSON Schemas, and values against them.

Both come from the traffic, so a schema may be designed to take forever, to use up all memory, or to make the validator
fetch something. Values that certainly fit a plain schema are accepted in this process (`fast_path.py`). Everything else
goes to a child process (`judge.py`); only that process loads the validation library, and it cannot open files or
sockets. Each question may take 100 ms of processor time; one that takes more ends the child. A question without an
answer never leads to a finding. If the child cannot run at all, `fault`, `mismatch` and `fits` raise an error.

Faults contain no value from the traffic, only a pointer and, in general terms, what is wrong there.
"""

from collections import OrderedDict
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import orjson

from analysis.json_schema.dialects import Dialect, dialect_of
from analysis.json_schema.fast_path import Proof, certainly_fits, proof_of
from analysis.json_schema.worker import Answer, Worker

MAX_SCHEMA_OR_VALUE_BYTES: Final = 1 << 20
"""The maximum size in bytes of a schema or value; larger ones are not examined."""
MAX_CACHED_SCHEMAS: Final = 2_000
"""The maximum number of cached schemas; the least recently used one is dropped first."""
MAX_TOTAL_SCHEMA_BYTES: Final = 32 << 20
"""The maximum total size of the cached schemas, in bytes."""
MAX_ANSWERS_PER_SCHEMA: Final = 200
"""The maximum number of cached answers for one schema."""
MAX_CACHED_VALUE_BYTES: Final = 1_000
"""The size in bytes above which the answer for a value is not cached."""
MAX_SCHEMA_TIME_US: Final = 5_000_000
"""The processor time that all questions about one schema may take together."""

_MAX_POINTER_CHARS: Final = 200


class SchemaFault(NamedTuple):
    """A fault in a value or a schema."""

    pointer: str
    """The place of the fault: a JSON Pointer, truncated."""
    text: str
    """What is wrong there, without quoting any value; completes a sentence that begins with the pointer."""

    @property
    def sentence(self) -> str:
        """The fault as a sentence that begins with its pointer; the member names in the pointer are untrusted."""
        return f"{self.pointer} {self.text}" if self.pointer else f"the value {self.text}"


class Schema:
    """One schema, created by `schema_of`."""

    def __init__(self, value: Any, text: bytes, dialects: tuple[Dialect, ...]) -> None:
        self.text = text
        self.dialects = dialects
        """The dialects that the schema may use; empty if it names an unknown one."""
        self.derived_facts: dict[str, Any] = {}
        """Facts that rules have derived from the schema, by keys that they choose."""
        self._quick_check: Proof | None = proof_of(value)
        self._answers: dict[bytes, SchemaFault | None] = {}
        self._fault: SchemaFault | None = None
        self._is_judged = False
        self._spent_us = 0

    @property
    def fault(self) -> SchemaFault | None:
        """The fault that makes the schema invalid in every dialect that it may use: the fault in the last of them.

        None if the schema is valid, or if this cannot be decided.

        Raises:
            ValidatorFailure: the validator cannot run.
        """
        if not self._is_judged:
            self._fault = self._ask(b"")
            self._is_judged = True
        return self._fault

    def mismatch(self, value: object) -> SchemaFault | None:
        """Returns why a value does not fit, or None if it fits or if this cannot be decided.

        If the schema itself is invalid, this cannot be decided.

        Raises:
            ValidatorFailure: the validator cannot run.
        """
        if self._quick_check is not None and certainly_fits(self._quick_check, value):
            return None
        if not self.dialects or self.fault is not None:
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
        if len(text) <= MAX_CACHED_VALUE_BYTES and len(self._answers) < MAX_ANSWERS_PER_SCHEMA:
            self._answers[text] = fault
        return fault

    def fits(self, value: object) -> bool | None:
        """Returns whether a value fits, or None if this cannot be decided, or if it depends on the dialect.

        Raises:
            ValidatorFailure: the validator cannot run.
        """
        if self._quick_check is not None and certainly_fits(self._quick_check, value):
            return True
        if not self.dialects or self.fault is not None:
            return None
        try:
            text = orjson.dumps(value)
        except TypeError:
            return None  # as in `mismatch`
        if len(text) > MAX_SCHEMA_OR_VALUE_BYTES:
            return None
        fits = {None if (answer := self._answer(dialect, text)) is None else answer.fits for dialect in self.dialects}
        return fits.pop() if len(fits) == 1 else None

    def _ask(self, value: bytes) -> SchemaFault | None:
        """Returns the fault if there is one in every dialect that the schema may use, or else None.

        Args:
            value: the value as JSON; empty to check the schema itself.
        """
        fault = None
        for dialect in self.dialects:
            answer = self._answer(dialect, value)
            if answer is None or answer.fits is not False:
                return None
            fault = SchemaFault(answer.pointer[:_MAX_POINTER_CHARS], answer.text)
        return fault

    def _answer(self, dialect: Dialect, value: bytes) -> Answer | None:
        """Returns the child's answer, or None if there is none or the schema's time is over."""
        if self._spent_us > MAX_SCHEMA_TIME_US:
            return None
        answer = WORKER.ask(dialect, self.text, value)
        self._spent_us = MAX_SCHEMA_TIME_US + 1 if answer is None else self._spent_us + answer.spent_us
        return answer


WORKER: Final = Worker()
"""The worker that the whole process shares; it starts its child for the first question."""

_schemas: OrderedDict[tuple[bytes, bool], Schema] = OrderedDict()
_total_bytes = 0


def schema_of(value: object, *, predates_dialects: bool = False) -> Schema | None:
    """Returns the schema for a value: the same object for equal values, as long as it is cached.

    Args:
        value: an object or a boolean.
        predates_dialects: whether it comes from a revision that did not specify a default dialect.

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
    key = blake2b(text, digest_size=16).digest(), predates_dialects
    cached_schema = _schemas.get(key)
    if cached_schema is not None:
        _schemas.move_to_end(key)
        return cached_schema
    schema = _schemas[key] = Schema(value, text, _possible_dialects(value, predates_dialects))
    _total_bytes += len(text)
    while len(_schemas) > 1 and (len(_schemas) > MAX_CACHED_SCHEMAS or _total_bytes > MAX_TOTAL_SCHEMA_BYTES):
        _total_bytes -= len(_schemas.popitem(last=False)[1].text)
    return schema


def _possible_dialects(value: object, predates_dialects: bool) -> tuple[Dialect, ...]:
    if isinstance(value, dict) and "$schema" in value:
        named_dialect = dialect_of(value)
        return () if named_dialect is None else (named_dialect,)
    return ("7", "2020-12") if predates_dialects else ("2020-12",)
