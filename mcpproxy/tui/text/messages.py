"""Messages as text: what a request asks for, what a result says, what is wrong in an error."""

from typing import Any, Final

from analysis.conversation.call import Outcome
from captures.record import Record
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.text.content import WORD, MessageWriter
from mcpproxy.tui.text.definitions import write_definition
from mcpproxy.tui.text.lines import TextLimitReached
from mcpproxy.tui.text.values import STEP, write_value
from mcpproxy.wording.exact_json import MAX_PARSED_VALUES, Pairs, is_array, member, parse, scalar, without
from mcpproxy.wording.gists import log_source, progress_text
from mcpproxy.wording.records import remark_on
from mcpproxy.wording.spans import Role
from mcpproxy.wording.statuses import error_word, verdict

MAX_BATCH_MESSAGES: Final = 1000
"""How many messages of one batch are written."""

_LOUD: Final = frozenset(("error", "critical", "alert", "emergency"))


def write_frame(writing: MessageWriter, raw: bytes) -> None:
    """Write the readable content of a frame; never raises."""
    if sum(map(raw.count, (b"[", b"{", b","))) > MAX_PARSED_VALUES:
        write_raw(writing, raw)
        return
    try:
        value = parse(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        write_raw(writing, raw)
        return
    try:
        if is_array(value):
            for number, part in enumerate(value[:MAX_BATCH_MESSAGES], 1):
                writing.lines.write_line(f"message {number:,} of {len(value):,}", "dim")
                _message(writing, part)
            if len(value) > MAX_BATCH_MESSAGES:
                raise TextLimitReached
            return
        _message(writing, value)
        if b'"_meta"' in raw and b'"tools"' not in raw:
            writing.lines.write_line("_meta is in pretty", "dim")
    except TextLimitReached:
        writing.lines.cut()


def record_value(record: Record) -> Any:
    """The members of a record as `parse` returns them, without its checksum."""
    import json

    members = {name: value for name, value in record.members.items() if name != "crc"}
    return parse(json.dumps(members, ensure_ascii=False, default=str))


def write_record(writing: MessageWriter, record: Record) -> None:
    """Write a record that is not a frame: a sentence, and its members."""
    remark = remark_on(record, ended=False)
    try:
        if remark is not None:
            writing.lines.write_line(remark.text, remark.role)
        write_value(writing.lines, record_value(record))
    except TextLimitReached:
        writing.lines.cut()


def write_raw(writing: MessageWriter, raw: bytes) -> None:
    """Write bytes that are not JSON, such as a line of stderr."""
    try:
        writing.lines.foreign(raw.decode("utf-8", "backslashreplace"))
        if not raw:
            writing.lines.write_line("no bytes", "dim")
    except TextLimitReached:
        writing.lines.cut()


def write_tool(writing: MessageWriter, tool: Any) -> None:
    """Write a definition from a list of tools."""
    try:
        write_definition(writing.lines, tool)
    except TextLimitReached:
        writing.lines.cut()
    writing.lines.warn()


def _message(writing: MessageWriter, value: Any) -> None:
    names = {name for name, _ in value} if isinstance(value, Pairs) else set()
    method = member(value, "method")
    if isinstance(method, str):
        _call(writing, method, member(value, "params"), is_request="id" in names)
        said = ["method", "params"]
    elif "error" in names and (member(value, "error") is not None or "result" not in names):
        _error(writing, member(value, "error"))
        said = ["error"]
    elif "result" in names:
        _result(writing, member(value, "result"))
        said = ["result"]
    elif isinstance(value, str):
        writing.lines.foreign(value)
        return
    else:
        write_value(writing.lines, value)
        return
    rest = without(value, "jsonrpc", "id", *said)
    if rest:
        writing.lines.write_line("besides", "dim")
        write_value(writing.lines, rest)


# ---- requests and notifications


def _call(writing: MessageWriter, method: str, params: Any, *, is_request: bool) -> None:
    lines = writing.lines
    head = sanitise(method, WORD)
    name = member(params, "name")
    if method in ("tools/call", "prompts/get") and isinstance(name, str):
        lines.labelled(head, name)
        arguments = member(params, "arguments")
        names = ["name"]
        if isinstance(arguments, Pairs):
            names.append("arguments")
            write_value(lines, arguments, STEP, in_full=True) if arguments else lines.write_line(
                "no arguments", "dim", STEP
            )
        writing.rest(params, *names, indent=STEP)
    elif method == "notifications/message" and isinstance(params, Pairs):
        _log(writing, params)
    elif method == "notifications/progress" and isinstance(params, Pairs):
        _progress(writing, params)
    elif method == "sampling/createMessage" and isinstance(member(params, "messages"), list):
        lines.write_line(head, "accent")
        writing.rest(params, "messages", indent=STEP)
        writing.turns(member(params, "messages"), STEP)
    else:
        lines.write_line(head, "accent")
        if without(params, "_meta") if isinstance(params, Pairs) else params is not None:
            write_value(lines, params, STEP)
        elif is_request:
            lines.write_line("without parameters", "dim", STEP)


def _log(writing: MessageWriter, params: Pairs) -> None:
    source, data = _scalars(params, "level", "logger"), member(params, "data")
    role: Role = "bad" if source.get("level") in _LOUD else "plain"
    writing.lines.labelled("notifications/message", log_source(source), 0, role)
    if isinstance(data, str):
        writing.text(data, STEP)
    else:
        write_value(writing.lines, data, STEP, in_full=True)
    said = [name for name, value in source.items() if isinstance(value, str)]
    writing.rest(params, *said, "data", indent=STEP)


def _progress(writing: MessageWriter, params: Pairs) -> None:
    done, total, text = member(params, "progress"), member(params, "total"), member(params, "message")
    far = _scalars(params, "progress", "total")
    words, names = progress_text(far), [*far]
    if isinstance(done, float) and isinstance(total, float) and 0 <= done <= total and total > 0:
        words += f" ({done / total:.0%})"
    writing.lines.labelled("notifications/progress", words)
    if isinstance(text, str):
        names.append("message")
        writing.text(text, STEP)
    writing.rest(params, *names, indent=STEP)


def _scalars(value: Pairs, *names: str) -> dict[str, Any]:
    """The members with these names that are neither objects nor arrays, as the wording functions need them."""
    return {name: inner for name, inner in value if name in names and not isinstance(member(value, name), list)}


# ---- responses


def _error(writing: MessageWriter, error: Any) -> None:
    if not isinstance(error, Pairs):
        writing.lines.labelled("error", scalar(error), 0, "bad")
        if isinstance(error, list) and error:
            write_value(writing.lines, error, STEP)
        return
    text = member(error, "message")
    code = _scalars(error, "code")
    writing.lines.write_line(error_word(code), "bad")
    names = [*code]
    if isinstance(text, str):
        names.append("message")
        writing.lines.foreign(text)
    rest = without(error, *names, "_meta")
    data = member(rest, "data")
    if isinstance(data, str) and len(rest) == 1:
        writing.lines.write_line("data", "dim")
        writing.text(data, STEP)
    elif rest:
        write_value(writing.lines, rest)


def _result(writing: MessageWriter, result: Any) -> None:
    if not isinstance(result, Pairs):
        write_value(writing.lines, result)
        return
    names = {name for name, _ in result}
    content = member(result, "content")
    if "role" in names and content is not None:
        writing.turns(result)  # from a model: one message
        return
    said = _lead(writing, result)
    if "content" in names:
        said.append("content")
        if content:
            writing.blocks(content)
        else:
            writing.lines.write_line("no content", "dim")
    if "structuredContent" in names:
        said.append("structuredContent")
        writing.structured(member(result, "structuredContent"), content)
    said += _parts(writing, result)
    rest = without(result, *said, "_meta")
    if rest:
        write_value(writing.lines, rest)
    elif not said:
        writing.lines.write_line("an empty result", "dim")


def _lead(writing: MessageWriter, result: Pairs) -> list[str]:
    """Write what comes before the content; returns the members that it covers."""
    said = []
    if type(member(result, "isError")) is bool:
        said.append("isError")
        if member(result, "isError"):
            writing.lines.write_line(verdict(Outcome.TOOL_ERROR).word, "bad")
    if isinstance(member(result, "description"), str) and member(result, "messages") is not None:
        writing.lines.foreign(member(result, "description"), 0, "dim")
        said.append("description")
    return said


def _parts(writing: MessageWriter, result: Pairs) -> list[str]:
    """Write contents of resources, definitions of tools, messages of a prompt; returns the members that it covers."""
    said = []
    for name, write in (("contents", _contents), ("tools", _tool), ("messages", MessageWriter.turns)):
        parts = member(result, name)
        if is_array(parts):
            said.append(name)
            for part in parts:
                write(writing, part)
            if not parts:
                writing.lines.write_line(f"no {name}", "dim")
    return said


def _contents(writing: MessageWriter, part: Any) -> None:
    writing.resource(part)


def _tool(writing: MessageWriter, tool: Any) -> None:
    name = member(tool, "name")
    writing.lines.labelled(f"{scalar(name)}", "")
    if isinstance(tool, Pairs):
        write_definition(writing.lines, tool, STEP)
    else:
        write_value(writing.lines, tool, STEP)
    writing.lines.write_line("")
