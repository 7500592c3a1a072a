"""One raw client for every server: it sends the same bytes each time, and keeps every byte that it receives.

There are two conversations. `handshake` follows the revisions up to 2025-11-25: `initialize`, the lists that the server
declares, one call, `ping`, and an unknown method. `discover` follows 2026-07-28: `server/discover` and, if the server
supports it, the lists, the call and the unknown method. The client abandons a request that is not answered in time;
with the recorder in between, the same must happen.
"""

import contextlib
import json
import re
import socket
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, Protocol

from tests.harness import Session, read_some
from tests.http_harness import Wire
from tests.zoo.mask import Run

Scenario = Literal["handshake", "discover"]
SCENARIOS: tuple[Scenario, ...] = ("handshake", "discover")

ANSWER_S = 20.0
"""How long a request may take; a server may take as long to start up."""
END_S = 8.0
"""How long a server may take to exit after its stdin is closed, before it is terminated."""
HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"
WHO = {"name": "mcpproxy-zoo", "version": "1.0.0"}
PREFIX = "io.modelcontextprotocol/"
META = {PREFIX + "protocolVersion": MODERN, PREFIX + "clientInfo": WHO, PREFIX + "clientCapabilities": {}}

Message = dict[str, Any]


class Transport(Protocol):
    """The transport of a conversation: how messages get to a server and back."""

    heard: Run
    said: list[bytes]
    """Every message that was sent, in order."""
    messages: list[bytes]
    """Every message that was received, in order."""

    def tell(self, message: Message) -> None:
        """Send a message that expects no response."""

    def ask(self, message: Message) -> Message | None:
        """Send a request; returns its response, or None if none arrives."""

    def agree(self, revision: str) -> None:
        """Called when the revision has been negotiated."""

    def leave(self) -> None:
        """End the session."""


def converse(way: Transport, scenario: Scenario, call: Mapping[str, Any] | None) -> None:
    """Run one conversation, then end the session."""
    meta: Message = {}
    if scenario == "handshake":
        opening = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": WHO}
        answer = way.ask(_request(1, "initialize", opening))
        if answer is not None and "result" in answer:
            way.agree(str(answer["result"].get("protocolVersion")))
            way.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
    else:
        meta = {"_meta": META}
        way.agree(MODERN)
        answer = way.ask(_request(1, "server/discover", meta))
    if answer is not None and "result" in answer:
        offered = answer["result"].get("capabilities", {})
        asked = [f"{feature}/list" for feature in ("tools", "resources", "prompts") if feature in offered]
        asked += (["tools/call"] if call else []) + ([] if meta else ["ping"]) + ["zoo/unknown"]
        for number, method in enumerate(asked, 2):
            params = {**(call or {}), **meta} if method == "tools/call" else meta
            way.ask(_request(number, method, params))
    way.leave()


def _request(number: int, method: str, params: Mapping[str, Any]) -> Message:
    return {"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params else {})}


def encoded(message: Message) -> bytes:
    """A message as compact JSON."""
    return json.dumps(message, separators=(",", ":")).encode()


def parsed(text: bytes) -> Message:
    """A text as a message; empty if it is not one."""
    try:
        message = json.loads(text)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def part_names(messages: list[bytes]) -> Run:
    """Messages by part name, as their order varies: responses by id, others by method and count."""
    run: Run = {}
    counted: Counter[str] = Counter()
    for text in messages:
        message = parsed(text)
        kind = str(message.get("method") or (f"answer {message['id']}" if "id" in message else "not a message"))
        counted[kind] += 1
        run[f"{kind} ({counted[kind]})"] = text
    return run


class Stdio:
    """Lines over pipes."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.heard: Run = {}
        self.said: list[bytes] = []
        self.messages: list[bytes] = []
        self.stdout = b""
        """Everything that the server has written to stdout."""
        self._cut = 0

    def tell(self, message: Message) -> None:
        """See `Transport`; sends nothing to a server that has exited."""
        line = encoded(message) + b"\n"
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.session.send(line)
            self.said.append(line)

    def ask(self, message: Message) -> Message | None:
        """See `Transport`; refuses requests that the server sends before the response."""
        self.tell(message)
        until = time.monotonic() + ANSWER_S
        while (line := self._line(until)) is not None:
            heard = parsed(line)
            if "method" in heard and "id" in heard:
                self.tell({"jsonrpc": "2.0", "id": heard["id"], "error": {"code": -32601, "message": "not here"}})
            elif heard.get("id") == message["id"]:
                return heard
        return None

    def agree(self, revision: str) -> None:
        """See `Transport`."""

    def leave(self) -> None:
        """Close stdin and wait for the server to exit; if it does not, send it signals."""
        self.session.close_stdin()
        until, ending = time.monotonic() + END_S, ""
        while not self._more(until):
            if ending:
                self.session.process.kill()
                break
            self.session.process.terminate()
            until, ending = time.monotonic() + END_S, " after SIGTERM"
        status = self.session.end()
        self.messages = self.stdout.splitlines(keepends=True)
        self.heard |= part_names(self.messages) | {"exit": f"{status}{ending}".encode()}

    def _line(self, until: float) -> bytes | None:
        while (stop := self.stdout.find(b"\n", self._cut)) < 0:
            try:
                chunk = self._read(until)
            except AssertionError:  # nothing arrived in time
                return None
            if not chunk:
                return None
        line, self._cut = self.stdout[self._cut : stop + 1], stop + 1
        return line

    def _more(self, until: float) -> bool:
        """Read to the end of stdout; returns whether it arrived in time."""
        try:
            while self._read(until):
                pass
        except AssertionError:
            return False
        return True

    def _read(self, until: float) -> bytes:
        assert self.session.process.stdout is not None
        chunk = read_some(self.session.process.stdout.fileno(), max(0.01, until - time.monotonic()))
        self.stdout += chunk
        return chunk


class Http:
    """Streamable HTTP: a connection for each request, and one for the stream of a session."""

    def __init__(self, address: tuple[str, int], path: str) -> None:
        self._address = address
        self._path = path
        self.heard: Run = {}
        self.said: list[bytes] = []
        self.messages: list[bytes] = []
        self._session: bytes | None = None
        self._revision: str | None = None
        self._stream: Wire | None = None

    def tell(self, message: Message) -> None:
        """See `Transport`."""
        self._post(message)

    def ask(self, message: Message) -> Message | None:
        """See `Transport`."""
        answers = self._post(message)
        return next((answer for text in answers if (answer := parsed(text)).get("id") == message["id"]), None)

    def agree(self, revision: str) -> None:
        """See `Transport`; opens the stream of a session."""
        self._revision = revision
        if self._session:
            self._stream = self._sent(b"GET", b"", {"Accept": "text/event-stream"})

    def leave(self) -> None:
        """Delete the session, and read the rest of its stream."""
        if self._session:
            self._finished("DELETE", self._sent(b"DELETE", b"", {}))
        if self._stream:
            self._finished("GET", self._stream)

    def _post(self, message: Message) -> list[bytes]:
        body = encoded(message)
        method = str(message["method"])
        fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self._revision == MODERN:
            fields["Mcp-Method"] = method
            if method == "tools/call":
                fields["Mcp-Name"] = message["params"]["name"]
        self.said.append(body)
        return self._finished(f"POST {method}", self._sent(b"POST", body, fields))

    def _sent(self, verb: bytes, body: bytes, fields: Mapping[str, str]) -> Wire:
        lines = [
            b"%b %b HTTP/1.1" % (verb, self._path.encode()),
            b"Host: %b:%d" % (self._address[0].encode(), self._address[1]),
        ]
        lines += [f"{name}: {value}".encode() for name, value in fields.items()]
        if self._session:
            lines.append(b"Mcp-Session-Id: " + self._session)
        if self._revision:
            lines.append(b"MCP-Protocol-Version: " + self._revision.encode())
        lines += [b"Content-Length: %d" % len(body)] if verb == b"POST" else []
        wire = connected(self._address)
        wire.say(b"\r\n".join((*lines, b"Connection: close", b"", body)))
        return wire

    def _finished(self, what: str, wire: Wire) -> list[bytes]:
        head, messages = answered(wire, ANSWER_S if what != "GET" else 1.0)
        if found := re.search(rb"\r\nmcp-session-id: *([^\r]+)", head, re.IGNORECASE):
            self._session = found[1]
        self.heard |= {f"{what} head": head} | {f"{what} {part}": text for part, text in part_names(messages).items()}
        self.messages += messages
        return messages


class Sse:
    """The transport of 2024-11-05: responses arrive on a stream that is opened first."""

    def __init__(self, address: tuple[str, int], path: str) -> None:
        self._address = address
        self.heard: Run = {}
        self.said: list[bytes] = []
        self.messages: list[bytes] = []
        self._wire = connected(address)
        lines = (f"GET {path} HTTP/1.1", f"Host: {address[0]}:{address[1]}", "Accept: text/event-stream", "", "")
        self._wire.say("\r\n".join(lines).encode())
        found = self._seen(rb"data: *([^\r\n]+)[\r\n]")
        self._endpoint = found[1].decode() if found else path

    def tell(self, message: Message) -> None:
        """See `Transport`."""
        body = encoded(message)
        path = re.sub(r"^https?://[^/]*", "", self._endpoint)
        lines = [
            f"POST {path} HTTP/1.1",
            f"Host: {self._address[0]}:{self._address[1]}",
            "Content-Type: application/json",
        ]
        lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
        self.said.append(body)
        with connected(self._address) as wire:
            wire.say("\r\n".join(lines).encode() + body)
            head, messages = answered(wire, ANSWER_S)
        self.heard |= {f"POST {message['method']} head": head, f"POST {message['method']} body": b"".join(messages)}
        self.messages += messages

    def ask(self, message: Message) -> Message | None:
        """See `Transport`."""
        self.tell(message)
        found = self._seen(rb'data: *([^\r\n]*"id": *%d\b[^\r\n]*)[\r\n]' % message["id"])
        return parsed(found[1]) if found else None

    def agree(self, revision: str) -> None:
        """See `Transport`."""

    def leave(self) -> None:
        """Close the stream."""
        self._wire.close()
        head, _, body = bytes(self._wire.received).partition(b"\r\n\r\n")
        events = payloads(head, body)
        self.messages += events
        self.heard |= {"GET head": head} | {f"GET {part}": text for part, text in part_names(events).items()}

    def _seen(self, what: bytes) -> re.Match[bytes] | None:
        """Wait for a match on the stream; returns None if none arrives in time."""
        until = time.monotonic() + ANSWER_S
        while not (found := re.search(what, self._wire.received)) and (left := until - time.monotonic()) > 0:
            self._wire.sock.settimeout(left)
            try:
                if not _more(self._wire):
                    break
            except OSError:
                break
        return found


def connected(address: tuple[str, int]) -> Wire:
    """Connect to an address."""
    return Wire(socket.create_connection(address, ANSWER_S))


def answered(wire: Wire, deadline_s: float) -> tuple[bytes, list[bytes]]:
    """The head of a response and the messages of its body that arrived before the deadline."""
    wire.sock.settimeout(deadline_s)
    with contextlib.suppress(TimeoutError, ConnectionResetError), wire:
        while not _is_complete(bytes(wire.received)) and _more(wire):
            pass
    head, _, body = bytes(wire.received).partition(b"\r\n\r\n")
    return head, payloads(head, body)


def _more(wire: Wire) -> bool:
    chunk = wire.sock.recv(1 << 16)
    wire.received += chunk
    return bool(chunk)


def _is_complete(answer: bytes) -> bool:
    """Whether a response is complete according to its head: some servers keep the connection open after it."""
    head, found, body = answer.partition(b"\r\n\r\n")
    if length := re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE):
        return bool(found) and len(body) >= int(length[1])
    return b"\r\ntransfer-encoding: chunked" in head.lower() and body.endswith(b"0\r\n\r\n")


def payloads(head: bytes, body: bytes) -> list[bytes]:
    """The data of each event, or the body if it has no events; its division into chunks does not matter."""
    if b"\r\ntransfer-encoding: chunked" in head.lower():
        body = _unchunked(body)
    if b"text/event-stream" not in head.lower():
        return [body] if body else []
    events = re.split(rb"\r\n\r\n|\n\n|\r\r", body)
    data = [re.findall(rb"^data: ?([^\r\n]*)", event, re.MULTILINE) for event in events]
    return [b"\n".join(lines) for lines in data if lines]


def _unchunked(body: bytes) -> bytes:
    whole = b""
    while (found := re.match(rb"([0-9A-Fa-f]+)[^\r\n]*\r\n", body)) and (size := int(found[1], 16)):
        whole += body[found.end() : found.end() + size]
        body = body[found.end() + size + 2 :]
    return whole
