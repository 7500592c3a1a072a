"""The shapes of extensions: the tables are consistent, and any value is judged without an exception."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.protocol.extensions import EXTENSION_METHODS, EXTENSIONS
from analysis.shapes.body_table import object_shape
from analysis.shapes.extension_bodies import object_problems
from analysis.shapes.extension_table import FOLDER, short_name, table_of
from analysis.shapes.shape import MAX_ELEMENTS, MAX_PROBLEMS, Object

NAMES = sorted(path.stem for path in FOLDER.iterdir())
SKILL = {
    "uri": "skill://a/SKILL.md",
    "frontmatter": {"name": "a", "description": "b", "more": 1},
    "resources": [{"uri": "skill://a/SKILL.md", "digest": "sha256:0", "size": 1.0}],
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*SKILL, "skills", "ttlMs"]), inner),
    max_leaves=8,
)


def test_tables_belong_to_extensions_and_name_what_exists() -> None:
    titles = {short_name(extension): extension for extension in EXTENSIONS.values()}
    for name in NAMES:
        table = table_of(name)
        assert table["source"], name
        for row, key in table["bodies"].items():
            part, method = row.split()
            known = EXTENSION_METHODS.get(method)
            assert known is not None, row
            assert known[0] is titles[name], row
            assert part in ({"params", "result"} if known[1].is_request else {"notification"}), row
            assert key in table["objects"], row
        for key in table["objects"]:
            assert key.startswith(f"{name}/"), key
            assert isinstance(object_shape(key), Object), key


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        ({}, []),
        ({"resources": "dynamic"}, []),
        ({"resources": "static"}, ['resources should be "dynamic" or an array']),
        ({"resources": 5}, ['resources should be "dynamic" or an array']),
        ({"resources": None}, ['resources should be "dynamic" or an array']),
        ({"uri": "a b"}, ["uri is not an absolute URI: it has no scheme"]),
        ({"frontmatter": {"name": 5}}, ["name should be a string", "description is missing"]),
        ({"frontmatter": []}, ["frontmatter should be an object"]),
        ({"resources": [{"uri": "a:b", "digest": "", "size": -1}]}, ["size is out of its range"]),
        ({"resources": [{"uri": "a:b", "digest": "", "size": True}]}, ["size should be an integer"]),
    ],
)
def test_what_a_shape_does_not_allow_is_a_problem(change: dict[str, Any], texts: list[str]) -> None:
    problems = object_problems("skills/Skill", {**SKILL, **change}, "result/skill")
    assert [problem.text for problem in problems] == texts
    assert all(problem.pointer.startswith("/result/skill/") for problem in problems)


def test_optional_members_must_not_be_null() -> None:
    (problem,) = object_problems("skills/ListSkillsParams", {"cursor": None}, "params")
    assert problem.text == "cursor is null: omit it instead"
    assert problem.pointer == "/params/cursor"


def test_many_problems_are_cut_off() -> None:
    result = {"skills": [5] * (MAX_ELEMENTS + 1), "ttlMs": 0, "cacheScope": "public"}
    assert len(object_problems("skills/ListSkillsResult", result, "result")) == MAX_PROBLEMS


@given(value=JSON)
def test_any_value_is_judged(value: Any) -> None:
    for name in NAMES:
        for key in {*table_of(name)["bodies"].values()}:
            problems = object_problems(key, value, "result")
            assert bool(problems) is not object_shape(key).certainly_fits(value), (key, problems)
