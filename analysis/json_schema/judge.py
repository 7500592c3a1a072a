"""Judges schemas, in a child process that `worker.py` starts.

A malicious schema must gain nothing. The child starts without an environment, and once it is ready it cannot open any
file or socket, regardless of what a `$ref` names. It answers questions one by one; the kernel ends it when a question
has taken 100 ms of processor time, so that a busy machine does not change any answer, or when it takes too much memory.
Its stdin closes when the parent ends, and then it ends, too.
"""

import resource
import signal
from collections import OrderedDict
from typing import Any, Final, NoReturn

import orjson

from analysis.child_process import Parent
from analysis.json_schema.dialects import DIALECTS
from analysis.protocol.json_pointer import step

BUDGET_S: Final = 0.1
"""Processor time for one question."""
MEMORY: Final = 512 << 20
"""Bytes of memory that it may take in addition to what it needs to run."""
READY: Final = 500
"""How many schemas the child keeps ready."""
_WORDS: Final = {
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
    """Answers questions by the library."""

    def __init__(self) -> None:
        """Load the library: that takes 45 ms and 15 MB, which the parent avoids."""
        import jsonschema_rs

        self._library = jsonschema_rs
        self._types: dict[str, Any] = {
            "4": jsonschema_rs.Draft4Validator,
            "6": jsonschema_rs.Draft6Validator,
            "7": jsonschema_rs.Draft7Validator,
            "2019-09": jsonschema_rs.Draft201909Validator,
            "2020-12": jsonschema_rs.Draft202012Validator,
        }
        self._uris: dict[str, str] = {
            draft: f"http{'s' if '-' in draft else ''}://{uri}" for uri, draft in DIALECTS.items()
        }
        self._ready: OrderedDict[tuple[str, bytes], Any] = OrderedDict()

    def answer(self, draft: str, schema: bytes, value: bytes) -> tuple[bool | None, str, str]:
        """Returns whether a value fits (without a value: whether the schema is valid), and if not, where and why."""
        try:
            error = self._check(draft, schema, value) if value else self._check_schema(draft, orjson.loads(schema))
        except BaseException:  # noqa: BLE001 - a panic in the library is not even an Exception
            return None, "", ""
        if error is None:
            return True, "", ""
        path, name = [str(step) for step in error.instance_path], error.kind.name
        if name == "required":
            path.append(error.kind.property)
        pointer = "".join(f"/{step(name)}" for name in path)
        return False, pointer, _WORDS.get(name, f"violates {name}")

    def _check(self, draft: str, schema: bytes, value: bytes) -> Any:
        ready = self._ready.get((draft, schema))
        if ready is None:
            make = self._types[draft]
            ready = make(
                orjson.loads(schema),
                retriever=_refuse,
                validate_formats=False,
                # In linear time; patterns that this engine cannot read are not judged.
                pattern_options=self._library.RegexOptions(),
            )
            self._ready[draft, schema] = ready
            if len(self._ready) > READY:
                self._ready.popitem(last=False)
        given = orjson.loads(value)
        return None if ready.is_valid(given) else next(iter(ready.iter_errors(given)), None)

    def _check_schema(self, draft: str, schema: Any) -> Any:
        if isinstance(schema, dict):
            # The library would try to fetch unknown references.
            schema = {**schema, "$schema": self._uris[draft]}
        try:
            self._library.meta.validate(schema)
        except self._library.ValidationError as error:
            return error
        return None


def _refuse(uri: str) -> NoReturn:
    raise ValueError(uri)


def main() -> NoReturn:
    """Answer questions until stdin ends: the child process."""
    parent = Parent()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    judge = Judge()
    _lock_up()
    while True:
        head, _, texts = parent.receive().partition(b"\n")
        draft, size = head.split()
        schema, value = texts[: int(size)], texts[int(size) :]
        signal.setitimer(signal.ITIMER_PROF, BUDGET_S)
        answer = judge.answer(draft.decode(), schema, value)
        left, _ = signal.setitimer(signal.ITIMER_PROF, 0)
        parent.send(orjson.dumps([int((BUDGET_S - left) * 1e6), *answer]))


def _lock_up() -> None:
    """Forbid new descriptors, writes to files, and unlimited memory."""
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NOFILE: 0}
    taken = _address_space()
    if taken is not None:
        limits[resource.RLIMIT_AS] = taken + MEMORY
    for which, wanted in limits.items():
        most = resource.getrlimit(which)[1]
        wanted = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(which, (wanted, wanted))


def _address_space() -> int | None:
    """Returns how many bytes of address space are in use, or None if the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return None
