"""Untrusted schemas: proofs and the validator's answers are correct, and no schema blocks the caller."""

import socket
import subprocess
import sys
import threading
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import child_process
from analysis.json_schema import validator
from analysis.json_schema.dialects import dialect_of
from analysis.json_schema.fast_path import certainly_fits, proof_of
from analysis.json_schema.validator import MAX_SCHEMA_OR_VALUE_BYTES, WORKER, SchemaFault, schema_of
from analysis.json_schema.worker import MAX_DEATHS, MAX_QUESTION_BYTES, ValidatorFailure, Worker
from tests.examples import examples
from tests.harness import DEADLINE_S, is_alive, wait_until

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, -1.0, "", "a", "ab", "é"])
names = st.sampled_from(["a", "b", "c"])
types = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])
values = st.recursive(scalars, lambda one: st.lists(one, max_size=3) | st.dictionaries(names, one, max_size=3))
limits = st.sampled_from(
    [
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxProperties",
    ]
)


def schemas_over(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": types | st.lists(types, min_size=1, max_size=2, unique=True),
            "properties": st.dictionaries(names, inner, max_size=2),
            "required": st.lists(names, max_size=2, unique=True),
            "additionalProperties": inner,
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "enum": st.lists(scalars, min_size=1, max_size=3, unique_by=repr),
            "const": scalars,
            "not": inner,
            "$ref": st.sampled_from(["#/$defs/one", "#/$defs/none", "#"]),
            "format": st.just("date"),
            "description": st.just("…"),
        },
    ) | st.dictionaries(limits, st.integers(0, 3), max_size=2)


inner: st.SearchStrategy[Any] = st.recursive(st.booleans() | st.just({}), schemas_over, max_leaves=6)
whole: st.SearchStrategy[Any] = st.builds(
    lambda schema, one: {**schema, "$defs": {"one": one}}, schemas_over(inner), inner
)


@examples(100)
@given(whole, values)
def test_what_is_proved_fits_by_the_library(schema: Any, value: Any) -> None:
    proof = proof_of(schema)
    if proof is None or not certainly_fits(proof, value):
        return
    import jsonschema_rs

    try:
        judge = jsonschema_rs.Draft202012Validator(schema, offline=True)
    except ValueError:
        return
    assert judge.is_valid(value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"a": 1, "b": None}),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}}}, {"a": None}),
        ({"$defs": {"t": {"properties": {"t": {"$ref": "#/$defs/t"}}}}, "$ref": "#/$defs/t"}, {"t": {"t": {}}}),
        ({"type": "array", "items": {"enum": ["a", 1, None]}, "minItems": 1}, ["a", None, 1]),
        ({"type": "object", "additionalProperties": False}, {}),
    ],
)
def test_what_people_write_is_proved_without_asking(schema: Any, value: Any) -> None:
    proof = proof_of(schema)
    assert proof is not None
    assert certainly_fits(proof, value)


@pytest.mark.parametrize(("schema", "value"), [({"const": 1}, True), ({"enum": [0]}, False), ({"const": "a"}, "b")])
def test_what_python_takes_for_equal_is_not_proved(schema: Any, value: Any) -> None:
    proof = proof_of(schema)
    assert proof is not None
    assert not certainly_fits(proof, value)


@pytest.mark.parametrize("arm", [{"$ref": "#/$defs/t"}, {"items": {"$ref": "#/$defs/t"}}])
def test_a_definition_of_itself_comes_to_an_end(arm: Any) -> None:
    deep: Any = []
    for _ in range(900):
        deep = [deep]
    proof = proof_of({"$defs": {"t": arm}, "$ref": "#/$defs/t"})
    assert proof is not None
    assert not certainly_fits(proof, deep)


@pytest.mark.parametrize("keyword", ["allOf", "anyOf"])
def test_definitions_that_double_come_to_an_end(keyword: str) -> None:
    doubled = {f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(40)}
    proof = proof_of({"$defs": {**doubled, "d40": {"type": "null"}}, "$ref": "#/$defs/d0"})
    assert proof is not None
    assert not certainly_fits(proof, None if keyword == "allOf" else 1)


def refusal(schema: Any, value: Any, *, predates_dialects: bool = False) -> SchemaFault | None:
    made = schema_of(schema, predates_dialects=predates_dialects)
    assert made is not None
    return made.mismatch(value)


def test_a_refusal_tells_the_place_and_no_value() -> None:
    schema = {"properties": {"a/b": {"items": {"type": "integer"}}}, "required": ["key"], "pattern": "x"}
    assert refusal(schema, {"key": 1, "a/b": [1, "hunter2"]}) == ("/a~1b/1", "has the wrong type")
    assert refusal(schema, {}) == ("/key", "is missing")
    assert refusal({"pattern": "^a"}, "hunter2") == ("", "violates pattern")


def test_a_value_that_fits_is_not_refused() -> None:
    assert refusal({"pattern": "^a", "multipleOf": 2}, "ab") is None
    assert refusal({"multipleOf": 2}, 4) is None
    assert refusal({"type": "integer"}, 1.0) is None


def test_whether_a_value_fits_may_be_unknown() -> None:
    schema = schema_of({"type": "integer", "multipleOf": 2})
    assert schema is not None
    assert [schema.fits(value) for value in (4, 3, "a", 2**70)] == [True, False, False, None]
    unsupported_pattern = schema_of({"pattern": "^(?=a)"})
    assert unsupported_pattern is not None
    assert unsupported_pattern.fits("a") is None
    # Draft 7 refuses a list of items where 2020-12 does not know such a list.
    in_some_dialects = schema_of({"prefixItems": [{"type": "null"}]}, predates_dialects=True)
    assert in_some_dialects is not None
    assert in_some_dialects.fits([1]) is None
    assert in_some_dialects.fits([None]) is True


def test_dialects() -> None:
    tuples = {"items": [{"type": "string"}]}
    draft7 = "http://json-schema.org/draft-07/schema#"
    assert (dialect_of({"$schema": draft7}), dialect_of({"$schema": "urn:x"}), dialect_of(True)) == ("7", None, None)
    assert refusal({"$schema": draft7, **tuples}, [1]) == ("/0", "has the wrong type")
    faults: list[Any] = [
        schema_of(tuples),
        schema_of(tuples, predates_dialects=True),
        schema_of({"$schema": "urn:x", "type": 1}),
    ]
    assert [None if one is None else one.fault and one.fault.pointer for one in faults] == ["/items", None, None]
    assert schema_of({"type": "strin"}) is schema_of({"type": "strin"})


def test_nothing_is_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        called = threading.Event()

        def listen() -> None:
            try:
                server.accept()[0].close()
            except OSError:
                return
            called.set()

        waiting = threading.Thread(target=listen, daemon=True)
        waiting.start()
        for schema in ({"$ref": url}, {"$schema": url, "$id": url}, {"$dynamicRef": url}, {"not": {"$schema": url}}):
            made = schema_of(schema)
            assert made is not None
            assert made.fault is None
            assert made.mismatch({}) is None or schema == {"not": {"$schema": url}}
        server.shutdown(socket.SHUT_RDWR)
        waiting.join(DEADLINE_S)
        assert not called.is_set()


def doubling(depth: int) -> Any:
    """A schema whose validation time doubles with each level of depth."""
    arms = {f"a{at}": {"not": {"anyOf": [{"$ref": f"#/$defs/a{at + 1}"}] * 2}} for at in range(depth)}
    return {"$defs": {**arms, f"a{depth}": {"type": "null"}}, "$ref": "#/$defs/a0"}


def test_a_schema_that_takes_for_ever_is_given_up() -> None:
    before, schema = WORKER.deaths, schema_of(doubling(61))
    assert schema is not None
    assert [schema.mismatch(value) for value in (1, 2, "three")] == [None, None, None]
    assert WORKER.deaths - before <= 1
    assert refusal({"multipleOf": 2}, 3) is not None, "the next child answers"


@pytest.mark.parametrize("value", [2**70, "\ud800", float("nan"), {"a": {1}}, "x" * (MAX_SCHEMA_OR_VALUE_BYTES + 1)])
def test_what_is_no_json_or_too_large_is_unknown(value: Any) -> None:
    assert refusal({"multipleOf": 2, "maxLength": MAX_SCHEMA_OR_VALUE_BYTES}, value) is None


def test_what_is_no_schema_or_too_large_is_none() -> None:
    deep: Any = {}
    for _ in range(500):
        deep = {"not": deep}
    others: list[Any] = [None, 1, [], deep, {"const": 2**70}]
    assert [schema_of(one) for one in others] == [None] * 5
    assert schema_of({"description": "x" * MAX_SCHEMA_OR_VALUE_BYTES}) is None


def test_a_worker_whose_child_dies_again_and_again_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    for _ in range(MAX_DEATHS + 5):
        with pytest.raises(ValidatorFailure):
            worker.ask("7", b"{}", b"1")
    assert worker.deaths == MAX_DEATHS + 1


def test_a_child_that_others_kill_loses_no_answer() -> None:
    worker = Worker()
    for _ in range(3):
        answer = worker.ask("7", b'{"multipleOf":2}', b"3")
        assert answer is not None
        assert answer.fits is False
        assert worker._child is not None
        worker._child.kill()
    assert worker.deaths == 2
    worker.close()


def test_a_question_that_takes_for_ever_is_asked_once() -> None:
    worker = Worker()
    assert worker.ask("7", orjson.dumps(doubling(61)), b"1") is None
    assert worker.deaths == 1
    assert worker._child is None


def test_a_failure_of_the_validator_is_not_remembered_as_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of({"multipleOf": 2, "title": "of a validator that cannot run"})
    assert schema is not None
    monkeypatch.setattr(validator, "WORKER", Worker())
    with monkeypatch.context() as broken:
        broken.setattr(sys, "executable", "/bin/false")
        for _ in range(2):
            with pytest.raises(ValidatorFailure):
                schema.mismatch(3)
    assert schema.mismatch(3) is not None
    validator.WORKER.close()


LIES = [
    MAX_QUESTION_BYTES.to_bytes(4) + b"x" * MAX_QUESTION_BYTES,
    (MAX_QUESTION_BYTES + 1).to_bytes(4),
    b"\0\0\0\x09[1,true,\xff",
    b"\0\0\0\x02{}",
    b'\0\0\0\x10["x",true,"",""]',
    b"\0\0\0",
]


def test_a_child_that_lies_or_breaks_off_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker()
    for number, lie in enumerate(LIES, 1):
        code = f"import os, sys; lie = {lie[:100]!r}; os.write(1, lie + b'x' * ({len(lie)} - len(lie)))"
        monkeypatch.setattr(child_process, "_BOOT_CODE", f"{code}; os.close(1); os.read(0, 1)")
        with pytest.raises(ValidatorFailure):
            worker.ask("7", b"{}", b"1")
        assert worker.deaths == 2 * number, lie[:100]


def test_the_child_ends_with_its_parent() -> None:
    code = (
        "import os\nfrom analysis.json_schema.validator import WORKER, schema_of\n"
        "schema_of({'multipleOf': 2}).mismatch(3)\nprint(WORKER._child.pid, flush=True)\nos._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    pid = int(done.stdout)
    wait_until(lambda: not is_alive(pid), "the child to end")
