"""The tools, resources (three notes) and prompt of the demo server. Each method accepts a call and returns a result."""

import json
import math
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn

from analysis.protocol.error_codes import INVALID_PARAMS, RESOURCE_NOT_FOUND
from mcpproxy.demo.call import (
    HANDSHAKE_REVISIONS,
    MODERN_REVISIONS,
    Call,
    CancelledError,
    Json,
    RefusalError,
    ToolError,
)

INTRODUCED_IN: Final = {"annotations": "2025-03-26", "title": "2025-06-18", "outputSchema": "2025-06-18"}
"""Members of tools, resources and prompts that older revisions do not define, and the revision that introduced them."""

NOTES: Final = {
    "groceries": "milk\nbread\ncoffee\n",
    "travel": "Zürich → 東京, 14 h 5 min, 1.180 €\n",
    "zoo": "The zebra 🦓 is back. Feed it at noon.\n",
}

MAX_SUM: Final = 1e300
"""The largest sum that `add` returns."""


class Tool(NamedTuple):
    """A tool: its entry in `tools/list`, and the function that a call runs."""

    title: str
    description: str
    properties: Json
    required: tuple[str, ...]
    run: Callable[[Call, Json], Json | str]
    """Returns structured content or text, given a call and its checked arguments."""
    output: Json | None = None
    is_slow: bool = False
    """Whether other requests are served while the tool runs."""


def _raise_tool_error(reason: str) -> NoReturn:
    raise ToolError(reason)


def _add(_: Call, arguments: Json) -> Json:
    try:
        total = arguments["a"] + arguments["b"]
    except OverflowError:
        total = math.inf
    # JSON has neither infinity nor NaN, and Python prints no integer of more than 4300 digits.
    return {"sum": total} if abs(total) < MAX_SUM else {"sum": _raise_tool_error("the sum is too large")}


def _word_count(_: Call, arguments: Json) -> Json:
    text = arguments["text"]
    return {"words": len(text.split()), "characters": len(text)}


def _slow_echo(call: Call, arguments: Json) -> str:
    steps, seconds = arguments.get("steps", 3), arguments.get("seconds", 0.3)
    if not 1 <= steps <= 100 or not 0 <= seconds <= 10:
        raise ToolError("steps must lie within 1 and 100, seconds within 0 and 10")
    call.send_log("info", f"echoing in {steps} steps")
    for step in range(1, steps + 1):
        if call.cancelled.wait(seconds / steps):
            raise CancelledError
        call.send_progress(step, steps)
    return str(arguments["text"])


def _read_note(_: Call, arguments: Json) -> str:
    try:
        return NOTES[arguments["name"]]
    except KeyError:
        raise ToolError(f"there is no such note; there are: {', '.join(NOTES)}") from None


def _fail(_: Call, arguments: Json) -> str:
    _raise_tool_error(arguments.get("reason", "this tool always fails"))


def _object(**properties: str) -> Json:
    schemas = {name: {"type": type_name} for name, type_name in properties.items()}
    return {"type": "object", "properties": schemas, "required": list(properties)}


_STRING: Final = {"type": "string"}
_NUMBER: Final = {"type": "number"}

TOOLS: Final[dict[str, Tool]] = {
    "add": Tool("Add", "Add two numbers.", {"a": _NUMBER, "b": _NUMBER}, ("a", "b"), _add, _object(sum="number")),
    "word_count": Tool(
        "Count words",
        "Count the words and characters of a text.",
        {"text": _STRING},
        ("text",),
        _word_count,
        _object(words="integer", characters="integer"),
    ),
    "slow_echo": Tool(
        "Echo slowly",
        "Return the text, some time later, telling the progress.",
        {
            "text": _STRING,
            "steps": {"type": "integer", "minimum": 1, "maximum": 100},
            "seconds": {"type": "number", "minimum": 0, "maximum": 10},
        },
        ("text",),
        _slow_echo,
        is_slow=True,
    ),
    "read_note": Tool("Read a note", "Return a note from the notebook.", {"name": _STRING}, ("name",), _read_note),
    "fail": Tool("Fail", "Always fail, with the given reason.", {"reason": _STRING}, (), _fail),
}

_PYTHON_TYPES: Final[dict[str, tuple[type, ...]]] = {"string": (str,), "integer": (int,), "number": (int, float)}


def _argument_problem(tool: Tool, arguments: object) -> str | None:
    """The problem with the arguments of a call according to the tool's schema, or None if there is none."""
    if not isinstance(arguments, dict):
        return "arguments must be an object"
    for name in tool.required:
        if name not in arguments:
            return f"the argument {name} is missing"
    for name, value in arguments.items():
        type_name = tool.properties.get(name, {}).get("type")
        if type_name and (isinstance(value, bool) or not isinstance(value, _PYTHON_TYPES[type_name])):
            return f"the argument {name} must be of type {type_name}"
    return None


def is_slow(call: Call) -> bool:
    """Whether a request calls a slow tool."""
    tool = TOOLS.get(str(call.params.get("name")))
    return tool is not None and tool.is_slow


def call_tool(call: Call) -> Json:
    """`tools/call`."""
    tool = TOOLS.get(call.required_text("name"))
    if tool is None:
        raise RefusalError(INVALID_PARAMS, f"unknown tool: {call.params['name']}")
    arguments = call.params.get("arguments", {})
    problem = _argument_problem(tool, arguments)
    # In older revisions, wrong arguments are protocol errors; in later ones, they are results for the model to read.
    if problem and call.revision < HANDSHAKE_REVISIONS[-1]:
        raise RefusalError(INVALID_PARAMS, problem)
    try:
        outcome = _raise_tool_error(problem) if problem else tool.run(call, arguments)
    except ToolError as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    text = outcome if isinstance(outcome, str) else json.dumps(outcome)
    result: Json = {"content": [{"type": "text", "text": text}], "isError": False}
    if isinstance(outcome, dict) and call.revision >= INTRODUCED_IN["outputSchema"]:
        result["structuredContent"] = outcome
    return result


def _for_revision(items: list[Json], call: Call) -> list[Json]:
    if "cursor" in call.params:
        raise RefusalError(INVALID_PARAMS, "unknown cursor: every list has one page")
    return [
        {
            name: value
            for name, value in item.items()
            if call.revision >= INTRODUCED_IN.get(name, "") and value is not None
        }
        for item in items
    ]


def list_tools(call: Call) -> Json:
    """`tools/list`."""
    tools = [
        {
            "name": name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": {"type": "object", "properties": tool.properties, "required": list(tool.required)},
            "outputSchema": tool.output,
            "annotations": {"readOnlyHint": True},
        }
        for name, tool in TOOLS.items()
    ]
    return {"tools": _for_revision(tools, call)}


def list_resources(call: Call) -> Json:
    """`resources/list`."""
    notes = [
        {"uri": f"note://{name}", "name": name, "mimeType": "text/plain", "size": len(text.encode())}
        for name, text in NOTES.items()
    ]
    return {"resources": _for_revision(notes, call)}


def list_templates(call: Call) -> Json:
    """`resources/templates/list`."""
    template = {"uriTemplate": "note://{name}", "name": "note", "description": "A note by its name."}
    return {"resourceTemplates": _for_revision([template], call)}


def read_resource(call: Call) -> Json:
    """`resources/read`."""
    uri = call.required_text("uri")
    text = NOTES.get(uri.removeprefix("note://")) if uri.startswith("note://") else None
    if text is None:
        code = INVALID_PARAMS if call.revision in MODERN_REVISIONS else RESOURCE_NOT_FOUND
        raise RefusalError(code, "Resource not found", {"uri": uri})
    return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}


def list_prompts(call: Call) -> Json:
    """`prompts/list`."""
    argument = {"name": "note", "description": "The note's name.", "required": True}
    prompt = {"name": "summarise", "title": "Summarise a note", "arguments": [argument]}
    return {"prompts": _for_revision([prompt], call)}


def get_prompt(call: Call) -> Json:
    """`prompts/get`."""
    if call.required_text("name") != "summarise":
        raise RefusalError(INVALID_PARAMS, f"unknown prompt: {call.params['name']}")
    arguments = call.params.get("arguments")
    note = arguments.get("note") if isinstance(arguments, dict) else None
    if not isinstance(note, str) or note not in NOTES:
        raise RefusalError(INVALID_PARAMS, "the argument note must name a note")
    text = f"Summarise this note in one sentence:\n\n{NOTES[note]}"
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
