"""A recorded message as text to copy: as JSON, as raw text, or as a command that sends it again.

Such text may be pasted into a terminal, so it contains no character that could act on one: JSON has equivalent escapes
for all of them, and raw text shows them as escapes. Only the commands are meant for a shell: they quote each word from
the capture, or let `printf` write it in octal where quotes are not enough. Hashed words become placeholders.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from analysis.conversation.http_exchange import HttpExchange
from captures.frame import Frame
from mcpproxy.sanitise import sanitise, sanitise_bytes
from mcpproxy.wording.bodies import json_lines
from mcpproxy.wording.json_lines import escape_line

_HASH: Final = re.compile(r"hmac:[0-9a-f]{16}")
_PLACEHOLDER: Final = re.compile(r"<[A-Z0-9._~-]+>")
_FIELD_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SKIPPED_FIELDS: Final = frozenset(
    {"host", "content-length", "connection", "transfer-encoding", "accept-encoding", "keep-alive", "te", "expect"}
)
"""Fields that curl adds itself, or that belong to a single connection."""
INITIALIZED_MESSAGE: Final = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
"""The message that ends the handshake of a session, in every revision that has one."""
_SESSION_FIELD: Final = "mcp-session-id"
_MAX_WORD_BYTES: Final = 100_000
"""The most bytes of a word of a command: Linux accepts 128 KiB."""


class Command(NamedTuple):
    """A line for a POSIX shell that sends a message again."""

    kind: str
    """`curl_command` or `shell`."""
    description: str
    """The kind of command, in words."""
    text: str
    has_placeholders: bool = False
    """Whether the user has to replace something in it first, which is written as `<…>`."""
    keeps_stdin_open: bool = False
    """Whether it keeps the server's stdin open, until Ctrl-D."""


def raw_text(raw: bytes) -> str:
    """The text of a message, with invisible characters as escapes."""
    if b"\n" not in raw:
        return sanitise_bytes(raw.replace(b"\t", b"    "), None)
    return "\n".join(sanitise_bytes(line, None) for line in raw.split(b"\n"))


def pretty_json(raw: bytes) -> str:
    """Returns JSON with a line for each member, every token as it was written, or an empty string if it is not JSON."""
    import orjson

    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError:
        return ""
    return "\n".join(json_lines(raw, lambda line: escape_line(line.decode())))


# ---- commands


class PostedMessage(NamedTuple):
    """A message with the HTTP request that carried it."""

    method: str
    target: str
    """The path and query, such as `/mcp`."""
    fields: Sequence[tuple[str, str]]
    """The header fields in order, with names in lower case and hashed secrets; repeated ones as well."""
    body: bytes
    is_legacy: bool = False
    """Whether it is a message of the older transport, whose responses come on the stream of another request."""


def posted_message(http: HttpExchange, body: bytes) -> PostedMessage:
    """A message with the HTTP request that carried it.

    Args:
        http: the exchange of that request.
        body: the message.
    """
    is_legacy = http.session is not None and http.session.is_legacy
    return PostedMessage(http.method or "POST", http.target or "/", http.field_lines, body, is_legacy)


def command(
    header: Mapping[str, Any],
    frame: Frame,
    posted: PostedMessage | None,
    initialize_frame: Frame | None = None,
    initialize_post: PostedMessage | None = None,
) -> Command | None:
    """Returns the command that sends a message again, in a session of its own, or None if there is none.

    Args:
        header: the members of the capture's header.
        frame: the message.
        posted: the HTTP request that carried it, if it is known.
        initialize_frame: the `initialize` request of its session, if it has one.
        initialize_post: the HTTP request that carried `initialize`.
    """
    if header.get("transport") != "http":
        argv = header.get("argv") if frame.dir == "c2s" else None
        messages = (
            [frame.raw]
            if initialize_frame is None or not argv
            else [initialize_frame.raw, INITIALIZED_MESSAGE, frame.raw]
        )
        word = "a shell command that starts the server" if argv else "a shell command that prints it"
        return Command("shell", word, stdin_command(messages, argv), keeps_stdin_open=bool(argv))
    if posted is None or frame.dir != "c2s" or posted.is_legacy:
        return None
    is_in_session = any(name == _SESSION_FIELD and _HASH.fullmatch(value) for name, value in posted.fields)
    try:
        line = curl_command(
            header.get("public") or header.get("upstream"), posted, initialize_post if is_in_session else None
        )
    except ValueError:  # the upstream is not a URL
        return None
    return Command("curl", "a curl command", line, has_placeholders=_PLACEHOLDER.search(line) is not None)


def stdin_command(messages: Sequence[bytes], argv: object) -> str:
    """A line for a POSIX shell that writes messages to the stdin of a command, and keeps that open.

    Servers drop the requests that they work on when their stdin ends, so the user's input follows the messages, until
    Ctrl-D.
    """
    words = [insert_placeholders(word) for word in argv if isinstance(word, str)] if isinstance(argv, list) else []
    if all(map(_is_plain, messages)):
        printf = " ".join(["printf '%s\\n'", *(shlex.quote(raw.decode()) for raw in messages)])
    else:
        printf = "printf " + _printf_format(b"".join(raw + b"\n" for raw in messages))
    return f"{{ {printf}; cat; }} | {' '.join(map(_shell_word, words))}" if words else printf


def curl_command(upstream: object, posted: PostedMessage, initialize_post: PostedMessage | None = None) -> str:
    """A line for a POSIX shell that sends a request again.

    The recorder hashes session ids, and servers forget them, so the line can begin a session as the client did, and use
    the id that the server assigns to it (specification 2025-06-18, basic/transports, Session Management).

    Args:
        upstream: the server's address, as recorded.
        posted: the request.
        initialize_post: the `initialize` request of a session to begin for it; None to send it alone.

    Raises:
        ValueError: the upstream is not a URL.
    """
    if initialize_post is None:
        return _curl(upstream, posted)
    initialize_command = _curl(upstream, initialize_post, "--silent", "--output", "/dev/null", "--dump-header", "-")
    initialized_command = _curl(
        upstream, posted._replace(body=INITIALIZED_MESSAGE), "--silent", "--output", "/dev/null", is_new=True
    )
    id_filter = f"tr -d '\\r' | awk 'tolower($1) == \"{_SESSION_FIELD}:\" {{print $2}}'"
    return (
        f"SESSION=$({initialize_command} | {id_filter}); {initialized_command}; {_curl(upstream, posted, is_new=True)}"
    )


def _curl(upstream: object, posted: PostedMessage, *options: str, is_new: bool = False) -> str:
    """A curl command; if `is_new` is true, it takes the session id from a variable of the shell."""
    url = urlsplit(upstream) if isinstance(upstream, str) and _is_plain(upstream.encode()) else None
    is_known = url is not None and url.scheme in ("http", "https") and bool(url.netloc)
    origin = f"{url.scheme}://{url.netloc}" if url is not None and is_known else "http://<SERVER>"
    path = posted.target if posted.target.startswith("/") else "/"
    words = ["curl", "--globoff", "--no-buffer", *options, "--request", posted.method]
    line = " ".join(map(_shell_word, [*words, "--url", insert_placeholders(origin + path)]))
    for name, value in posted.fields:
        if is_new and name == _SESSION_FIELD:
            line += f' --header "{_SESSION_FIELD}: $SESSION"'
        elif _FIELD_NAME.fullmatch(name) and name.lower() not in _SKIPPED_FIELDS and value:
            line += f" --header {_shell_word(f'{name}: {insert_placeholders(value, name)}')}"
    if _is_plain(posted.body) and len(posted.body) <= _MAX_WORD_BYTES:
        return f"{line} --data-raw {_shell_word(posted.body.decode())}"
    return f"printf {_printf_format(posted.body)} | {line} --data-binary @-"


def insert_placeholders(text: str, name: str = "") -> str:
    """A word of the capture with placeholders for its hashed parts."""
    text = re.sub(rf"([\w.~-]+)=({_HASH.pattern})", lambda pair: f"{pair[1]}=<{pair[1].upper()}>", text)
    return _HASH.sub(f"<{name.upper() or 'HIDDEN'}>", text)


def _is_plain(raw: bytes) -> bool:
    """Whether bytes can be quoted as they are, because nothing in them acts on a terminal or is invisible."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return False
    return text.isprintable() and sanitise(text, None) == text


def _shell_word(text: str) -> str:
    raw = text.encode("utf-8", "surrogateescape")
    if not _is_plain(raw):
        return f'"$(printf {_printf_format(raw)})"'
    quoted = shlex.quote(text)
    return quoted if quoted != text or "=" not in text else f"'{text}'"


def _printf_format(raw: bytes) -> str:
    """A `printf` format that writes exactly these bytes, and is not mistaken for an option."""
    chars = [
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b"%\\" and (index or byte != ord("-")) else f"\\{byte:03o}"
        for index, byte in enumerate(raw)
    ]
    return shlex.quote("".join(chars))
