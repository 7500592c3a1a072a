"""The place in a list of tools that says what a call must match, and its display with the findings."""

import json

from mcpproxy.tui.details.definition_place import definition_place

OTHER = {"name": "other", "description": "long " * 100, "inputSchema": {"type": "object"}}
ADD = {
    "name": "add",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "number", "title": "the first number"}}},
}
LISTED = json.dumps({"jsonrpc": "2.0", "id": 50, "result": {"tools": [OTHER, ADD]}}).encode()
CALLED = b'{"jsonrpc":"2.0","id":51,"method":"tools/call","params":{"name":"add","arguments":{"a":"1"}}}'


def test_the_place_is_that_of_the_value_as_far_as_the_schema_says_it() -> None:
    places = {
        pointer: definition_place(LISTED, pointer, [b"[]", CALLED])
        for pointer in ("/params/arguments/a", "/params/arguments/b/c", "/result/structuredContent/a", "/params/name")
    }
    assert list(places.values()) == [
        "/result/tools/1/inputSchema/properties/a",
        "/result/tools/1/inputSchema",
        "/result/tools/1",
        "/result/tools/1",
    ]


def test_results_without_a_list_or_the_tool_have_no_place() -> None:
    assert definition_place(LISTED, "/params/arguments", [CALLED.replace(b'"add"', b'"sum"')]) == ""
    assert definition_place(LISTED, "/params/arguments", []) == ""
    for raw in (b"", b"tools", b"[1]", b'{"result":{"tools":7}}', CALLED):
        assert definition_place(raw, "/params/arguments", [CALLED]) is None
    assert definition_place(b'{"result":{"tools":[7,null]}}', "/params/arguments", [CALLED]) == ""
