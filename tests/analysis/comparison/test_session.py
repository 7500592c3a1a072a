"""What changed in what servers and clients say of themselves."""

from typing import Any

from analysis.comparison.change import Place
from analysis.comparison.options import CompareOptions
from analysis.comparison.session import SessionAspect
from tests.analysis.comparison.conversations import Conversation, compared, conversation, observed

ASPECT = SessionAspect()
FULL: dict[str, Any] = {
    "tools": {"listChanged": True},
    "prompts": {},
    "resources": {"subscribe": True, "listChanged": True},
    "logging": {},
    "experimental": {"traces": {}},
    "extensions": {"com.example/x": {"mode": "a", "limits": {"size": 3}}},
}


def kinds_of(old: Conversation, new: Conversation) -> list[str]:
    return sorted(change.kind.id for change in compared(ASPECT, old, new).changes)


def test_each_change_of_a_capability_is_of_its_kind() -> None:
    without = {name: {key: value for key, value in FULL.items() if key != name} for name in FULL}
    settings = FULL["extensions"]["com.example/x"]
    cases: list[tuple[dict[str, Any], list[str]]] = [
        (dict(reversed(FULL.items())), []),
        (without["prompts"], ["session/capability-removed"]),
        ({**FULL, "prompts": False}, ["session/capability-removed"]),
        ({**FULL, "completions": {}}, ["session/capability-added"]),
        ({**FULL, "completions": False}, []),
        ({**FULL, "tools": {}}, ["session/capability-narrowed"]),
        ({**FULL, "tools": {"listChanged": False}}, ["session/capability-narrowed"]),
        ({**FULL, "prompts": {"listChanged": True}}, ["session/capability-widened"]),
        ({**FULL, "prompts": {"listChanged": False}}, []),
        ({**FULL, "resources": {"listChanged": True}}, ["session/subscriptions-removed"]),
        ({**FULL, "logging": True}, ["session/capability-changed"]),
        (without["experimental"], ["session/experiment-removed"]),
        ({**FULL, "experimental": {"traces": {}, "more": {}}}, ["session/experiment-added"]),
        (without["extensions"], ["session/extension-removed"]),
        ({**FULL, "extensions": {"com.example/x": settings, "com.example/y": {}}}, ["session/extension-added"]),
        ({**FULL, "extensions": {"com.example/x": {**settings, "mode": "b"}}}, ["session/capability-changed"]),
        ({**FULL, "extensions": {"com.example/x": {"mode": "a"}}}, ["session/capability-narrowed"]),
        (
            {**FULL, "extensions": {"com.example/x": {**settings, "limits": {"size": 4}}}},
            ["session/capability-changed"],
        ),
    ]
    for capabilities, expected in cases:
        assert kinds_of(conversation(capabilities=FULL), conversation(capabilities=capabilities)) == expected, (
            capabilities
        )


def test_the_place_of_a_change_is_the_response_of_the_server() -> None:
    (change,) = compared(
        ASPECT, conversation(capabilities=FULL), conversation(capabilities={**FULL, "tools": {}})
    ).changes
    assert (change.pointer, change.before, change.after) == ("/capabilities/tools/listChanged", True, change.after)
    assert change.old == change.new == Place("capture 0", 1, 2)


def test_name_version_and_revision_are_compared() -> None:
    old = conversation()
    assert kinds_of(old, conversation(version="2.0.0")) == ["session/server-version-changed"]
    assert kinds_of(old, conversation(name="other")) == ["session/server-name-changed"]
    assert kinds_of(old, conversation(revision="2025-06-18")) == ["session/revision-changed"]
    both = observed(ASPECT, conversation(revision="2025-06-18"), old)
    assert ASPECT.compare(both, observed(ASPECT, conversation(revision="2025-06-18")), CompareOptions()).changes == ()


def test_other_members_of_the_server_info_are_notes() -> None:
    old, new = (conversation(serverInfo={"name": "docs", "version": "1.0.0", "title": title}) for title in "ab")
    (change,) = compared(ASPECT, old, new).changes
    assert (change.kind.id, change.message) == (
        "session/server-info-changed",
        "the member 'title' of `serverInfo` changed",
    )
    assert (change.pointer, change.before, change.after) == ("/serverInfo/title", "a", "b")
    assert kinds_of(conversation(), new) == ["session/server-info-changed"]
    assert kinds_of(new, conversation(serverInfo=3)) == ["session/server-info-changed"]


def test_capabilities_of_the_client_are_notes() -> None:
    old, new = conversation(client={"roots": {}, "sampling": {}}), conversation(client={"roots": {"listChanged": True}})
    assert kinds_of(old, new) == ["session/client-capability-changed"] * 2
    assert [change.message for change in compared(ASPECT, old, new).changes] == [
        "the capability 'roots' of the client changed",
        "the capability 'sampling' of the client was removed",
    ]


def test_instructions_that_are_reworded_are_a_note_and_hidden_text_in_them_is_worse() -> None:
    old = conversation(instructions="Search first.")
    assert kinds_of(old, conversation(instructions="Search first.")) == []
    assert kinds_of(old, conversation(instructions="Fetch first.")) == ["session/instructions-changed"]
    assert kinds_of(old, conversation()) == ["session/instructions-changed"]
    assert kinds_of(old, conversation(instructions="Search\u2060 first.")) == ["definition/hidden-text"]
    assert kinds_of(old, conversation(instructions=["Search first."])) == ["session/instructions-changed"]
    (row,) = compared(ASPECT, old, conversation()).sizes
    assert row == ("instructions", 1, 0, 13, 0, 3, 0)


def test_a_session_without_a_handshake_is_compared_by_what_it_discovers() -> None:
    old, new = Conversation(), Conversation()
    old.discover(FULL, instructions="Search first.")
    new.discover({**FULL, "tools": {}})
    assert kinds_of(old, new) == ["session/capability-narrowed", "session/instructions-changed"]


def test_what_only_one_side_declares_is_not_compared() -> None:
    declared, undeclared = conversation(capabilities=FULL), Conversation()
    undeclared.list("tools/list", [])
    (gap,) = compared(ASPECT, declared, undeclared).gaps
    assert gap.reason == "the old side shows what the server declares and the new side does not"
    assert gap.is_failure
    (gap,) = compared(ASPECT, undeclared, undeclared).gaps
    assert (gap.is_failure, gap.needed_by) == (False, frozenset())


def test_hostile_declarations_are_compared() -> None:
    nested: Any = {}
    for _ in range(400):
        nested = {"x": nested}
    hostile: dict[str, Any] = {"tools": nested, "\ud800": 2**70, "extensions": 7, "experimental": [1]}
    changed = {"tools": {"x": nested}, "\ud800": 2**70 + 2**40, "extensions": None, "experimental": {"\udfff": 1}}
    old = conversation(capabilities=hostile, instructions="\ud800", client={"x": nested})
    assert compared(ASPECT, old, old).changes == ()
    new = conversation(capabilities=changed, instructions="\udfff\u202e", client={"x": [nested]})
    assert "session/experiment-added" in kinds_of(old, new)
    assert compared(ASPECT, conversation(capabilities="none"), new).changes != ()
