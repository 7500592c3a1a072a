"""JSON-RPC messages, one per line.

A file of JSON-RPC messages, one per line, with nothing around them:

    {"jsonrpc":"2.0","id":1,"method":"initialize","params":{…}}
    {"jsonrpc":"2.0","id":1,"result":{…}}

**Where to find it.** There is no standard place. The file may come from a program that appends every message to it, or from `tee`
between a client and its server (`tee in.jsonl | server | tee out.jsonl`), which writes one direction to each file.

**What the capture contains.** The messages in the order of the file. A line that is not JSON is left out; if the last
line is truncated, its frame is partial. If the file has only what a server wrote to stdout, lines that are not JSON are
recorded, too, because they should not be there.

**What is missing.** Times, stderr, and who sent which message. The method decides, and a response comes from the side that did not
send its request. If only one direction was logged, messages that both sides may send are assumed to have that direction.
Import the two files of `tee` one by one: together, every request would come before the first response.
"""

from collections.abc import Iterator

from orjson import JSONDecodeError, loads

from captures.verdict import Direction
from mcpproxy.importers.entries import MAX_SNIFFED_LINES, from_first_entry
from mcpproxy.importers.form import Form
from mcpproxy.importers.guessed_sides import certain_side
from mcpproxy.importers.log_items import LeftOut, LoggedFrame, left_out_if_too_long
from mcpproxy.importers.opening import first_message
from mcpproxy.importers.source import Log, first_lines

_STARTS = (b'{"jsonrpc"', b'[{"jsonrpc"')


def sniff(head: bytes, _file_name: str) -> bool:
    """Returns whether the first line is a message or a batch, or most lines are, after a few lines of text."""
    lines = first_lines(head, MAX_SNIFFED_LINES)
    if lines and _begins_message(lines[0]):
        return True
    return bool(from_first_entry(lines, _begins_message)) and 2 * sum(map(_is_message, lines)) > len(lines)


def _begins_message(line: bytes) -> bool:
    return _is_message(line) or (not line.endswith(b"\n") and line.startswith(_STARTS))


def read(log: Log) -> Iterator[LoggedFrame | LeftOut]:
    """Read a log."""
    side: Direction | None = "s2c" if _is_server_stdout(log.head) else None
    for number, line in log.lines():
        if left_out := left_out_if_too_long(number, line):
            yield left_out
        elif _is_message(line):
            yield LoggedFrame(log.name, side, line)
        elif line.startswith(_STARTS) and not line.endswith(b"\n"):
            yield LoggedFrame(log.name, side, line, is_whole=False)
        elif side is not None:
            yield LoggedFrame(log.name, side, line)
        else:
            yield LeftOut(f"line {number}", "expected a JSON-RPC message", is_message=b"jsonrpc" in line)


def _is_server_stdout(head: bytes) -> bool:
    """Whether a log is only the stdout of a server: it has responses, but not their requests or other client messages."""
    messages = [first_message(line) for line in first_lines(head, MAX_SNIFFED_LINES) if _is_message(line)]
    request_ids = {repr(message["id"]) for message in messages if "method" in message and "id" in message}
    response_ids = {repr(message.get("id")) for message in messages if "method" not in message}
    has_client_message = any(certain_side(message.get("method")) == "c2s" for message in messages)
    return bool(response_ids) and not has_client_message and not response_ids & request_ids


def _is_message(line: bytes) -> bool:
    try:
        value = loads(line)
    except JSONDecodeError:
        return False
    message = value[0] if isinstance(value, list) and value else value
    return isinstance(message, dict) and "jsonrpc" in message


FORM = Form(
    title="a file with one JSON-RPC message per line",
    sniff=sniff,
    read=read,
    limitation="this format has no times, and directions are guessed",
)
