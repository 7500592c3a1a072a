"""Copy forms: a row as JSON, as raw text, as the line that `show --json` prints, or as a command that sends it again.

Copied text may be pasted into a terminal, so it contains no character that could act on one: JSON has equivalent
escapes for all of them, and raw text shows them as escapes, with a remark. Only the commands are meant for a shell:
they quote each word from the capture, or let `printf` write it in octal if quotes do not suffice. JSON and raw text are
not quoted for a shell, and have a remark that says so. Hashed words become placeholders.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from captures.frame import Frame
from captures.record import Record
from mcpproxy.report.json_lines import harmless, row_of, wall_of
from mcpproxy.report.units import size
from mcpproxy.sanitise import sanitise, sanitise_bytes
from mcpproxy.tui.data.reading import Reading

LARGEST: Final = 74_000
"""Bytes that common terminals accept into the clipboard at once."""

_TOKENS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_HASHED: Final = re.compile(r"hmac:[0-9a-f]{16}")
_PLACEHOLDER: Final = re.compile(r"<[A-Z0-9._~-]+>")
_FIELD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS: Final = frozenset(
    {"host", "content-length", "connection", "transfer-encoding", "accept-encoding", "keep-alive", "te", "expect"}
)
"""Fields that curl adds itself, or that belong to a single connection."""
INITIALIZED: Final = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
"""What ends the handshake of a session, in every revision that has one."""
_SESSION: Final = "mcp-session-id"
_NO_SHELL: Final = "unsafe in a shell"
"""The remark on text that a shell could run."""
_PLAIN: Final = "plain text"
"""The remark on commands: what the recorder hashes is beside the message, not in it."""


class CopyForm(NamedTuple):
    """One way to copy something."""

    key: str
    """The key that chooses it."""
    word: str
    """Its name."""
    text: str
    """Empty if the row cannot be copied in this form."""
    remark: str = ""
    """A caveat about it."""


def forms(reading: Reading, row: int) -> Sequence[CopyForm]:
    """The ways to copy a row; reads the file, so do not call it in the drawing thread."""
    entry = reading.index.entry(row)
    if entry.size > LARGEST:
        return [CopyForm("", "", "", f"{size(entry.size)}: too large for the clipboard; e exports to a file")]
    item, record = reading.index.item(row), reading.index.beginning(row)
    if record is None or not isinstance(item, Frame | Record):
        return [CopyForm("", "", "", "cannot be read")]
    line = CopyForm(
        "l",
        "a JSON line, as from show --json",
        harmless(row_of(record, item, wall_of(reading.index.header))),
        _NO_SHELL,
    )
    if not isinstance(item, Frame):
        return [line]
    raw = sanitise_bytes(item.raw.replace(b"\t", b"    "), None) if b"\n" not in item.raw else _lines(item.raw)
    is_same = raw.encode() == item.raw
    candidates = [
        CopyForm("j", "JSON", pretty(item.raw), _NO_SHELL),
        CopyForm("r", "raw text", raw, _NO_SHELL + ("" if is_same else "; invisible characters as escapes")),
        line,
        *_commands(reading, row, item),
    ]
    return [
        form if len(form.text.encode()) <= LARGEST else form._replace(text="", remark="too large for the clipboard")
        for form in candidates
        if form.text
    ]


def _lines(raw: bytes) -> str:
    return "\n".join(sanitise_bytes(line, None) for line in raw.split(b"\n"))


def pretty(raw: bytes) -> str:
    """JSON with a line for each member, every token as it was written; empty if it is not JSON."""
    import orjson

    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError:
        return ""
    parts: list[str] = []
    depth, before = 0, ""
    for piece in _TOKENS.findall(raw.decode()):
        if piece in "}]":
            depth -= 1
            parts.append("" if before in "{[" else "\n" + "  " * depth)
        elif before in ("{", "[", ","):
            parts.append("\n" + "  " * depth)
        parts.append(": " if piece == ":" else piece if piece in "{}[]," else harmless(piece))
        depth += piece in "{["
        before = piece
    return "".join(parts)


# ---- commands


def _commands(reading: Reading, row: int, frame: Frame) -> list[CopyForm]:
    """How to resend a message in a session of its own; for a response, its request."""
    partner = reading.partner(row)
    if frame.dir == "s2c" and partner is not None:
        request = reading.index.item(partner) if reading.index.entry(partner).size <= LARGEST else None
        if not isinstance(request, Frame) or request.dir != "c2s":
            return []
        row, frame = partner, request
    header = reading.index.header.members
    before = _initialize(reading, row)
    if header.get("transport") != "http":
        argv = header.get("argv") if frame.dir == "c2s" else None
        raws = [frame.raw] if before is None or not argv else [before.raw, INITIALIZED, frame.raw]
        word = "a shell command that starts the server" if argv else "a shell command that prints it"
        return [CopyForm("c", word, to_stdin(raws, argv), f"{_PLAIN}; Ctrl-D ends it" if argv else _PLAIN)]
    posted = _posted(reading, frame)
    if posted is None or frame.dir != "c2s":
        return []
    try:
        is_in_session = _HASHED.fullmatch(posted.fields.get(_SESSION, "")) is not None
        started = _posted(reading, before) if before is not None and is_in_session else None
        line = curl(header.get("upstream"), posted, started)
    except ValueError:
        # The upstream is not a URL.
        return []
    return [
        CopyForm(
            "c", "a curl command", line, f"{_PLAIN}; replace what is in <…>" if _PLACEHOLDER.search(line) else _PLAIN
        )
    ]


def _initialize(reading: Reading, row: int) -> Frame | None:
    """The request with which the session of a row began, before that row, if it is small enough to be copied."""
    exchanges, sessions = reading.exchanges, reading.sessions
    if row >= reading.understood:
        return None
    kinds = {
        number for number, call in enumerate(reading.calls.all) if (call.side, call.method) == ("client", "initialize")
    }
    rows = (exchanges.request[number] for number, kind in enumerate(exchanges.call) if kind in kinds)
    found = max((one for one in rows if one < row and sessions[one] == sessions[row]), default=None)
    if found is None or reading.index.entry(found).size > LARGEST:
        return None
    item = reading.index.item(found)
    return item if isinstance(item, Frame) else None


class Posted(NamedTuple):
    """A message with the HTTP request that carried it."""

    method: str
    target: str
    """Such as `/mcp`."""
    fields: Mapping[str, str]
    """The header fields, secret ones hashed."""
    body: bytes


def _posted(reading: Reading, frame: Frame) -> Posted | None:
    http = reading.fold.exchanges.known(frame.exchange) if frame.exchange is not None else None
    return None if http is None else Posted(http.method or "POST", http.target or "/", http.fields, frame.raw)


def to_stdin(raws: Sequence[bytes], argv: object) -> str:
    """A line for a POSIX shell that writes messages to the stdin of a command, and keeps that open.

    Servers drop what they work on when their stdin ends, so what is typed follows the messages, up to Ctrl-D.
    """
    words = [with_placeholders(word) for word in argv if isinstance(word, str)] if isinstance(argv, list) else []
    if all(map(_is_plain, raws)):
        printf = " ".join(["printf '%s\\n'", *(shlex.quote(raw.decode()) for raw in raws)])
    else:
        printf = "printf " + _octal(b"".join(raw + b"\n" for raw in raws))
    return f"{{ {printf}; cat; }} | {' '.join(map(_word, words))}" if words else printf


def curl(upstream: object, posted: Posted, started: Posted | None = None) -> str:
    """A line for a POSIX shell that sends a request again.

    The recorder hashes session ids, and servers forget them, so the line can begin a session as the client did, and use
    the id that the server gives to it (specification 2025-06-18, basic/transports, Session Management).

    Args:
        upstream: the server's address, as recorded.
        posted: the request.
        started: the `initialize` request of a session to begin for it; None to send it alone.

    Raises:
        ValueError: the upstream is not a URL.
    """
    if started is None:
        return _curl(upstream, posted)
    start = _curl(upstream, started, "--silent", "--output", "/dev/null", "--dump-header", "-")
    ready = _curl(upstream, posted._replace(body=INITIALIZED), "--silent", "--output", "/dev/null", is_new=True)
    given = f"tr -d '\\r' | awk 'tolower($1) == \"{_SESSION}:\" {{print $2}}'"
    return f"SESSION=$({start} | {given}); {ready}; {_curl(upstream, posted, is_new=True)}"


def _curl(upstream: object, posted: Posted, *options: str, is_new: bool = False) -> str:
    """A curl command; `is_new` if the session id is in a variable of the shell."""
    place = urlsplit(upstream) if isinstance(upstream, str) and _is_plain(upstream.encode()) else None
    is_known = place is not None and place.scheme in ("http", "https") and bool(place.netloc)
    origin = f"{place.scheme}://{place.netloc}" if place is not None and is_known else "http://<SERVER>"
    path = posted.target if posted.target.startswith("/") else "/"
    words = ["curl", "--globoff", "--no-buffer", *options, "--request", posted.method]
    line = " ".join(map(_word, [*words, "--url", with_placeholders(origin + path)]))
    for name, value in posted.fields.items():
        if is_new and name == _SESSION:
            line += f' --header "{_SESSION}: $SESSION"'
        elif _FIELD.fullmatch(name) and name.lower() not in _OURS and value:
            line += f" --header {_word(f'{name}: {with_placeholders(value, name)}')}"
    if _is_plain(posted.body):
        return f"{line} --data-raw {_word(posted.body.decode())}"
    return f"printf {_octal(posted.body)} | {line} --data-binary @-"


def with_placeholders(text: str, name: str = "") -> str:
    """A word of the capture with placeholders for its hashed parts."""
    text = re.sub(rf"([\w.~-]+)=({_HASHED.pattern})", lambda pair: f"{pair[1]}=<{pair[1].upper()}>", text)
    return _HASHED.sub(f"<{name.upper() or 'HIDDEN'}>", text)


def _is_plain(raw: bytes) -> bool:
    """Whether it can be quoted as it is: nothing in it acts on a terminal or is invisible."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return False
    return text.isprintable() and sanitise(text, None) == text


def _word(text: str) -> str:
    raw = text.encode("utf-8", "surrogateescape")
    if not _is_plain(raw):
        return f'"$(printf {_octal(raw)})"'
    quoted = shlex.quote(text)
    return quoted if quoted != text or "=" not in text else f"'{text}'"


def _octal(raw: bytes) -> str:
    """A `printf` format that writes exactly these bytes, and is not mistaken for an option."""
    signs = [
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b"%\\" and (at or byte != ord("-")) else f"\\{byte:03o}"
        for at, byte in enumerate(raw)
    ]
    return shlex.quote("".join(signs))
