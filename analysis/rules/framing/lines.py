"""Lines and bodies as bytes, before they are parsed as messages."""

import re
from collections.abc import Iterator
from typing import Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Message
from analysis.facts import size_of
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.odd import LARGE_FRAME_BYTES, MessageOddity
from analysis.rules.support.message_text import (
    BOM,
    NOT_JSON,
    SEVERAL_MESSAGES,
    AnyFrameRule,
    FrameRule,
    is_value,
    reason,
)

_MAX_SEARCHED_BYTES: Final = 4096
"""The most bytes of a line that are used to guess its kind."""
_MAX_LSP_HEADER_BYTES: Final = 100
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_CLOSING_HEADER: Final = re.compile(rb"[}\]][ \t\r]*Content-Length:[ \t]*[0-9]+[ \t\r]*\Z", re.IGNORECASE)
_CONTENT_TYPE: Final = re.compile(rb"[ \t]*Content-Type:", re.IGNORECASE)

_LINE_KINDS: Final = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("coloured output for a terminal", r"[^\x1b]*\x1b\["),
        ("a stack trace", r"Traceback \(most recent|\s+at \S|\s+File \"|panic: |goroutine \d|thread '"),
        ("a notice of a debugger", r"(?i)debugger (?:listening|attached|is)|for the debugger|for help, see: https?://"),
        (
            "output of a package manager",
            r"(?i)(?:npm|npx|yarn|pnpm|bun|pip|uv)\b|> \S+@\S+ |(?:added|installed) \d+ pack",
        ),
        (
            "a log line",
            r"\W*(?i:trace|debug|info|notice|warn(?:ing)?|error|fatal|critical)\b|\W*\d{4}-\d\d-\d\d|\W*\d\d:\d\d:",
        ),
        ("JSON that is cut off or mistyped", r"\s*[{\[]"),
    )
)


class InvalidUtf8(FrameRule):
    r"""A line, a body or the data of an event is not UTF-8.

    **Why it matters.** The receiver refuses the bytes, or reads different characters.

    **On the wire.** `< {"jsonrpc":"2.0","id":1,"result":{"name":"caf\xe9"}}` in Latin-1

    **Instead.** Write UTF-8, and set the encoding of the standard streams: the default is often a different one.
    """

    id = "framing/invalid-utf8"
    needs_bytes = True
    source = "2025-03-26 basic/transports; 2026-07-28 basic/transports/index"

    def check_frame(self, context: MessageContext) -> Iterator[Finding]:
        if reason(context.message) == self.id:
            raw = context.message.frames[0].raw
            yield self.frame_finding(context, f"the bytes are not UTF-8{', but UTF-16' if _is_utf_16(raw) else ''}")


class Bom(AnyFrameRule):
    """A message begins with a byte order mark.

    **Why it matters.** RFC 8259 does not allow it. Strict parsers fail at its first byte; others strip it.

    **On the wire.** The bytes `EF BB BF` before `{"jsonrpc":"2.0",…}`

    **Instead.** Write UTF-8 without a byte order mark; in .NET `new UTF8Encoding(false)`.
    """

    id = "framing/bom"
    needs_bytes = True
    oddities = MessageOddity.ENVELOPE
    level = WARNING
    once = True
    source = "RFC 8259 §8.1"

    def check_frame(self, context: MessageContext) -> Iterator[Finding]:
        if context.message.frames[0].raw.startswith(BOM) and reason(context.message) != "framing/invalid-utf8":
            yield self.frame_finding(context, "the message begins with a byte order mark")


class _NotJsonRule(FrameRule):
    """The base class of the two rules about lines that are not JSON."""

    stream = ""
    """The name of the standard stream."""

    def check_frame(self, context: MessageContext) -> Iterator[Finding]:
        message = context.message
        raw = message.frames[0].raw
        header_senders: set[str] = self.state_for(context.session, set)
        if _has_lsp_header(message):
            header_senders.add(message.sender)
        elif reason(message) == self.id and not (message.sender in header_senders and _CONTENT_TYPE.match(raw)):
            yield self.frame_finding(context, f"a line on {self.stream} is not JSON; it looks like {_line_kind(raw)}")


class StdoutNotJson(_NotJsonRule):
    """The server writes a line to its standard output that is not JSON.

    **Why it matters.** That stream is for messages only. Clients log an error for each such line, and some give up.
    Text without a line feed makes the next message unreadable as well.

    **On the wire.** `< Server running on stdio`

    **Instead.** Write logs to standard error, or send `notifications/message`. Look for `print`, `console.log`, and
    libraries that print a greeting.
    """

    id = "framing/stdout-not-json"
    who = "server"
    impact = Impact.CONNECTION
    source = "2024-11-05 basic/transports (stdio)"
    stream = "stdout"


class StdinNotJson(_NotJsonRule):
    """The client writes a line to the server's standard input that is not JSON.

    **Why it matters.** The server cannot answer it, and may consider the stream broken.

    **On the wire.** `> hello`

    **Instead.** Write only JSON-RPC messages, one per line.
    """

    id = "framing/stdin-not-json"
    needs_bytes = True
    who = "client"
    impact = Impact.CONNECTION
    source = "2024-11-05 basic/transports (stdio)"
    stream = "stdin"


class LspHeader(FrameRule):
    r"""A peer sends a `Content-Length` header before its messages, as language servers do.

    **Why it matters.** MCP delimits messages with line feeds. The receiver reads the header as a message that is not
    JSON, and then waits for a line feed after the message, which never comes.

    **On the wire.** `> Content-Length: 52\r\n\r\n{"jsonrpc":"2.0","id":1,"method":"ping"}`

    **Instead.** Write each message on its own line, without headers.
    """

    id = "framing/lsp-header"
    needs_bytes = True
    impact = Impact.CONNECTION
    source = "2024-11-05 basic/transports (stdio)"

    def check_frame(self, context: MessageContext) -> Iterator[Finding]:
        if _has_lsp_header(context.message):
            yield self.frame_finding(context, "a Content-Length header, which language servers use but MCP does not")


class EmbeddedNewline(AnyFrameRule):
    r"""A message is spread over several lines.

    **Why it matters.** The receiver reads each line as a message, and cannot parse any of them.

    **On the wire.** `< {`, then `<   "jsonrpc": "2.0",` and so on

    **Instead.** Serialise without indentation. The escape `\n` inside a string is fine.
    """

    id = "framing/embedded-newline"
    needs_bytes = True
    oddities = MessageOddity.SPREAD
    source = "2024-11-05 basic/transports (stdio)"

    def check_frame(self, context: MessageContext) -> Iterator[Finding]:
        count = len(context.message.frames)
        if count > 1:
            yield self.frame_finding(context, f"one message is spread over {count:,} lines")


class SeveralMessagesOnALine(AnyFrameRule):
    """A line contains more than one message.

    **Why it matters.** The receiver parses a line as one value and fails at the second value, so it loses both.

    **On the wire.** `< {"jsonrpc":"2.0","id":1,"result":{}}{"jsonrpc":"2.0","method":"notifications/message",…}`

    **Instead.** End each message with a line feed. Threads that share the stream need a lock that covers the message
    and its line feed.
    """

    id = SEVERAL_MESSAGES
    needs_bytes = True
    oddities = MessageOddity.SEVERAL
    source = "2024-11-05 basic/transports (stdio)"

    def check_frame(self, context: MessageContext) -> Iterator[Finding]:
        if self.id in (context.message.frames[0].verdict.problem, reason(context.message)):
            yield self.frame_finding(context, "several messages are on one line")


class NotAMessage(Rule):
    """A line, body or event is JSON, but a number, a string, a boolean or null.

    **Why it matters.** It is neither a request nor a notification nor a response.

    **On the wire.** `< "ready"` or `< 3.14`

    **Instead.** Send objects. Output for people belongs on standard error.
    """

    id = "framing/not-a-message"
    source = "2024-11-05 basic/transports (stdio); 2025-03-26 basic/transports"

    def on_invalid(self, context: MessageContext) -> Iterator[Finding]:
        message = context.message
        # One of several values on a line is reported like an item of an array.
        is_on_shared_line = (
            reason(message) == "batch/item-not-object" and message.frames[0].verdict.problem == SEVERAL_MESSAGES
        )
        if is_on_shared_line or (reason(message) == self.id and not context.is_stray_body):
            yield self.finding(context, "a JSON value that is not an object, so not a message")


class BlankLine(FrameRule):
    """A line is empty, or contains only white space.

    **Why it matters.** Most receivers skip it; some report each such line as a message that they cannot parse.

    **On the wire.** Two line feeds after a message

    **Instead.** End each message with one line feed. Functions that print lines often add one themselves.
    """

    id = "framing/blank-line"
    needs_bytes = True
    level = WARNING
    impact = Impact.HINT
    once = True
    source = "2024-11-05 basic/transports (stdio)"

    def check_frame(self, context: MessageContext) -> Iterator[Finding]:
        message = context.message
        header_senders: set[str] = self.state_for(context.session, set)
        if _has_lsp_header(message):
            header_senders.add(message.sender)
        elif reason(message) == self.id:
            if message.sender not in header_senders:
                yield self.frame_finding(context, "a line without a message")
            header_senders.discard(message.sender)  # the empty line that ends a header belongs to it


class Crlf(AnyFrameRule):
    r"""Lines end with a carriage return and a line feed.

    **Why it matters.** The delimiter is the line feed, so the carriage return counts as white space, which parsers
    skip.

    **On the wire.** `< {"jsonrpc":"2.0","id":1,"result":{}}\r\n`

    **Instead.** Open standard output in binary mode: on Windows, text mode adds carriage returns.
    """

    id = "framing/crlf"
    needs_bytes = True
    oddities = MessageOddity.LINE_END | MessageOddity.SPREAD
    level = NOTE
    once = True
    source = "2024-11-05 basic/transports (stdio)"

    def check_frame(self, context: MessageContext) -> Iterator[Finding]:
        ends_with_crlf = any(frame.unit == "line" and frame.delim == b"\r\n" for frame in context.message.frames)
        if ends_with_crlf and is_value(context.message):
            yield self.frame_finding(context, "lines end with CR LF")


class TruncatedMessage(FrameRule):
    """The stream ended in the middle of a message.

    **Why it matters.** The message is lost: the request is never read, or the response never arrives.

    **On the wire.** `< {"jsonrpc":"2.0","id":7,"resu` and the end of the stream

    **Instead.** Flush before you exit; find out what ended the process while it was writing.
    """

    id = "framing/truncated-message"
    needs_bytes = True
    at_end = True
    source = "2024-11-05 basic/transports (stdio)"

    def check_frame(self, context: MessageContext) -> Iterator[Finding]:
        if reason(context.message) == self.id:
            yield self.frame_finding(context, "the stream ended in the middle of a message")


class MissingFinalNewline(AnyFrameRule):
    """The stream ended after a message without a line feed.

    **Why it matters.** Receivers process whole lines, and most never process this one.

    **On the wire.** `< {"jsonrpc":"2.0","id":7,"result":{}}` and the end of the stream

    **Instead.** Write the line feed with the message, and flush both.
    """

    id = "framing/missing-final-newline"
    needs_bytes = True
    oddities = MessageOddity.LINE_END | MessageOddity.SPREAD
    level = WARNING
    at_end = True
    source = "2024-11-05 basic/transports (stdio)"

    def check_frame(self, context: MessageContext) -> Iterator[Finding]:
        last_frame = context.message.frames[-1]
        if last_frame.unit == "line" and not last_frame.whole and is_value(context.message):
            yield self.frame_finding(context, "the stream ended after this message without the line feed that ends it")


class OversizedMessage(AnyFrameRule):
    """A message is larger than 1 MiB, or larger than 10 MiB.

    **Why it matters.** The specification sets no limit, but receivers do: common SDKs accept up to 1 MiB for an event
    and 10 MiB for a line. Beyond that, the connection breaks.

    **On the wire.** `< {"jsonrpc":"2.0","id":4,"result":{"contents":[{"blob":"…"}]}}` of many megabytes

    **Instead.** Send a link to a resource, or split the result into pages.
    """

    id = "framing/oversized-message"
    oddities = MessageOddity.LARGE | MessageOddity.SPREAD
    level = NOTE
    impact = Impact.MESSAGE
    source = "observed in SDKs; no limit in the specification"

    def check_frame(self, context: MessageContext) -> Iterator[Finding]:
        size = size_of(context.message.frames)
        if size > LARGE_FRAME_BYTES:
            limit_mib = 10 if size > 10 * LARGE_FRAME_BYTES else 1
            text = f"the message is larger than {limit_mib} MiB, which some receivers refuse"
            yield self.finding(context, text)._replace(item=None)


# ---- shared by the rules


def _has_lsp_header(message: Message) -> bool:
    """Whether a line is a language server's header, or ends with one because the message before it has no line feed."""
    problem = reason(message)
    if problem == "framing/lsp-header":
        return True
    return problem in NOT_JSON and _CLOSING_HEADER.search(message.frames[0].raw[-_MAX_LSP_HEADER_BYTES:]) is not None


def _is_utf_16(raw: bytes) -> bool:
    prefix = raw[:_MAX_SEARCHED_BYTES]
    halves = (prefix[::2], prefix[1::2])
    return prefix.startswith(_UTF_16) or any(len(half) > 1 and not half.strip(b"\0") for half in halves)


def _line_kind(raw: bytes) -> str:
    if _is_utf_16(raw):
        return "UTF-16"
    text = raw[:_MAX_SEARCHED_BYTES].decode(errors="replace")
    return next((name for name, pattern in _LINE_KINDS if pattern.match(text)), "text for people")
