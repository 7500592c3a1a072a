"""Judges schemas, in a child process that `worker.py` starts.

A malicious schema must gain nothing. The child starts without an environment, and once it is ready it cannot open any
file or socket, regardless of what a `$ref` names. It answers questions one by one. The kernel ends it if a question
takes 100 ms of processor time, which does not depend on how busy the machine is, or if it needs too much memory. Its
stdin closes when the parent ends, and then it ends, too.
"""

import resource
import signal
from collections import OrderedDict
from typing import Any, Final, NoReturn

import orjson

from analysis.child_process import Parent
from analysis.json_schema.dialects import DIALECTS
from analysis.protocol.json_pointer import encode_step

MAX_QUESTION_S: Final = 0.1
"""The processor time that one question may take."""
MAX_EXTRA_MEMORY_BYTES: Final = 512 << 20
"""The bytes of memory that the child may take in addition to what it has once it is ready."""
MAX_COMPILED_SCHEMAS: Final = 500
"""The most schemas that the child keeps compiled."""
_FAULT_TEXTS: Final = {
    "additionalProperties": "has a member that is not allowed",
    "const": "is not the one value that is allowed",
    "enum": "is none of the values that are allowed",
    "maxItems": "has too many items",
    "maxLength": "is too long",
    "minItems": "has too few items",
    "minLength": "is too short",
    "required": "is missing",
    "type": "has the wrong type",
}


class Judge:
    """Answers questions with the library `jsonschema_rs`."""

    def __init__(self) -> None:
        """Load the library, which takes 45 ms and 15 MB; the parent does without it."""
        import jsonschema_rs

        self._library = jsonschema_rs
        self._validator_types: dict[str, Any] = {
            "4": jsonschema_rs.Draft4Validator,
            "6": jsonschema_rs.Draft6Validator,
            "7": jsonschema_rs.Draft7Validator,
            "2019-09": jsonschema_rs.Draft201909Validator,
            "2020-12": jsonschema_rs.Draft202012Validator,
        }
        self._uris: dict[str, str] = {
            draft: f"http{'s' if '-' in draft else ''}://{uri}" for uri, draft in DIALECTS.items()
        }
        self._validators: OrderedDict[tuple[str, bytes], Any] = OrderedDict()

    def answer(self, draft: str, schema: bytes, value: bytes) -> tuple[bool | None, str, str]:
        """Returns whether a value fits (without a value: whether the schema is valid), and if not, where and why."""
        try:
            error = self._check(draft, schema, value) if value else self._check_schema(draft, orjson.loads(schema))
        except BaseException:  # noqa: BLE001 - a panic in the library is not even an Exception
            return None, "", ""
        if error is None:
            return True, "", ""
        path, name = [str(part) for part in error.instance_path], error.kind.name
        if name == "required":
            path.append(error.kind.property)
        pointer = "".join(f"/{encode_step(part)}" for part in path)
        return False, pointer, _FAULT_TEXTS.get(name, f"violates {name}")

    def _check(self, draft: str, schema: bytes, value: bytes) -> Any:
        validator = self._validators.get((draft, schema))
        if validator is None:
            validator_type = self._validator_types[draft]
            validator = validator_type(
                orjson.loads(schema),
                retriever=_refuse_to_fetch,
                validate_formats=False,
                # This engine takes linear time. Schemas with a pattern that it does not support are not judged.
                pattern_options=self._library.RegexOptions(),
            )
            self._validators[draft, schema] = validator
            if len(self._validators) > MAX_COMPILED_SCHEMAS:
                self._validators.popitem(last=False)
        instance = orjson.loads(value)
        return None if validator.is_valid(instance) else next(iter(validator.iter_errors(instance)), None)

    def _check_schema(self, draft: str, schema: Any) -> Any:
        if isinstance(schema, dict):
            # The library would try to fetch unknown references.
            schema = {**schema, "$schema": self._uris[draft]}
        try:
            self._library.meta.validate(schema)
        except self._library.ValidationError as error:
            return error
        return None


def _refuse_to_fetch(uri: str) -> NoReturn:
    raise ValueError(uri)


def main() -> NoReturn:
    """Run the child process: answer questions until stdin ends."""
    parent = Parent()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    judge = Judge()
    _restrict_process()
    while True:
        head, _, texts = parent.receive().partition(b"\n")
        draft, size = head.split()
        schema, value = texts[: int(size)], texts[int(size) :]
        signal.setitimer(signal.ITIMER_PROF, MAX_QUESTION_S)
        answer = judge.answer(draft.decode(), schema, value)
        remaining_s, _ = signal.setitimer(signal.ITIMER_PROF, 0)
        parent.send(orjson.dumps([int((MAX_QUESTION_S - remaining_s) * 1e6), *answer]))


def _restrict_process() -> None:
    """Forbid new descriptors, writes to files, and unlimited memory."""
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NOFILE: 0}
    used_bytes = _used_address_space()
    if used_bytes is not None:
        limits[resource.RLIMIT_AS] = used_bytes + MAX_EXTRA_MEMORY_BYTES
    for resource_id, limit in limits.items():
        hard_limit = resource.getrlimit(resource_id)[1]
        limit = limit if hard_limit == resource.RLIM_INFINITY else min(limit, hard_limit)
        resource.setrlimit(resource_id, (limit, limit))


def _used_address_space() -> int | None:
    """Returns how many bytes of address space are in use, or None if the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return None
