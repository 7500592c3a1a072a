"""JSON-RPC messages, one per line.

A file of JSON-RPC messages, one per line, with nothing around them:

    {"jsonrpc":"2.0","id":1,"method":"initialize","params":{…}}
    {"jsonrpc":"2.0","id":1,"result":{…}}

**Where to find it.** In a file to which a program appends every message, or `tee` between a client and its server
(`tee in.jsonl | server | tee out.jsonl`), which writes one direction to each file. There is no standard place.

**What the capture contains.** The messages in the order of the file. A line that is not JSON is left out; if the last
line is truncated, its frame is partial.

**What is missing.** Times, stderr, and who sent which message: its method decides, and a response comes from the side that did not
send its request. If only one direction was logged, messages that both sides may send are assumed to have that direction.
"""

from collections.abc import Iterator

from orjson import JSONDecodeError, loads

from mcpproxy.importers.form import Form
from mcpproxy.importers.log_items import LeftOut, LoggedFrame
from mcpproxy.importers.source import MAX_INPUT_LINE_BYTES, Log, first_lines

_STARTS = (b'{"jsonrpc"', b'[{"jsonrpc"')


def sniff(head: bytes, _file_name: str) -> bool:
    """Whether the first line is a message, or an array of messages."""
    line = next(iter(first_lines(head)), b"")
    return _is_message(line) or (not line.endswith(b"\n") and line.startswith(_STARTS))


def read(log: Log) -> Iterator[LoggedFrame | LeftOut]:
    """Reads a log."""
    for number, line in log.lines():
        if len(line) > MAX_INPUT_LINE_BYTES:
            yield LeftOut(f"line {number}", f"longer than {MAX_INPUT_LINE_BYTES >> 20} MiB")
        elif _is_message(line):
            yield LoggedFrame(log.name, None, line)
        elif line.startswith(_STARTS) and not line.endswith(b"\n"):
            yield LoggedFrame(log.name, None, line, is_whole=False)
        else:
            yield LeftOut(f"line {number}", "expected a JSON-RPC message")


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
    lacks="this format has no times, and directions are guessed",
)
