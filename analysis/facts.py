"""Facts about a message that are not among its attributes, with a function for each: its name, error, kind, bytes.

They accept any JSON in any place, and return None or yield nothing if a value is not valid. All text is untrusted. The
outcome of a request is an attribute of its `Call`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from analysis.conversation.message import InvalidMessage, Message, Notification, Request, Response
from captures.frame import Frame
from captures.verdict import Kind


def target_name(params: Any) -> str | None:
    """The tool, prompt or URI that params name, directly or in a reference, or None if the name is missing or empty."""
    if not isinstance(params, dict):
        return None
    name = params.get("name")
    if isinstance(name, str):
        return name or None  # the usual case
    reference = params.get("ref")
    for container in (params, reference if isinstance(reference, dict) else {}):
        for member in ("name", "uri"):
            value = container.get(member)
            if isinstance(value, str):
                return value or None
    return None


# ---- errors


def is_tool_error(response: Response) -> bool:
    """Whether a response is the result of a tool that failed."""
    result = response.result
    return isinstance(result, dict) and result.get("isError") is True and not response.is_error


def is_error(message: Message) -> bool:
    """Whether a message is a JSON-RPC error, or the result of a tool that failed."""
    return isinstance(message, Response) and (message.is_error or is_tool_error(message))


def code_of(message: Message) -> int | None:
    """The code of a JSON-RPC error."""
    error = message.error if isinstance(message, Response) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if type(code) is int else None


def text_of_error(message: Message) -> str | None:
    """The `message` of a JSON-RPC error."""
    error = message.error if isinstance(message, Response) else None
    text = error.get("message") if isinstance(error, dict) else None
    return text if isinstance(text, str) else None


def texts_in(result: Any) -> Iterator[str]:
    """The texts in the content of a tool's result; if the tool failed, the first one says why."""
    content = result.get("content") if isinstance(result, dict) else None
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            yield block["text"]


# ---- kind, problem, bytes


def kind_of(message: Message) -> Kind:
    """The kind of a message by itself."""
    if isinstance(message, Request):
        return "request"
    if isinstance(message, Notification):
        return "notification"
    if isinstance(message, Response):
        return "error" if message.is_error else "response"
    return "unjudged" if message.reason == "unjudged" else "invalid"


def problem_of(message: Message) -> str | None:
    """The rule that a message breaks by itself; a problem of its batch is reported for the batch."""
    frame = message.frames[0]
    if frame.is_ignored:
        return None
    reason = message.reason if isinstance(message, InvalidMessage) and message.reason != "unjudged" else None
    return reason if frame.verdict.kind == "batch" else frame.problem or reason


def raw_of(frames: Sequence[Frame]) -> bytes:
    """The bytes of a message's frames; if it spans several lines, with the line feeds between them."""
    return frames[0].raw if len(frames) == 1 else b"\n".join([frame.raw for frame in frames])


def size_of(frames: Sequence[Frame]) -> int:
    """The total size of a message's frames, in bytes."""
    return len(frames[0].raw) if len(frames) == 1 else sum([len(frame.raw) for frame in frames])
