"""What came, went and changed between two lists of definitions, and what cannot be compared."""

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

from analysis.comparison.change import Place
from analysis.comparison.definitions.definitions import DefinitionsAspect
from analysis.comparison.options import CompareOptions
from tests.analysis.comparison.conversations import Conversation, compared, conversation, observed
from tests.analysis.comparison.test_renames import sdk_tool

ASPECT = DefinitionsAspect()
SEARCH: dict[str, Any] = {
    "name": "search",
    "title": "Search",
    "description": "Searches the documents of a team for words, and returns the ten best matches.",
    "inputSchema": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
        "required": ["query"],
    },
    "outputSchema": {"type": "object", "properties": {"hits": {"type": "array"}}, "required": ["hits"]},
    "annotations": {"title": "Search", "readOnlyHint": True, "openWorldHint": False},
    "execution": {"taskSupport": "optional"},
    "icons": [{"src": "https://a.example/1.png"}, {"src": "https://a.example/2.png"}],
    "_meta": {"ui": {"resourceUri": "ui://search"}, "com.example/owner": "docs"},
}
FETCH: dict[str, Any] = {
    "name": "fetch",
    "description": "Fetches one document by its number.",
    "inputSchema": {"type": "object", "properties": {"number": {"type": "integer"}}},
    "annotations": {"destructiveHint": False, "idempotentHint": True},
}
PING: dict[str, Any] = {"name": "ping", "inputSchema": {"type": "object"}}
REVIEW: dict[str, Any] = {
    "name": "review",
    "description": "Reviews code.",
    "arguments": [{"name": "code", "description": "The code", "required": True}, {"name": "style"}],
}
GUIDE: dict[str, Any] = {
    "uri": "docs://guide",
    "name": "guide",
    "description": "How to begin.",
    "mimeType": "text/plain",
    "size": 1024,
    "annotations": {"audience": ["user"], "priority": 0.5},
}
FILE: dict[str, Any] = {"uriTemplate": "file:///{path}", "name": "file", "description": "A file of the project."}


def kinds_of(old: Conversation, new: Conversation) -> list[str]:
    result = compared(ASPECT, old, new)
    assert not result.gaps or all(not gap.is_failure for gap in result.gaps), result.gaps
    return sorted(change.kind.id for change in result.changes)


Mutation = Callable[[list[dict[str, Any]]], object]
TOOL_MUTATIONS: list[tuple[str, Mutation, list[str]]] = [
    ("a tool goes", lambda tools: tools.pop(1), ["tool/removed"]),
    ("a tool comes", lambda tools: tools.append({"name": "new", "inputSchema": {}}), ["tool/added"]),
    ("a tool is renamed", lambda tools: tools[0].update(name="search_docs"), ["tool/renamed"]),
    (
        "a tool is renamed and slightly reworded",
        lambda tools: tools[0].update(name="find", description=SEARCH["description"].replace("ten", "five")),
        ["definition/description-changed", "tool/renamed"],
    ),
    (
        "a tool goes and another one comes with the same schemas",
        lambda tools: tools[0].update(name="erase", description="Deletes everything that it finds."),
        ["tool/added", "tool/removed"],
    ),
    ("a title changes", lambda tools: tools[0].update(title="Find"), ["definition/title-changed"]),
    ("a title goes", lambda tools: tools[0].pop("title"), ["definition/title-changed"]),
    (
        "a title among the annotations changes",
        lambda tools: tools[0]["annotations"].update(title="Find"),
        ["definition/title-changed"],
    ),
    (
        "a description is reworded",
        lambda tools: tools[0].update(description="Finds."),
        ["definition/description-changed"],
    ),
    ("a description comes", lambda tools: tools[2].update(description="Answers."), ["definition/description-changed"]),
    (
        "read-only no longer",
        lambda tools: tools[0]["annotations"].update(readOnlyHint=False),
        ["tool/annotation-weakened"],
    ),
    ("read-only unsaid", lambda tools: tools[0]["annotations"].pop("readOnlyHint"), ["tool/annotation-weakened"]),
    (
        "read-only as a text",
        lambda tools: tools[0]["annotations"].update(readOnlyHint="yes"),
        ["tool/annotation-weakened"],
    ),
    (
        "destructive now",
        lambda tools: tools[1]["annotations"].update(destructiveHint=True),
        ["tool/annotation-weakened"],
    ),
    ("idempotent no longer", lambda tools: tools[1]["annotations"].pop("idempotentHint"), ["tool/annotation-weakened"]),
    ("open world now", lambda tools: tools[0]["annotations"].update(openWorldHint=True), ["tool/annotation-weakened"]),
    (
        "read-only now",
        lambda tools: tools[1]["annotations"].update(readOnlyHint=True),
        ["tool/annotation-strengthened"],
    ),
    (
        "annotations come",
        lambda tools: tools[2].update(annotations={"destructiveHint": False}),
        ["tool/annotation-strengthened"],
    ),
    ("a default is stated", lambda tools: tools[2].update(annotations={"readOnlyHint": False}), []),
    (
        "an annotation that is unknown",
        lambda tools: tools[0]["annotations"].update(audience=["user"]),
        ["definition/member-changed"],
    ),
    ("tasks only", lambda tools: tools[0]["execution"].update(taskSupport="required"), ["tool/task-required"]),
    ("no tasks", lambda tools: tools[0].pop("execution"), ["tool/task-refused"]),
    ("tasks allowed", lambda tools: tools[1].update(execution={"taskSupport": "optional"}), ["tool/task-allowed"]),
    (
        "an icon moves",
        lambda tools: tools[0]["icons"][0].update(src="https://b.example/"),
        ["definition/icons-changed"],
    ),
    ("icons change places", lambda tools: tools[0]["icons"].reverse(), []),
    ("a member of _meta goes", lambda tools: tools[0]["_meta"].pop("ui"), ["definition/meta-changed"]),
    (
        "two members of _meta change",
        lambda tools: tools[0]["_meta"].update({"ui": 1, "com.example/owner": 2}),
        ["definition/meta-changed", "definition/meta-changed"],
    ),
    ("a member that is unknown comes", lambda tools: tools[0].update(version=3), ["definition/member-changed"]),
    (
        "tag characters in a description",
        lambda tools: tools[0].update(description=SEARCH["description"] + "\U000e0068\U000e0069"),
        ["definition/hidden-text"],
    ),
    ("a direction control in a title", lambda tools: tools[0].update(title="Sea\u202erch"), ["definition/hidden-text"]),
    (
        "a new tool with hidden text",
        lambda tools: tools.append({"name": "new", "inputSchema": {}, "description": "a\u200bb"}),
        ["definition/hidden-text", "tool/added"],
    ),
    (
        "an emoji with joiners in a title",
        lambda tools: tools[0].update(title="\U0001f468\u200d\U0001f469\u200d\U0001f467"),
        ["definition/title-changed"],
    ),
]


def test_each_mutation_of_a_list_of_tools_is_exactly_the_planted_change() -> None:
    assert len(TOOL_MUTATIONS) >= 30
    for what, mutate, expected in TOOL_MUTATIONS:
        tools = copy.deepcopy([SEARCH, FETCH, PING])
        mutate(tools)
        assert kinds_of(conversation([SEARCH, FETCH, PING]), conversation(tools)) == expected, what


def test_each_change_of_a_prompt_is_of_its_kind() -> None:
    code, style = REVIEW["arguments"]
    explain = {"name": "explain"}
    cases: list[tuple[list[dict[str, Any]], list[str]]] = [
        ([explain], ["prompt/removed"]),
        ([REVIEW, explain, {"name": "new"}], ["prompt/added"]),
        ([{**REVIEW, "name": "code_review"}, explain], ["prompt/renamed"]),
        ([{**REVIEW, "arguments": [code, {**style, "required": True}]}, explain], ["prompt/argument-required"]),
        (
            [{**REVIEW, "arguments": [code, style, {"name": "x", "required": True}]}, explain],
            ["prompt/argument-required"],
        ),
        ([{**REVIEW, "arguments": [code, style, {"name": "x"}]}, explain], ["prompt/argument-added"]),
        ([{**REVIEW, "arguments": [style]}, explain], ["prompt/argument-removed"]),
        ([{**REVIEW, "arguments": [{**code, "required": False}, style]}, explain], ["prompt/argument-optional"]),
        (
            [{**REVIEW, "arguments": [{**code, "description": "Code"}, style]}, explain],
            ["definition/description-changed"],
        ),
        ([{**REVIEW, "arguments": [style, code]}, explain], []),
        ([{**REVIEW, "arguments": [code, {**style, "required": False}]}, explain], []),
        ([{**REVIEW, "arguments": "none"}, explain], ["definition/member-changed"]),
    ]
    for prompts, expected in cases:
        old, new = conversation(prompts=[REVIEW, explain]), conversation(prompts=prompts)
        assert kinds_of(old, new) == expected, prompts


def test_each_change_of_a_resource_is_of_its_kind() -> None:
    cases: list[tuple[list[dict[str, Any]], list[str]]] = [
        ([], ["resource/removed"]),
        ([GUIDE, {"uri": "docs://b", "name": "b"}], ["resource/added"]),
        ([{**GUIDE, "uri": "docs://v2/guide"}], ["resource/moved"]),
        ([{**GUIDE, "name": "manual"}], ["resource/name-changed"]),
        ([{**GUIDE, "mimeType": "text/html"}], ["resource/mime-type-changed"]),
        ([{**GUIDE, "size": 2048}], ["resource/size-changed"]),
        ([{**GUIDE, "size": 1024.0}], []),
        ([{**GUIDE, "size": True}], ["resource/size-changed"]),
        ([{**GUIDE, "annotations": {"audience": ["user"], "priority": 1}}], ["definition/member-changed"]),
    ]
    for resources, expected in cases:
        assert kinds_of(conversation(resources=[GUIDE]), conversation(resources=resources)) == expected, resources


def test_each_change_of_a_template_is_of_its_kind() -> None:
    cases: list[tuple[list[dict[str, Any]], list[str]]] = [
        ([], ["resource-template/removed"]),
        ([FILE, {"uriTemplate": "b://{x}", "name": "b"}], ["resource-template/added"]),
        ([{**FILE, "uriTemplate": "file:///{root}/{path}"}], ["resource-template/changed"]),
    ]
    for templates, expected in cases:
        assert kinds_of(conversation(templates=[FILE]), conversation(templates=templates)) == expected, templates
    (change,) = compared(
        ASPECT, conversation(templates=[FILE]), conversation(templates=[{**FILE, "uriTemplate": "file:///{root}{+p}"}])
    ).changes
    assert change.message == "the template is 'file:///{root}{+p}' now; its variables were path and are p, root"


def test_a_list_with_itself_and_with_any_permutation_has_not_changed() -> None:
    odd: list[Any] = [3, None, {"description": "without a name"}, {"name": 7}, {**PING, "description": "twice"}]
    lists = [[SEARCH, FETCH, PING, *odd], [REVIEW, {"name": "explain"}], [GUIDE], [FILE]]
    random = Random(50)
    for _ in range(20):
        permuted = [[_permuted(item, random) for item in items] for items in lists]
        for items in permuted:
            random.shuffle(items)
        result = compared(ASPECT, conversation(*lists), conversation(*permuted))
        assert result.changes == ()
        assert not any(gap.is_failure for gap in result.gaps)
        assert result.compared == (
            ("tools", 4, 4),
            ("prompts", 2, 2),
            ("resources", 1, 1),
            ("resource templates", 1, 1),
        )


def _permuted(value: Any, random: Random) -> Any:
    """Returns a value with the members of all its objects in another order."""
    if isinstance(value, list):
        return [_permuted(item, random) for item in value]
    if not isinstance(value, dict):
        return value
    members = [(name, _permuted(member, random)) for name, member in value.items()]
    random.shuffle(members)
    return dict(members)


def test_a_change_names_the_definition_and_the_frames_of_both_sides() -> None:
    old, new = conversation([PING, SEARCH]), Conversation()
    new.initialize()
    new.call("ping", {})
    new.list("tools/list", [PING], [{**SEARCH, "title": "Find"}])
    (change,) = compared(ASPECT, old, new).changes
    assert (change.subject, change.pointer, change.before, change.after) == ("tool search", "/title", "Search", "Find")
    assert (change.old, change.new) == (Place("capture 0", 1, 5), Place("capture 0", 1, 9))


def test_a_rename_is_told_once_and_only_if_it_is_unique() -> None:
    result = compared(ASPECT, conversation([SEARCH]), conversation([{**SEARCH, "name": "docs_search"}]))
    (change,) = result.changes
    assert (change.message, change.before, change.after) == (
        "the tool is called 'docs_search' now",
        "search",
        "docs_search",
    )
    assert kinds_of(conversation([sdk_tool("close")]), conversation([sdk_tool("resolve")])) == ["tool/renamed"]
    twins = [{**SEARCH, "name": "a"}, {**SEARCH, "name": "b"}]
    assert kinds_of(conversation([SEARCH]), conversation(twins)) == ["tool/added", "tool/added", "tool/removed"]
    bare = [{"name": name, "inputSchema": {"type": "object"}} for name in ("start", "stop")]
    assert kinds_of(conversation(bare[:1]), conversation(bare[1:])) == ["tool/added", "tool/removed"]


def test_the_sizes_of_both_lists_are_in_bytes_and_tokens() -> None:
    (row,) = compared(ASPECT, conversation([PING]), conversation([PING, FETCH])).sizes
    ping = len(json.dumps(PING, separators=(",", ":")))
    both = ping + len(json.dumps(FETCH, separators=(",", ":")))
    assert (row.list, row.old_count, row.new_count, row.old_bytes, row.new_bytes) == ("tools", 1, 2, ping, both)
    assert row.old_tokens == (ping + 2) // 4


def gap_of(old: Conversation, new: Conversation, what: str = "tools") -> tuple[str, bool] | None:
    gaps = {gap.what: (gap.reason, gap.is_failure) for gap in compared(ASPECT, old, new).gaps}
    return gaps.get(what)


def test_a_list_that_one_side_does_not_ask_for_is_a_failure() -> None:
    listed, unasked = conversation([PING]), conversation()
    assert gap_of(listed, unasked) == ("the old side lists them and the new side does not", True)
    assert gap_of(unasked, listed) == ("the new side lists them and the old side does not", True)
    (gap, *_) = compared(ASPECT, unasked, unasked).gaps
    assert (gap.what, gap.reason, gap.is_failure) == ("tools", "neither side lists them", False)
    assert gap.needed_by == {"breaking", "may-break"}
    (gap, *_) = compared(ASPECT, listed, listed).gaps
    assert (gap.what, gap.needed_by) == ("prompts", frozenset())


def test_a_list_that_is_cut_is_a_failure() -> None:
    listed, cut, late = conversation([PING]), conversation(), conversation()
    cut.list("tools/list", [PING], is_cut=True)
    late.call("tools/list", {"tools": [PING]}, {"cursor": "page 7"})
    for incomplete in (cut, late):
        reason, is_failure = gap_of(listed, incomplete) or ("", False)
        assert (reason.startswith("the list is incomplete on the new side"), is_failure) == (True, True)
        reason, is_failure = gap_of(incomplete, incomplete) or ("", False)
        assert (reason.startswith("the list is incomplete on both sides"), is_failure) == (True, True)


def test_a_list_that_nobody_answered_is_a_failure_only_if_the_other_side_has_it() -> None:
    listed, unanswered = conversation([PING]), conversation()
    unanswered.request("tools/list")
    reason = "the old side lists them and the new side got no answer when it asked for them"
    assert gap_of(listed, unanswered) == (reason, True)
    assert gap_of(unanswered, unanswered) == ("neither side lists them", False)


def test_an_answer_that_neither_side_can_show_is_a_failure_with_its_reason() -> None:
    refused, deep, lost = conversation(), conversation(), conversation()
    refused.refuse("tools/list", -32603)
    schema = b'{"items":' * 600 + b"{}" + b"}" * 600
    number = deep.request("tools/list")
    deep.raw("s2c", b'{"jsonrpc":"2.0","id":%d,"result":{"tools":[{"name":"a","inputSchema":%b}]}}' % (number, schema))
    lost.request("tools/list")
    lost.record("gap", count=1, bytes=50)
    for without, clause in (
        (refused, "got an error when it asked for them"),
        (deep, "has an answer that could not be examined"),
        (lost, "lacks the answer: records are lost"),
    ):
        assert gap_of(conversation([PING]), without) == (f"the old side lists them and the new side {clause}", True)
        assert gap_of(without, without) == (f"each side {clause}", True)
        assert gap_of(conversation(), without) == (f"the new side {clause}", True)
        later = observed(ASPECT, conversation([PING]), without)
        gaps = ASPECT.compare(later, later, CompareOptions()).gaps
        assert [gap.what for gap in gaps if "breaking" in gap.needed_by] == ["newest tools", "newest tools"]
    reason = (
        "the old side got an error when it asked for them and the new side has an answer that could not be examined"
    )
    assert gap_of(refused, deep) == (reason, True)


def test_a_list_that_changed_and_was_not_requested_again_is_told() -> None:
    listed, announced = conversation([PING]), conversation([PING])
    announced.say("s2c", method="notifications/tools/list_changed")
    reason = "the server of the new side announced other tools, which nobody asked for"
    assert gap_of(listed, announced, "newest tools") == (reason, False)
    (gap,) = (gap for gap in compared(ASPECT, listed, announced).gaps if gap.what == "newest tools")
    assert gap.needed_by == {"breaking", "may-break"}
    announced.list("tools/list", [PING])
    assert gap_of(listed, announced, "newest tools") is None


def test_a_list_that_a_server_does_not_have_is_empty() -> None:
    without = conversation(capabilities={"prompts": {}})
    assert gap_of(without, without) is None
    assert kinds_of(conversation([PING]), without) == ["tool/removed"]
    refused = conversation()
    refused.refuse("tools/list")
    assert kinds_of(refused, conversation([PING])) == ["tool/added"]


def test_the_newest_complete_list_counts() -> None:
    talk = conversation([PING, FETCH])
    talk.say("s2c", method="notifications/tools/list_changed")
    talk.list("tools/list", [PING], [SEARCH])
    assert kinds_of(talk, conversation([SEARCH, PING])) == []
    talk.say("s2c", method="notifications/tools/list_changed")
    talk.list("tools/list", [PING], is_cut=True)
    assert kinds_of(talk, conversation([SEARCH, PING])) == []
    assert gap_of(talk, talk, "newest tools") is not None


def test_several_servers_of_a_side_are_compared_by_their_names() -> None:
    docs, other = conversation([PING], name="docs"), conversation([SEARCH], name="other")
    old = observed(ASPECT, docs, other)
    new = observed(ASPECT, conversation([FETCH], name="other"), docs)
    result = ASPECT.compare(old, new, CompareOptions())
    assert [change.subject for change in result.changes] == ["tool search of other", "tool fetch of other"]
    renamed = ASPECT.compare(old, observed(ASPECT, docs, conversation([SEARCH], name="third")), CompareOptions())
    assert (renamed.changes, [gap for gap in renamed.gaps if gap.is_failure]) == ((), [])
    gone = ASPECT.compare(old, observed(ASPECT, docs), CompareOptions())
    assert [gap.what for gap in gone.gaps if gap.is_failure] == ["definitions of other"]
