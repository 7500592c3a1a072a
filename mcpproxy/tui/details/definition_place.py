"""Definition place: the part of a list of tools that a call, or its result, must conform to."""

from collections.abc import Iterable
from typing import Any, Final

import orjson

_SCHEMA_MEMBERS: Final = {"/params/arguments": "inputSchema", "/result/structuredContent": "outputSchema"}
"""By the JSON Pointer of a value in a message: the member of the tool's definition that describes it."""


def definition_place(list_frame: bytes, pointer: str, other_frames: Iterable[bytes]) -> str | None:
    """The JSON Pointer of the part of a tool's definition that a value must conform to, or else of the definition.

    Args:
        list_frame: a frame that may be a list of tools.
        pointer: the JSON Pointer of the value in its message.
        other_frames: other frames, including the call, which names the tool.

    Returns:
        None if the frame is not a list of tools, or an empty text if the list does not contain the tool.
    """
    tools = _value_at(_parse(list_frame), "result", "tools")
    if not isinstance(tools, list):
        return None
    name = next((name for name in map(_called_tool, other_frames) if name is not None), None)
    tool_index = next(
        (index for index, tool in enumerate(tools) if name is not None and _value_at(tool, "name") == name), None
    )
    if tool_index is None:
        return ""
    tool_pointer, tool = f"/result/tools/{tool_index}", tools[tool_index]
    for start, member in _SCHEMA_MEMBERS.items():
        if pointer.startswith(start) and member in tool:
            return f"{tool_pointer}/{member}{_schema_pointer(tool[member], pointer.removeprefix(start))}"
    return tool_pointer


def _schema_pointer(schema: Any, pointer: str) -> str:
    """Returns where a schema describes a value, as far as `properties` alone lead there."""
    schema_pointer = ""
    for token in pointer.split("/")[1:]:
        schema = _value_at(schema, "properties", token.replace("~1", "/").replace("~0", "~"))
        if schema is None:
            break
        schema_pointer += f"/properties/{token}"
    return schema_pointer


def _called_tool(raw: bytes) -> str | None:
    message = _parse(raw)
    name = _value_at(message, "params", "name")
    return name if _value_at(message, "method") == "tools/call" and isinstance(name, str) else None


def _parse(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None


def _value_at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
