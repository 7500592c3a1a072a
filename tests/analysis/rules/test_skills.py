"""Rules about skills in redacted copies, in which texts may have been replaced, and with values of any kind."""

from pathlib import Path
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from analysis.rules.discovery import group_of, rules_for
from captures.record import members, seal
from tests.analysis.judged import Judged
from tests.analysis.talk import META
from tests.analysis.traces import alarms, by_name, checked, stdio

URIS = st.sampled_from(["skill://a/SKILL.md", "skill://a/b/SKILL.md", "skill://a/b.md", "skill://a", "a", "", "://"])
SCALARS = (
    st.none() | st.booleans() | st.integers(-2, 1 << 70) | st.floats() | st.sampled_from(["a", "\ud800", "dynamic"])
)
ODD = st.recursive(URIS | SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("uri"), inner))


def objects(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects with some of the members, each of its kind or of any, and sometimes no object at all."""
    return st.fixed_dictionaries({}, optional={name: kind | ODD for name, kind in members.items()}) | ODD


FILES = objects(uri=URIS, digest=st.sampled_from(["sha256:" + "0" * 64, "sha256:0"]), size=st.integers(0, 5))
FRONTMATTER = objects(name=st.just("a"), description=st.just("b"))
ENTRIES = objects(uri=URIS, frontmatter=FRONTMATTER, resources=st.lists(FILES, max_size=3))
TEXTS = st.sampled_from(["---\nname: a\n---\n", "---\n&a", "", "\ud800"])
CONTENTS = objects(uri=URIS, text=TEXTS, blob=st.sampled_from(["AAA", "AAAA"]), mimeType=st.just("text/x"))
RESULTS = {
    "server/discover": objects(capabilities=objects(extensions=ODD)),
    "skills/list": objects(skills=st.lists(ENTRIES, max_size=3), ttlMs=SCALARS),
    "skills/get": objects(skill=ENTRIES, nextCursor=ODD),
    "resources/read": objects(contents=st.lists(CONTENTS, max_size=2)),
    "resources/list": objects(resources=st.lists(CONTENTS, max_size=2)),
    "resources/directory/read": objects(resources=st.lists(CONTENTS, max_size=3)),
}
EXCHANGES = st.one_of([st.tuples(st.just(method), URIS | ODD, result) for method, result in RESULTS.items()])


@given(exchanges=st.lists(EXCHANGES, min_size=2, max_size=6), code=st.sampled_from([-32602, -32002, -32601, None, "a"]))
def test_no_rule_raises_for_any_values(exchanges: list[tuple[str, Any, Any]], code: object) -> None:
    frames: list[Any] = []
    for number, (method, uri, result) in enumerate(exchanges):
        params = {"_meta": META, "uri": uri}
        frames.append(("c2s", {"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
        outcome = {"error": {"code": code, "message": "not found"}} if number == 4 else {"result": result}
        frames.append(("s2c", {"jsonrpc": "2.0", "id": number, **outcome}))
    checker: Judged = checked(stdio("any", *frames), rules_for(lambda id_: group_of(id_) == "ext-skills"))[0]
    assert checker.faults == {}


def test_contents_of_a_redacted_copy_are_not_compared(tmp_path: Path) -> None:
    (case,) = [case for case in by_name()["ext-skills"] if case.name == "stale-digests"]
    first_line, *records = [line for _, line in case.records()]
    header = orjson.loads(first_line)
    del header["seq"], header["rec"], header["t_ns"], header["crc"]
    rules = {}
    for name, redacted_by in (("original", None), ("copy", "mcpproxy 1.0.0")):
        path = tmp_path / f"{name}.mcpcap"
        path.write_bytes(b"".join([seal(0, 0, "header", members(**header, redacted_by=redacted_by)), *records]))
        rules[name] = [rule for rule, _, _ in alarms(path)]
    assert rules == {"original": ["ext-skills/digest-mismatch"] * 2, "copy": []}
