"""Frames, one per line.

The file contains one conversation over stdio, of any length. A few lines of code can write it:

    {"t":1795169702000000000,"dir":"c2s","raw":"{\\"jsonrpc\\":\\"2.0\\",\\"id\\":1,\\"method\\":\\"ping\\"}"}

| member | meaning |
|---|---|
| `t` | Whole nanoseconds, never less than in the line above: since the start, or, if 10^18 or more, since 1970 |
| `dir` | `c2s` from the client, `s2c` from the server |
| `raw` | The text of the line on the wire, without its LF |
| `raw_b64` | Instead of `raw`, if the line is not UTF-8: the same in base64 |

**Where to find it.** Wherever your own logger writes it. No other format that `import` reads is simpler to write.

**What the capture contains.** The bytes and times of the frames, exactly. The client's first message decides whether
the start of the session was observed. It was, if that message is `initialize`, `server/discover`, or any request with
the protocol version in its `_meta`. Otherwise the start of the session counts as not observed (`observed_start` is false), and rules with the
[mark S](../commands/rule.md#marks) report nothing: what `check` would report as missing may have come before. The same applies
if the client sends nothing within the first 1,000 frames or the first MiB.

**What is missing.** Stderr, and how the server ended. If any line is invalid, nothing is imported.
"""

from collections.abc import Iterator

from mcpproxy.importers.capture_lines import MAX_STAMP_NS
from mcpproxy.importers.form import Form
from mcpproxy.importers.log_items import LoggedFrame
from mcpproxy.importers.source import InvalidLine, Log, first_object, object_of, raw_of


def sniff(head: bytes, _file_name: str) -> bool:
    """Returns whether the first line is a frame."""
    values = first_object(head)
    return {"t", "dir"} <= values.keys() and type(values["t"]) is int and bool({"raw", "raw_b64"} & values.keys())


def read(log: Log) -> Iterator[LoggedFrame]:
    """Read a log.

    Raises:
        InvalidLine: a line is not a frame.
    """
    previous_ns = -1
    for number, line in log.lines():
        try:
            values = object_of(line)
            t_ns, side, raw = values.get("t"), values.get("dir"), raw_of(values)
            if type(t_ns) is not int or not 0 <= t_ns < MAX_STAMP_NS:
                raise InvalidLine("expected whole nanoseconds in `t`")
            if side not in ("c2s", "s2c"):
                raise InvalidLine("expected `c2s` or `s2c` in `dir`")
            if t_ns < previous_ns:
                raise InvalidLine("`t` is earlier than in the line above")
        except InvalidLine as error:
            raise InvalidLine(f"line {number}: {error}") from None
        previous_ns = t_ns
        yield LoggedFrame(log.name, side, raw, t_ns)
    if previous_ns < 0:
        raise InvalidLine("expected lines such as " + '{"t":0,"dir":"c2s","raw":"{}"}')


FORM = Form(title="a file with one frame per line", sniff=sniff, read=read, is_strict=True, is_verbatim=True)
