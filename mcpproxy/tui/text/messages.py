"""Messages as text: what a request asks for, what a result contains, what an error reports."""

from typing import Any, Final

from analysis.conversation.call import Outcome
from captures.record import Record
from mcpproxy.sanitise import sanitise
from mcpproxy.tui.text.content import MAX_WORD_CHARS, MessageWriter
from mcpproxy.tui.text.definitions import write_definition
from mcpproxy.tui.text.lines import TextLimitReached
from mcpproxy.tui.text.values import INDENT, write_value
from mcpproxy.wording.exact_json import MAX_PARSED_VALUES, Pairs, is_array, member, members_without, parse, scalar
from mcpproxy.wording.gists import log_source, progress_text
from mcpproxy.wording.records import remark_on
from mcpproxy.wording.spans import Role
from mcpproxy.wording.statuses import error_word, outcome_status

MAX_BATCH_MESSAGES: Final = 1000
"""The maximum number of messages of a batch that are written."""

_ERROR_LEVELS: Final = frozenset(("error", "critical", "alert", "emergency"))


def write_frame(writer: MessageWriter, raw: bytes) -> None:
    """Write the readable content of a frame; never raises."""
    if sum(map(raw.count, (b"[", b"{", b","))) > MAX_PARSED_VALUES:
        write_raw(writer, raw)
        return
    try:
        value = parse(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        write_raw(writer, raw)
        return
    try:
        if is_array(value):
            for number, message in enumerate(value[:MAX_BATCH_MESSAGES], 1):
                writer.lines.write_line(f"message {number:,} of {len(value):,}", "dim")
                _write_message(writer, message)
            if len(value) > MAX_BATCH_MESSAGES:
                raise TextLimitReached
            return
        _write_message(writer, value)
        if b'"_meta"' in raw and b'"tools"' not in raw:
            writer.lines.write_line("_meta is in pretty", "dim")
    except TextLimitReached:
        writer.lines.write_cut_notice()


def record_value(record: Record) -> Any:
    """The members of a record as `parse` returns them, without its checksum."""
    import json

    members = {name: value for name, value in record.members.items() if name != "crc"}
    return parse(json.dumps(members, ensure_ascii=False, default=str))


def write_record(writer: MessageWriter, record: Record) -> None:
    """Write a record that is not a frame: a sentence about it, and its members."""
    remark = remark_on(record, ended=False)
    try:
        if remark is not None:
            writer.lines.write_line(remark.text, remark.role)
        write_value(writer.lines, record_value(record))
    except TextLimitReached:
        writer.lines.write_cut_notice()


def write_raw(writer: MessageWriter, raw: bytes) -> None:
    """Write bytes that are not JSON, such as a line of stderr."""
    try:
        writer.lines.write_foreign(raw.decode("utf-8", "backslashreplace"))
        if not raw:
            writer.lines.write_line("no bytes", "dim")
    except TextLimitReached:
        writer.lines.write_cut_notice()


def write_tool(writer: MessageWriter, tool: Any) -> None:
    """Write a definition from a list of tools."""
    try:
        write_definition(writer.lines, tool)
    except TextLimitReached:
        writer.lines.write_cut_notice()
    writer.lines.insert_warning()


def _write_message(writer: MessageWriter, value: Any) -> None:
    names = {name for name, _ in value} if isinstance(value, Pairs) else set()
    method = member(value, "method")
    if isinstance(method, str):
        _write_request(writer, method, member(value, "params"), is_request="id" in names)
        written_names = ["method", "params"]
    elif "error" in names and (member(value, "error") is not None or "result" not in names):
        _write_error(writer, member(value, "error"))
        written_names = ["error"]
    elif "result" in names:
        _write_result(writer, member(value, "result"))
        written_names = ["result"]
    elif isinstance(value, str):
        writer.lines.write_foreign(value)
        return
    else:
        write_value(writer.lines, value)
        return
    other_members = members_without(value, "jsonrpc", "id", *written_names)
    if other_members:
        writer.lines.write_line("besides", "dim")
        write_value(writer.lines, other_members)


# ---- requests and notifications


def _write_request(writer: MessageWriter, method: str, params: Any, *, is_request: bool) -> None:
    lines = writer.lines
    head = sanitise(method, MAX_WORD_CHARS)
    name = member(params, "name")
    if method in ("tools/call", "prompts/get") and isinstance(name, str):
        lines.write_labelled(head, name)
        arguments = member(params, "arguments")
        written_names = ["name"]
        if isinstance(arguments, Pairs):
            written_names.append("arguments")
            write_value(lines, arguments, INDENT, in_full=True) if arguments else lines.write_line(
                "no arguments", "dim", INDENT
            )
        writer.write_other_members(params, *written_names, indent=INDENT)
    elif method == "notifications/message" and isinstance(params, Pairs):
        _write_log(writer, params)
    elif method == "notifications/progress" and isinstance(params, Pairs):
        _write_progress(writer, params)
    elif method == "sampling/createMessage" and isinstance(member(params, "messages"), list):
        lines.write_line(head, "accent")
        writer.write_other_members(params, "messages", indent=INDENT)
        writer.write_turns(member(params, "messages"), INDENT)
    else:
        lines.write_line(head, "accent")
        if members_without(params, "_meta") if isinstance(params, Pairs) else params is not None:
            write_value(lines, params, INDENT)
        elif is_request:
            lines.write_line("without parameters", "dim", INDENT)


def _write_log(writer: MessageWriter, params: Pairs) -> None:
    source, data = _scalars(params, "level", "logger"), member(params, "data")
    role: Role = "bad" if source.get("level") in _ERROR_LEVELS else "plain"
    writer.lines.write_labelled("notifications/message", log_source(source), 0, role)
    if isinstance(data, str):
        writer.write_text(data, INDENT)
    else:
        write_value(writer.lines, data, INDENT, in_full=True)
    written_names = [name for name, value in source.items() if isinstance(value, str)]
    writer.write_other_members(params, *written_names, "data", indent=INDENT)


def _write_progress(writer: MessageWriter, params: Pairs) -> None:
    done, total, text = member(params, "progress"), member(params, "total"), member(params, "message")
    progress = _scalars(params, "progress", "total")
    words, written_names = progress_text(progress), [*progress]
    if isinstance(done, float) and isinstance(total, float) and 0 <= done <= total and total > 0:
        words += f" ({done / total:.0%})"
    writer.lines.write_labelled("notifications/progress", words)
    if isinstance(text, str):
        written_names.append("message")
        writer.write_text(text, INDENT)
    writer.write_other_members(params, *written_names, indent=INDENT)


def _scalars(value: Pairs, *names: str) -> dict[str, Any]:
    """The members with these names that are neither objects nor arrays, as the wording functions need them."""
    return {name: inner for name, inner in value if name in names and not isinstance(member(value, name), list)}


# ---- responses


def _write_error(writer: MessageWriter, error: Any) -> None:
    if not isinstance(error, Pairs):
        writer.lines.write_labelled("error", scalar(error), 0, "bad")
        if isinstance(error, list) and error:
            write_value(writer.lines, error, INDENT)
        return
    text = member(error, "message")
    code = _scalars(error, "code")
    writer.lines.write_line(error_word(code), "bad")
    written_names = [*code]
    if isinstance(text, str):
        written_names.append("message")
        writer.lines.write_foreign(text)
    other_members = members_without(error, *written_names, "_meta")
    data = member(other_members, "data")
    if isinstance(data, str) and len(other_members) == 1:
        writer.lines.write_line("data", "dim")
        writer.write_text(data, INDENT)
    elif other_members:
        write_value(writer.lines, other_members)


def _write_result(writer: MessageWriter, result: Any) -> None:
    if not isinstance(result, Pairs):
        write_value(writer.lines, result)
        return
    names = {name for name, _ in result}
    content = member(result, "content")
    if "role" in names and content is not None:
        writer.write_turns(result)  # from a model: one message
        return
    written_names = _write_lead(writer, result)
    if "content" in names:
        written_names.append("content")
        if content:
            writer.write_blocks(content)
        else:
            writer.lines.write_line("no content", "dim")
    if "structuredContent" in names:
        written_names.append("structuredContent")
        writer.write_structured(member(result, "structuredContent"), content)
    written_names += _write_parts(writer, result)
    other_members = members_without(result, *written_names, "_meta")
    if other_members:
        write_value(writer.lines, other_members)
    elif not written_names:
        writer.lines.write_line("an empty result", "dim")


def _write_lead(writer: MessageWriter, result: Pairs) -> list[str]:
    """Write what comes before the content; returns the names of the members that were written."""
    written_names = []
    if type(member(result, "isError")) is bool:
        written_names.append("isError")
        if member(result, "isError"):
            writer.lines.write_line(outcome_status(Outcome.TOOL_ERROR).word, "bad")
    if isinstance(member(result, "description"), str) and member(result, "messages") is not None:
        writer.lines.write_foreign(member(result, "description"), 0, "dim")
        written_names.append("description")
    return written_names


def _write_parts(writer: MessageWriter, result: Pairs) -> list[str]:
    """Write contents of resources, definitions of tools, messages of prompts; returns the names of these members."""
    written_names = []
    for name, write in (
        ("contents", _write_contents),
        ("tools", _write_listed_tool),
        ("messages", MessageWriter.write_turns),
    ):
        parts = member(result, name)
        if is_array(parts):
            written_names.append(name)
            for part in parts:
                write(writer, part)
            if not parts:
                writer.lines.write_line(f"no {name}", "dim")
    return written_names


def _write_contents(writer: MessageWriter, resource: Any) -> None:
    writer.write_resource(resource)


def _write_listed_tool(writer: MessageWriter, tool: Any) -> None:
    name = member(tool, "name")
    writer.lines.write_labelled(f"{scalar(name)}", "")
    if isinstance(tool, Pairs):
        write_definition(writer.lines, tool, INDENT)
    else:
        write_value(writer.lines, tool, INDENT)
    writer.lines.write_line("")
