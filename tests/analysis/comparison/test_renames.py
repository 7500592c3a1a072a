"""Which definitions are the same ones under another name."""

from typing import Any

from analysis.comparison.definitions.renames import Renaming, renamings, with_following_titles

TEXT = "Searches all documents of the team for words, and returns the best matches with their titles."


def tool(description: str, argument: str = "query") -> dict[str, Any]:
    schema = {"type": "object", "properties": {argument: {"type": "string"}} if argument else {}}
    return {"name": "any", "description": description, "inputSchema": schema}


def sdk_tool(name: str) -> dict[str, Any]:
    """Returns a tool as the official Python SDK lists it."""
    number = {"title": "Number", "type": "integer"}
    result = {"title": "Result", "type": "string"}
    return {
        "description": "Close a ticket.",
        "inputSchema": {
            "type": "object",
            "properties": {"number": number},
            "required": ["number"],
            "title": f"{name}Arguments",
        },
        "name": name,
        "outputSchema": {
            "properties": {"result": result},
            "required": ["result"],
            "title": f"{name}Output",
            "type": "object",
        },
    }


def test_the_same_schemas_with_nearly_the_same_description_are_a_rename() -> None:
    for old, new, expected in (
        (tool(TEXT), tool(TEXT), True),
        (tool(TEXT), tool(TEXT.replace("best", "first")), True),
        (tool(TEXT), tool(TEXT.upper()), True),
        (tool(TEXT), tool("Deletes what it finds."), False),
        (tool(TEXT), tool(TEXT, "words"), False),
        (tool(""), tool(""), True),
        (tool(""), tool(TEXT), False),
        (tool("", ""), tool("", ""), False),
        (tool(TEXT, ""), tool(TEXT, ""), True),
        (tool("Stops the job.", ""), tool("Starts the job.", ""), False),
    ):
        assert renamings("tools", [old], [new]) == ([Renaming(0, 0)] if expected else []), (old, new)


def test_titles_of_schemas_do_not_count() -> None:
    old, new = sdk_tool("close_ticket"), sdk_tool("resolve_ticket")
    assert renamings("tools", [old], [new]) == [Renaming(0, 0)]
    new["inputSchema"]["properties"]["title"] = {"type": "string"}
    assert renamings("tools", [old], [new]) == []


def test_a_title_follows_the_name_only_if_the_rest_is_the_same() -> None:
    old, new = sdk_tool("close_ticket"), sdk_tool("resolve_ticket")
    assert with_following_titles(old, new) == {**new, "name": "close_ticket"}
    new["inputSchema"]["title"] = "Resolve a ticket"
    assert with_following_titles(old, new)["inputSchema"] == old["inputSchema"]
    odd_values: list[Any] = [None, [], {}, {"name": 3, "inputSchema": {"title": 3}}]
    for odd in odd_values:
        assert with_following_titles(odd, new) == odd
        assert with_following_titles(old, odd) == old


def test_a_definition_that_fits_several_is_no_rename() -> None:
    near = [tool(TEXT.replace("best", word)) for word in ("first", "last")]
    assert renamings("tools", [tool(TEXT)], near) == []
    assert renamings("tools", near, [tool(TEXT)]) == []
    assert renamings("tools", [tool(TEXT)], [tool(TEXT), tool(TEXT)]) == []
    assert renamings("tools", [tool(TEXT)], [*near, tool(TEXT)]) == [Renaming(0, 2)]


def test_several_renames_are_paired() -> None:
    old = [tool(f"{TEXT} Only in shelf {shelf}.") for shelf in ("one", "two", "three")]
    assert renamings("tools", old, old[::-1]) == [Renaming(0, 2), Renaming(1, 1), Renaming(2, 0)]


def test_prompts_are_paired_by_arguments_and_resources_by_name_and_type() -> None:
    prompt = {"description": "Reviews code.", "arguments": [{"name": "code"}]}
    assert renamings("prompts", [prompt], [{**prompt, "title": "Review"}]) == [Renaming(0, 0)]
    assert renamings("prompts", [prompt], [{**prompt, "arguments": []}]) == []
    guide = {"name": "guide", "mimeType": "text/plain"}
    assert renamings("resources", [guide], [{**guide, "size": 3}]) == [Renaming(0, 0)]
    assert renamings("resources", [guide], [{"name": "guide"}]) == []
    assert renamings("resources", [{"uri": "a"}], [{"uri": "b"}]) == []


def test_many_definitions_that_look_alike_are_paired_only_if_they_are_equal() -> None:
    old, new = [tool(f"text {index}") for index in range(2_000)], [tool(f"text {index}") for index in range(1, 2_001)]
    assert renamings("tools", old, new) == [Renaming(index, index - 1) for index in range(1, 2_000)]
    assert renamings("tools", [3, None, "x"], [[], {}, 7]) == []
