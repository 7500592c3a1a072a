"""Shapes are judged as by the official schema of each revision, within bounds, for any value."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.conversation.message import MISSING, Number
from analysis.conversation.session import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from analysis.protocol.methods import METHODS
from analysis.protocol.revisions import FIRST_MODERN_RANK, REVISIONS
from analysis.shapes import validation
from analysis.shapes.body_table import TABLE_FILE, Part, body_of, shape_of
from analysis.shapes.mcp_types_adapter import table, validator
from analysis.shapes.shape import MAX_ELEMENTS, MAX_PROBLEMS, Problem, ProblemCollector, Shape
from analysis.shapes.since import MEMBERS_SINCE
from analysis.shapes.validation import problems
from tests.analysis.traces import SHARED

SCHEMAS = SHARED.parent / "schema"
META = {PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {"sampling": {}, "elicitation": {"form": {}}}}
NOTES = {"audience": ["user"], "priority": 0.5}
TEXT = {"type": "text", "text": "x", "annotations": NOTES}
IMAGE = {"type": "image", "data": "AA==", "mimeType": "image/png"}
INNER = {"type": "resource", "resource": {"uri": "file:///a", "blob": "AA==", "mimeType": "a/b"}}
WHO = {"name": "host", "version": "1", "title": "Host", "icons": [{"src": "data:,", "sizes": ["any"]}]}
CLIENT = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}},
    "elicitation": {"form": {}},
    "experimental": {"x": {}},
}
SERVER = {"tools": {"listChanged": False}, "resources": {"subscribe": True}, "logging": {}, "completions": {}}
TOOL = {
    "name": "dig",
    "title": "Dig",
    "description": "d",
    "inputSchema": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}},
    "outputSchema": {"type": "object"},
    "annotations": {"title": "t", "readOnlyHint": True},
}
HINTS = {"ttlMs": 5, "cacheScope": "public"}
FORM = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}
PREFERENCES = {"hints": [{"name": "m"}], "speedPriority": 0.5}
ASK = {"role": "user", "content": TEXT}
TASK = {
    "taskId": "t",
    "status": "working",
    "createdAt": "c",
    "lastUpdatedAt": "l",
    "ttl": None,
    "pollInterval": 5,
    "statusMessage": "s",
}

BODIES: dict[tuple[Part, str], dict[str, Any]] = {
    ("params", "initialize"): {"protocolVersion": "x", "capabilities": CLIENT, "clientInfo": WHO},
    ("params", "tools/call"): {"name": "dig", "arguments": {"a": [None, 5]}},
    ("params", "tools/list"): {"cursor": "c"},
    ("params", "prompts/get"): {"name": "p", "arguments": {"a": "b"}},
    ("params", "resources/read"): {"uri": "file:///a"},
    ("params", "resources/subscribe"): {"uri": "file:///a"},
    ("params", "logging/setLevel"): {"level": "info"},
    ("params", "completion/complete"): {
        "ref": {"type": "ref/prompt", "name": "p"},
        "argument": {"name": "a", "value": "v"},
        "context": {"arguments": {"b": "c"}},
    },
    ("params", "sampling/createMessage"): {
        "messages": [ASK, {"role": "assistant", "content": IMAGE}],
        "maxTokens": 5,
        "temperature": 0.5,
        "stopSequences": ["s"],
        "systemPrompt": "s",
        "includeContext": "none",
        "modelPreferences": PREFERENCES,
        "metadata": {"a": 1},
    },
    ("params", "elicitation/create"): {"message": "?", "requestedSchema": FORM},
    ("params", "subscriptions/listen"): {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["x:"]}},
    ("params", "tasks/get"): {"taskId": "t"},
    ("params", "tasks/list"): {"cursor": "c"},
    ("result", "initialize"): {
        "protocolVersion": "x",
        "capabilities": SERVER,
        "serverInfo": WHO,
        "instructions": "i",
    },
    ("result", "server/discover"): {"supportedVersions": ["v"], "capabilities": SERVER, "instructions": "i", **HINTS},
    ("result", "tools/call"): {"content": [TEXT, IMAGE, INNER], "isError": False, "structuredContent": {"a": None}},
    ("result", "tools/list"): {"tools": [TOOL], "nextCursor": "n", **HINTS},
    ("result", "prompts/list"): {
        "prompts": [{"name": "p", "title": "P", "arguments": [{"name": "a", "required": True}]}],
        **HINTS,
    },
    ("result", "prompts/get"): {"description": "d", "messages": [ASK]},
    ("result", "resources/list"): {
        "resources": [{"uri": "file:///a", "name": "a", "size": 5, "annotations": NOTES, "mimeType": "a/b"}],
        **HINTS,
    },
    ("result", "resources/templates/list"): {"resourceTemplates": [{"uriTemplate": "x:{a}", "name": "a"}], **HINTS},
    ("result", "resources/read"): {"contents": [{"uri": "file:///a", "text": "x", "mimeType": "a/b"}], **HINTS},
    ("result", "completion/complete"): {"completion": {"values": ["v"], "total": 5, "hasMore": True}},
    ("result", "sampling/createMessage"): {"role": "assistant", "model": "m", "content": TEXT, "stopReason": "s"},
    ("result", "roots/list"): {"roots": [{"uri": "file:///a", "name": "a"}]},
    ("result", "elicitation/create"): {"action": "accept", "content": {"a": "b"}},
    ("result", "tasks/get"): TASK,
    ("result", "tasks/list"): {"tasks": [TASK], "nextCursor": "n"},
    ("notification", "notifications/progress"): {"progressToken": 1, "progress": 0.5, "total": 2.5, "message": "m"},
    ("notification", "notifications/cancelled"): {"requestId": "r", "reason": "r"},
    ("notification", "notifications/message"): {"level": "info", "data": None, "logger": "l"},
    ("notification", "notifications/resources/updated"): {"uri": "file:///a"},
    ("notification", "notifications/tasks/status"): TASK,
    ("notification", "notifications/subscriptions/acknowledged"): {"notifications": {"toolsListChanged": True}},
}
"""Bodies that fit every revision that has the method; members that a revision lacks are extra there."""

NAMES = {
    "tasks/get": "GetTask",
    "tasks/list": "ListTasks",
    "notifications/tasks/status": "TaskStatusNotification",
}
STRANGE: tuple[Any, ...] = (
    None,
    True,
    1,
    5.5,
    -1,
    "5",
    "true",
    "x",
    [],
    ["x"],
    {},
    {"type": "text"},
    {"type": "audio"},
)


def body(part: Part, method: str, rank: int) -> dict[str, Any]:
    """A body without faults."""
    made = deepcopy(BODIES[part, method])
    if rank >= FIRST_MODERN_RANK and part == "params":
        made["_meta"] = deepcopy(META)
    if rank >= FIRST_MODERN_RANK and part == "result":
        made["resultType"] = "complete"
    return made


def test_no_revision_lacks_the_bodies_that_its_era_has() -> None:
    """If the bodies of a new revision were forgotten, the rules about shapes would silently be off."""
    eras = (range(FIRST_MODERN_RANK), range(FIRST_MODERN_RANK, len(REVISIONS)))
    parts: tuple[Part, ...] = ("params", "notification", "result")
    lacking = [
        (part, method, REVISIONS[rank])
        for era in eras
        for method in METHODS
        for part in parts
        if any(body_of(part, method, other, {}) is not None for other in era if has(method, other))
        for rank in era
        if has(method, rank) and body_of(part, method, rank, {}) is None
    ]
    assert lacking == []
    assert all(any(body_of("params", method, rank, {}) for method in METHODS) for rank in range(len(REVISIONS)))


def has(method: str, rank: int) -> bool:
    """Whether the core of a revision has a method as a message."""
    revisions = METHODS[method].revisions
    return revisions is not None and revisions.includes(rank)


CASES = [(part, method, rank) for part, method in BODIES for rank in range(len(REVISIONS)) if has(method, rank)]


def test_a_flawless_body_has_no_problems() -> None:
    for case in CASES:
        assert problems(*case, body(*case)) == [], case


# ---- against the official types


def test_the_table_is_what_the_types_declare() -> None:
    """If it fails or is skipped, run `make body-table`, and review what changed."""
    made, now = json.loads(TABLE_FILE.read_bytes()), table()
    if made["mcp-types"] != now["mcp-types"]:
        pytest.skip(f"the table is of mcp-types {made['mcp-types']}, and {now['mcp-types']} is installed")
    assert made == now


def test_the_types_are_loaded_for_what_is_wrong_only(tmp_path: Path) -> None:
    def loads(value: str) -> bool:
        code = f"""
import sys
from analysis.shapes.validation import problems
assert bool(problems("params", "tools/call", 3, {value})) is ("name" not in {value})
print("pydantic" in sys.modules)
"""
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout == "True\n"

    assert not loads("{'name': 'add', 'arguments': {'a': 1}}")
    assert loads("{'arguments': {}}")


# ---- against the official schemas


@cache
def definitions(rank: int) -> dict[str, Any]:
    found = json.loads((SCHEMAS / f"{REVISIONS[rank]}.json").read_bytes())
    return {"key": "$defs" if "$defs" in found else "definitions", "all": found.get("$defs") or found["definitions"]}


@cache
def judge(part: Part, method: str, rank: int) -> Any:
    """The official validator of the frame or result."""
    from mcp_types import methods

    jsonschema = pytest.importorskip("jsonschema")
    maps: tuple[Any, ...] = {
        "params": (methods.CLIENT_REQUESTS, methods.SERVER_REQUESTS),
        "notification": (methods.CLIENT_NOTIFICATIONS, methods.SERVER_NOTIFICATIONS),
        "result": (methods.SERVER_RESULTS, methods.CLIENT_RESULTS),
    }[part]
    known = next((one[method, REVISIONS[rank]] for one in maps if (method, REVISIONS[rank]) in one), None)
    if known is None:
        name = NAMES[method] + {"params": "Request", "result": "Result", "notification": ""}[part]
    else:
        name = getattr(known, "__name__", None) or next(
            arm.__name__ for arm in known.__args__ if arm.__name__ != "InputRequiredResult"
        )
    all_ = definitions(rank)
    kind = jsonschema.Draft202012Validator if all_["key"] == "$defs" else jsonschema.Draft7Validator
    return kind({"$ref": f"#/{all_['key']}/{name}", all_["key"]: all_["all"]})


def fits(part: Part, method: str, rank: int, value: Any) -> bool:
    if part == "result":
        return bool(judge(part, method, rank).is_valid(value))
    frame = {"jsonrpc": "2.0", "method": method, "params": value, **({"id": 1} if part == "params" else {})}
    return bool(judge(part, method, rank).is_valid(frame))


def mutations(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str, Any]]:
    """The mutations of a value: each member is removed, or replaced with something strange."""
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, inner in items:
        yield (*path, key), "without", None
        for strange in STRANGE:
            yield (*path, key), "with", strange
        yield from mutations(inner, (*path, key))


def mutated(value: Any, path: tuple[Any, ...], how: str, strange: Any) -> Any:
    made = deepcopy(value)
    at = made
    for step in path[:-1]:
        at = at[step]
    if how == "without":
        del at[path[-1]]
    else:
        at[path[-1]] = strange
    return made


def is_elsewhere(method: str, rank: int, path: tuple[Any, ...]) -> bool:
    """Whether other rules judge this place, or the schema is known to miss it."""
    return (
        "_meta" in path
        or "resultType" in path
        or path[:2] == ("requestedSchema", "properties")
        # The types of the era accept booleans as schemas; other rules judge schemas.
        or path[2:4] == ("inputSchema", "properties")
        # Form contents are judged by the schema of the form.
        or (method == "elicitation/create" and path[:1] == ("content",))
        # The specification's page requires it, but its schema does not.
        or (method, rank, path) == ("notifications/cancelled", 3, ("requestId",))
    )


SHARE = 8
"""The suite tries one in this many mutations of a body, different ones for each; `make soak` tries all."""


def unlike_the_schema(part: Part, method: str, rank: int, first: int, every_nth: int) -> list[Any]:
    """The mutations of a body on which the official schema disagrees."""
    flawless = body(part, method, rank)
    assert fits(part, method, rank, flawless)
    wrong = []
    for path, how, strange in [*mutations(flawless)][first % every_nth :: every_nth]:
        if is_elsewhere(method, rank, path):
            continue
        value = mutated(flawless, path, how, strange)
        found = [one for one in problems(part, method, rank, value) if one.kind in ("shape", "null", "scalar")]
        if (found == []) is not fits(part, method, rank, value):
            wrong.append((path, how, strange, found))
    return wrong


@pytest.mark.costly("the official schemas are read, and asked about thousands of bodies")
@pytest.mark.skipif(not SCHEMAS.is_dir(), reason="the official schemas are not on this machine")
def test_the_official_schema_of_the_revision_agrees() -> None:
    for number, case in enumerate(CASES):
        assert unlike_the_schema(*case, number, SHARE) == [], case


@pytest.mark.soak
@pytest.mark.skipif(not SCHEMAS.is_dir(), reason="the official schemas are not on this machine")
def test_the_official_schema_of_the_revision_agrees_about_every_mutation() -> None:
    for case in CASES:
        assert unlike_the_schema(*case, 0, 1) == [], case


def types_of_the_handshake_era() -> set[Any]:
    from mcp_types import methods

    found: set[Any] = set()

    def visit(annotation: Any) -> None:
        if hasattr(annotation, "model_fields"):
            if annotation not in found:
                found.add(annotation)
                for field in annotation.model_fields.values():
                    visit(field.annotation)
        else:
            for inner in get_args(annotation):
                visit(inner)

    known: tuple[Any, ...] = (methods.CLIENT_REQUESTS, methods.SERVER_REQUESTS, methods.CLIENT_NOTIFICATIONS)
    known += (methods.SERVER_NOTIFICATIONS, methods.SERVER_RESULTS, methods.CLIENT_RESULTS)
    for all_ in known:
        for (_, version), model in all_.items():
            visit(model if version not in REVISIONS[FIRST_MODERN_RANK:] else None)
    return found


def declared(rank: int, name: str) -> dict[str, Any] | None:
    """The members that a schema declares for a type of mcp-types; older schemas have params inline."""
    all_ = definitions(rank)["all"]
    if name in all_:
        return all_[name].get("properties")  # type: ignore[no-any-return]
    short = name.removesuffix("Params")
    inline = all_.get(short, all_.get(f"{short}Request")) if short != name else None
    if inline is None:
        return None
    return {"_meta": {}, **inline["properties"]["params"]["properties"]}


@pytest.mark.skipif(not SCHEMAS.is_dir(), reason="the official schemas are not on this machine")
@pytest.mark.parametrize("rank", range(FIRST_MODERN_RANK))
def test_members_belong_to_the_revisions_whose_schemas_have_them(rank: int) -> None:
    compared = 0
    for model in types_of_the_handshake_era():
        members = {field.alias or name for name, field in model.model_fields.items()}
        there = declared(rank, model.__name__)
        if there is None or "method" in members or model.__name__ == "PaginatedRequestParams":
            continue
        ours = {one for one in members if rank >= MEMBERS_SINCE.get((model.__name__, one), 0)}
        assert ours == members & set(there), model.__name__
        compared += 1
    assert compared > 30


# ---- bounds

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats().map(lambda one: Number(repr(one))) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["content", "type", "text", "tools", "name", "_meta", "uri", "a"]), inner)
    ),
    max_leaves=12,
)


@given(case=st.sampled_from(CASES), value=JSON, request_params=JSON)
def test_nothing_raises(case: tuple[Part, str, int], value: Any, request_params: Any) -> None:
    assert len(problems(*case, value, request_params)) <= MAX_PROBLEMS


@given(case=st.sampled_from(CASES), data=st.data())
def test_a_body_with_anything_in_one_place_raises_nothing_and_is_not_quoted(
    case: tuple[Part, str, int], data: st.DataObject
) -> None:
    flawless = body(*case)
    path, how, _ = data.draw(st.sampled_from(list(mutations(flawless))))
    strange = data.draw(
        st.sampled_from(["s3cret", ["s3cret"], {"type": "s3cret"}, "\ud800", Number("1" * 500), 10**300])
    )
    for found in problems(*case, mutated(flawless, path, how, strange)):
        assert "s3cret" not in found.text
        assert "s3cret" not in found.pointer


@pytest.mark.parametrize("block", [{"type": "text"}, {"type": "x"}, {"type": "text", "text": "x"}, None, []])
def test_a_body_without_end_is_looked_at_up_to_a_bound(block: Any) -> None:
    found = problems("result", "tools/call", 3, {"content": [block] * (MAX_ELEMENTS * 30)})
    assert len(found) == (0 if isinstance(block, dict) and "text" in block else MAX_PROBLEMS)


def test_what_comes_after_the_bound_is_not_looked_at() -> None:
    bad = {"type": "text"}
    fine = {"type": "text", "text": "x"}
    assert problems("result", "tools/call", 3, {"content": [*[fine] * 1000, bad]}) != []
    assert problems("result", "tools/call", 3, {"content": [*[fine] * MAX_ELEMENTS, bad]}) == []
    assert (
        problems("params", "prompts/get", 3, {"name": "p", "arguments": {str(n): 5 for n in range(MAX_ELEMENTS * 9)}})
        != []
    )


def test_json_of_any_depth_is_not_descended_into() -> None:
    deep: dict[str, Any] = {}
    for _ in range(900):
        deep = {"a": deep, "b": [deep] if not deep else []}
    meta = {**META, CLIENT_CAPABILITIES: {"experimental": {"x": {str(n): deep for n in range(1000)}}}}
    assert problems("params", "tools/call", FIRST_MODERN_RANK, {"name": "dig", "_meta": meta}) == []
    assert problems("result", "tools/call", 3, {"content": [], "structuredContent": deep}) == []


def test_long_names_of_the_peer_are_cut() -> None:
    (found,) = problems("params", "prompts/get", 3, {"name": "p", "arguments": {"x/~" * 10_000: 5}})
    assert len(found.pointer) < 120
    assert len(found.text) < 120


# ---- beyond schemas


def test_absent_params_are_one_problem() -> None:
    assert [one.pointer for one in problems("params", "initialize", 3, MISSING)] == ["/params"]
    assert problems("params", "tools/list", 3, MISSING) == []
    assert problems("params", "tools/call", FIRST_MODERN_RANK, MISSING) == []


def test_a_method_that_the_revision_has_not_has_no_shape() -> None:
    assert problems("params", "elicitation/create", 1, {}) == []
    assert problems("params", "tasks/get", 2, {}) == []
    assert problems("params", "no/such", 3, {}) == []


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("5", "scalar"),
        (True, "scalar"),
        (" 5e0 ", "scalar"),
        ("five", "shape"),
        (5.5, "shape"),
        (5.0, None),
        ([], "shape"),
    ],
)
def test_numbers_in_other_clothes(value: Any, kind: str | None) -> None:
    params = {**body("params", "sampling/createMessage", 3), "maxTokens": value}
    assert [one.kind for one in problems("params", "sampling/createMessage", 3, params)] == ([kind] if kind else [])


@pytest.mark.parametrize(
    ("uri", "is_fine"),
    [
        *(("file:///a", True), ("urn:x", True), ("a:", True), ("x+y.z-1:?#%41", True), ("", False), (":a", False)),
        *(
            ("/a", False),
            ("1a:b", False),
            ("a: b", False),
            ("a:%4", False),
            ("a:é", False),
            ("a:\n", False),
            ("a:|", False),
        ),
    ],
)
def test_uris(uri: str, is_fine: bool) -> None:
    found = problems("params", "resources/read", 3, {"uri": uri})
    assert [one.kind for one in found] == ([] if is_fine else ["resource-uri"])


@given(st.binary())
def test_base64_of_anything_is_base64(raw: bytes) -> None:
    from base64 import b64encode

    data = b64encode(raw).decode()
    block = {"type": "image", "mimeType": "image/png", "data": data}
    assert problems("result", "tools/call", 3, {"content": [block]}) == []


@pytest.mark.parametrize(
    ("data", "word"),
    [("AA", "length"), ("A A=", "white"), ("A_-A", "URL-safe"), ("A=AA", "not"), ("====", "not"), ("\ud800", "not")],
)
def test_what_is_no_base64(data: str, word: str) -> None:
    (found,) = problems("result", "resources/read", 3, {"contents": [{"uri": "a:b", "blob": data}]})
    assert found.kind == "base64"
    assert word in found.text


def test_one_cause_is_one_problem() -> None:
    content = [{"type": "text"}, {"type": "image", "data": "AA=="}, {"type": "resource", "resource": {"uri": "a:b"}}]
    assert problems("result", "tools/call", 3, {"content": content}) == [
        Problem("/result/content/0/text", "text is missing"),
        Problem("/result/content/1/mimeType", "mimeType is missing"),
        Problem("/result/content/2/resource/text", "text and blob are both missing"),
    ]


def refusals(form: Shape, validate: Callable[..., object], value: Any) -> Iterator[Problem]:
    try:
        validate(value, by_name=False)
    except ValueError as error:
        yield from validation._refusals(error, form, value, ProblemCollector("params"))


def prove(part: Part, method: str, rank: int, first: int, every_nth: int) -> None:
    """Check that no pass refuses a mutation of a body that is proved flawless."""
    proved = 0
    flawless = body(part, method, rank)
    some = [*mutations(flawless)][first % every_nth :: every_nth]
    for value in (flawless, *(mutated(flawless, *mutation) for mutation in some)):
        kind = body_of(part, method, rank, value)
        if kind is None:
            continue
        form, validate = shape_of(kind), validator(kind)
        if form.certainly_fits(value):
            proved += 1
            look = ProblemCollector("params")
            form.collect_problems(value, None, look)
            assert look.problems == [], value
            assert list(refusals(form, validate, value)) == [], value
    assert proved


def test_what_is_proved_flawless_neither_pass_refuses() -> None:
    for number, case in enumerate(CASES):
        prove(*case, number, SHARE)


@pytest.mark.soak
def test_what_is_proved_flawless_of_every_mutation_neither_pass_refuses() -> None:
    for case in CASES:
        prove(*case, 0, 1)
