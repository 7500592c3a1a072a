"""The rules that all extensions share, on rules made for these tests."""

from typing import Any, ClassVar

import pytest

from analysis.protocol.extensions import EVENTS, SKILLS, Extension
from analysis.protocol.revisions import ALL
from analysis.rules.discovery import rules
from analysis.rules.finding import Level
from analysis.rules.support.extension_rules import ExtensionShape, UndeclaredExtension
from mcpproxy.wording.rule_pages import levels_text
from tests.analysis.talk import META
from tests.analysis.traces import check, stdio

SKILL = {"uri": "skill://a/SKILL.md", "frontmatter": {"name": "a", "description": "b"}, "resources": "dynamic"}
HINTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class SkillsShape(ExtensionShape):
    """A shape."""

    id = "ext-skills/test-shape"
    extension = SKILLS


class SkillsUndeclared(UndeclaredExtension):
    """A declaration."""

    id = "ext-skills/test-undeclared"
    extension = SKILLS


class EventsUndeclared(UndeclaredExtension):
    """A declaration of a draft."""

    id = "ext-events/test-undeclared"
    extension: ClassVar[Extension] = EVENTS


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the checker know these rules during a test."""
    for rule in (SkillsShape, SkillsUndeclared, EventsUndeclared):
        monkeypatch.setitem(rules(), rule.id, rule)


def request(number: int, method: str, **params: Any) -> tuple[str, dict[str, Any]]:
    return "c2s", {"jsonrpc": "2.0", "id": number, "method": method, "params": {"_meta": META, **params}}


def result(number: int, **members: Any) -> tuple[str, dict[str, Any]]:
    return "s2c", {"jsonrpc": "2.0", "id": number, "result": {**HINTS, **members}}


def discovery(**extensions: Any) -> list[tuple[str, dict[str, Any]]]:
    capabilities = {"tools": {}, "extensions": extensions}
    return [
        request(1, "server/discover"),
        result(1, supportedVersions=["2026-07-28"], capabilities=capabilities),
    ]


def told(rule: type[ExtensionShape | UndeclaredExtension], *frames: Any) -> list[tuple[int, str, Level]]:
    found = check(stdio("extension", *frames), [rule])
    return [(one.frame, one.finding.message, one.level) for one in found]


def test_attributes_follow_from_the_extension() -> None:
    assert SkillsShape.versions == SKILLS.revisions
    assert SkillsShape.level is Level.ERROR
    assert sorted(SkillsShape.methods or ()) == ["resources/directory/read", "skills/get", "skills/list"]
    assert SkillsShape.source == "SEP-2640"
    assert SkillsUndeclared.level is Level.WARNING
    assert levels_text(SkillsUndeclared) == "warning (note in ≤2025-11-25)"
    assert levels_text(EventsUndeclared) == "note"
    assert (EventsUndeclared.level, EventsUndeclared.versions) == (Level.NOTE, ALL)


def test_bodies_are_compared_with_the_shapes_of_the_extension() -> None:
    frames = [
        request(1, "skills/list", cursor=5),
        result(1, skills=[SKILL, {**SKILL, "resources": None}]),
        request(2, "skills/get"),
        result(2, skill=SKILL),
        request(3, "tools/list", cursor=5),
        request(4, "skills/get", uri="skill://a/SKILL.md"),
        result(4, resultType="made-up"),
    ]
    assert told(SkillsShape, *frames) == [
        (0, "skills/list: cursor should be a string", Level.ERROR),
        (1, 'the result of skills/list: resources should be "dynamic" or an array', Level.ERROR),
        (2, "skills/get: uri is missing", Level.ERROR),
    ]


def test_a_method_needs_the_declaration_of_its_extension() -> None:
    asked = [request(2, "skills/list"), result(2, skills=[]), request(3, "resources/directory/read", uri="skill://a")]
    name = SKILLS.identifier
    missing = "skills/list is requested, but the server did not declare io.modelcontextprotocol/skills"
    assert told(SkillsUndeclared, *discovery(), *asked)[0] == (2, missing, Level.WARNING)
    setting = "resources/directory/read is requested, but the server did not declare directoryRead"
    assert told(SkillsUndeclared, *discovery(**{name: {}}), *asked) == [(4, setting, Level.WARNING)]
    assert told(SkillsUndeclared, *discovery(**{name: {"directoryRead": True}}), *asked) == []
    assert told(SkillsUndeclared, *discovery(**{name: 5}), *asked) == []  # other rules report the declaration
    assert told(SkillsUndeclared, *asked) == []


def test_a_draft_may_be_declared_by_a_capability_and_leads_to_notes() -> None:
    notification = ("s2c", {"jsonrpc": "2.0", "method": "notifications/events/event", "params": {}})
    (found,) = told(EventsUndeclared, *discovery(), notification)
    assert found[::2] == (2, Level.NOTE)
    capable = result(1, supportedVersions=["2026-07-28"], capabilities={"events": {}})
    assert told(EventsUndeclared, request(1, "server/discover"), capable, notification) == []


def test_a_revision_without_the_extension_is_worth_a_note() -> None:
    start = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
    frames = [
        ("c2s", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start}),
        ("s2c", {"jsonrpc": "2.0", "id": 1, "result": {**start, "serverInfo": start["clientInfo"]}}),
        ("c2s", {"jsonrpc": "2.0", "method": "notifications/initialized"}),
        ("c2s", {"jsonrpc": "2.0", "id": 2, "method": "skills/list"}),
    ]
    text = "skills/list belongs to Skills, which 2025-11-25 does not have"
    assert told(SkillsUndeclared, *frames) == [(3, text, Level.NOTE)]
