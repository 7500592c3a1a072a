"""Conversations of `tests/corpus/comparisons`, and edits that plant a change in them.

A conversation is a file with a message on each line, as `{"label": …, "dir": …, "message": …}`. In the text of a
content block, `$structuredContent` stands for the structured content as JSON, which servers repeat there. `t` is the
time in milliseconds, also of all messages below it. Over HTTP, each request is an exchange; `stream` says that it is
answered with a stream of events.

An edit is one of these objects:

- `{"in": label, "at": pointer, "value": …}` sets a member or item; `-` as the last step appends an item. Without
  `value`, the member or item is removed.
- `{"put": message, "dir": …, "after": label}` adds a message; `{"drop": label}` leaves one out.
- `{"move": [label, …], "after": label}` moves messages.
"""

import copy
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from analysis.protocol.json_pointer import decode_steps
from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases

FOLDER: Final = Path(__file__).parents[2] / "corpus" / "comparisons"
TRANSPORTS: Final = ("stdio", "http")
"""Each is also the name of a conversation: one of 2025-11-25 on stdio, and one of 2026-07-28 over HTTP."""
MIRROR: Final = "$structuredContent"
Line = dict[str, Any]


def rows(name: str) -> list[dict[str, Any]]:
    """Returns the lines of a file of the folder."""
    return [json.loads(line) for line in (FOLDER / f"{name}.ndjson").read_text(encoding="utf-8").splitlines()]


def edited(conversation: Sequence[Line], edits: Sequence[dict[str, Any]]) -> list[Line]:
    """Returns a copy of a conversation with the edits."""
    lines = copy.deepcopy([*conversation])
    for edit in edits:
        if "in" in edit:
            edit_value(lines[_position(lines, edit["in"])]["message"], edit)
        elif "drop" in edit:
            del lines[_position(lines, edit["drop"])]
        elif "put" in edit:
            line = {"label": "put", "dir": edit["dir"], "message": edit["put"]}
            lines.insert(_position(lines, edit["after"]) + 1, line)
        else:
            moved = [lines.pop(_position(lines, label)) for label in edit["move"]]
            position = _position(lines, edit["after"]) + 1
            lines[position:position] = moved
    return lines


def edit_value(value: Any, edit: dict[str, Any]) -> None:
    """Set, append or remove what the edit is about, in place."""
    *parents, last = decode_steps(edit["at"])
    for step in parents:
        value = value[int(step) if isinstance(value, list) else step]
    if isinstance(value, list) and last == "-":
        value.append(edit["value"])
        return
    place = int(last) if isinstance(value, list) else last
    if "value" in edit:
        value[place] = copy.deepcopy(edit["value"])
    else:
        del value[place]


def write(path: Path, conversation: Sequence[Line], transport: str) -> Path:
    """Write a capture of a conversation; returns its path."""
    frames = _stdio_frames(conversation) if transport == "stdio" else _http_frames(conversation)
    trace = {"name": path.stem, "transport": transport, "start_observed": True, "frames": [*frames]}
    (case,) = cases([json.dumps(trace).encode()])
    assert isinstance(case, Case), case
    path.write_bytes(b"".join(line.rstrip(b"\n") + b"\n" for _, line in case.records()))
    return path


def _position(lines: Sequence[Line], label: str) -> int:
    (position,) = (number for number, line in enumerate(lines) if line["label"] == label)
    return position


def _body(line: Line) -> str:
    message = copy.deepcopy(line["message"])
    result = message.get("result")
    if isinstance(result, dict) and isinstance(content := result.get("content"), list):
        for block in content:
            if isinstance(block, dict) and block.get("text") == MIRROR:
                block["text"] = json.dumps(result.get("structuredContent"))
    return json.dumps(message)


def _stdio_frames(conversation: Sequence[Line]) -> Iterator[dict[str, Any]]:
    at_ms = 0
    for line in conversation:
        at_ms = line.get("t", at_ms)
        yield {"t": at_ms, "dir": line["dir"], "raw": _body(line)}
    yield {"t": at_ms, "dir": "c2s", "raw": "", "k": "eof"}


def _http_frames(conversation: Sequence[Line]) -> Iterator[dict[str, Any]]:
    exchange, streams = 0, False
    for line in conversation:
        body, is_response = _body(line), "method" not in line["message"]
        if line["dir"] == "c2s":
            exchange, streams = exchange + 1, line.get("stream", False)
            yield {"dir": "c2s", "k": "req", "x": exchange, "raw": f"{_request_head(line['message'])}{body}"}
            if streams:
                head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Accel-Buffering: no\r\n\r\n"
                yield {"dir": "s2c", "k": "head", "x": exchange, "raw": head}
        elif streams:
            yield {"dir": "s2c", "k": "sse", "x": exchange, "raw": f"data: {body}\n\n"}
            if is_response:
                yield {"dir": "s2c", "k": "end", "x": exchange, "by": "server"}
        else:
            head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
            yield {"dir": "s2c", "k": "res", "x": exchange, "raw": f"{head}{body}"}


def _request_head(message: dict[str, Any]) -> str:
    params = message["params"]
    lines = [
        "POST /mcp HTTP/1.1",
        "Host: 127.0.0.1:8000",
        "Accept: application/json, text/event-stream",
        "Content-Type: application/json",
        "MCP-Protocol-Version: 2026-07-28",
        f"Mcp-Method: {message['method']}",
    ]
    name = params.get("name", params.get("uri"))
    return "\r\n".join([*lines, *([f"Mcp-Name: {name}"] if name else []), "", ""])
