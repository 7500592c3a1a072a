"""Random secrets of many kinds, and the places and spellings in which a capture can hold them."""

import base64
import json
import string
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

from captures.exact_judge import judge_exactly
from captures.record import frame_members, members, part_members, seal, stderr_members
from captures.verdict import Direction
from mcpproxy.sharing.pseudonyms import passes_luhn

WORDS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


class Secret(NamedTuple):
    """A text with a secret in it."""

    kind: str
    text: str
    needle: str
    """The part that must not be found in the copy."""


def secrets(random: Random) -> list[Secret]:
    """One secret of each kind, all new."""

    def some(count: int, letters: str = WORDS) -> str:
        return "".join(random.choice(letters) for _ in range(count))

    def digit() -> str:
        return some(1, string.digits)

    def whole(kind: str, text: str) -> Secret:
        return Secret(kind, text, text)

    def within(kind: str, before: str, needle: str, after: str = "") -> Secret:
        return Secret(kind, before + needle + after, needle)

    low = string.ascii_lowercase
    card = "4" + some(14, string.digits)
    key = some(64)
    return [
        whole("aws", "AKIA" + some(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")),
        whole("github", "ghp_" + some(36)),
        whole("github-fine", f"github_pat_{some(22)}_{some(59)}"),
        whole("gitlab", "glpat-" + some(20)),
        whole("anthropic", f"sk-ant-api03-{some(92)}7AA"),
        whole("slack", f"xoxb-{some(12, string.digits)}-{some(12, string.digits)}-{some(24)}"),
        whole("stripe", "sk_live_" + some(24)),
        whole("google", "AIza" + some(35)),
        whole("google-token", "ya29." + some(60)),
        whole("npm", "npm_" + some(36)),
        whole("sendgrid", f"SG.{some(22)}.{some(43)}"),
        whole("hugging-face", "hf_" + some(34)),
        whole("telegram", f"{some(9, '123456789')}:AA{some(33)}"),
        whole("jwt", f"eyJ{some(33)}.eyJ{some(40)}.{some(43)}"),
        within("private-key", "-----BEGIN PRIVATE KEY-----\n", key, "\n-----END PRIVATE KEY-----"),
        within("bearer", "Authorization: Bearer ", some(39) + digit()),
        within("assigned", "password=", some(11) + digit()),
        within("connection", "postgres://svc:", some(12), f"@db.{some(6, low)}.io:5432/x"),
        within("parameter", "https://api.example.com/v1?access_token=", some(20) + digit()),
        whole("email", f"{some(8, low)}@{some(8, low)}.io"),
        within("home", "/home/", "u" + some(8, low), "/projects/x"),
        within("windows-home", "C:\\Users\\", "w" + some(8, low), "\\x"),
        whole("host", some(9, low) + ".internal"),
        whole("card", next(card + last for last in string.digits if passes_luhn(card + last))),
        *of_services(random)[:3],
    ]


def of_services(random: Random) -> list[Secret]:
    """New tokens whose form only the catalogue knows; `mcpproxy.sharing.patterns` finds none of them."""

    def some(count: int, letters: str = WORDS) -> str:
        return "".join(random.choice(letters) for _ in range(count))

    forms = {
        "shopify": "shpat_" + some(32, HEX),
        "doppler": "dp.pt." + some(43),
        "grafana": f"glsa_{some(32)}_{some(8, HEX)}",
        "digitalocean": "dop_v1_" + some(64, HEX),
        "linear": "lin_api_" + some(40),
        "rubygems": "rubygems_" + some(48, HEX),
        "databricks": "dapi" + some(32, HEX),
        "vault": "hvs." + some(92),
        "docker": "dckr_pat_" + some(27),
        "pulumi": "pul-" + some(40, HEX),
    }
    return [Secret(kind, text, text) for kind, text in forms.items()]


Spelling = Callable[[str], str]

INSIDE: dict[str, Spelling] = {
    "as it is": lambda text: text,
    "in prose": lambda text: f"see {text} for more",
    "JSON in JSON": lambda text: json.dumps({"a": text}),
    "JSON in JSON in JSON": lambda text: json.dumps({"a": json.dumps([text])}),
    "JSON six times": lambda text: json.dumps(json.dumps(json.dumps(json.dumps(json.dumps([text]))))),
    "JSON behind prose": lambda text: "Result: " + json.dumps({"a": text}),
    "percent-encoding": lambda text: quote(text, safe=""),
    "percent-encoding in a URL": lambda text: "https://example.com/cb?state=" + quote(text, safe=""),
}
"""Spellings in which the secret is legible once they are decoded."""

ENCODED: dict[str, Spelling] = {
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 in prose": lambda text: f"data {base64.b64encode(text.encode()).decode()} end",
    "base64 without padding": lambda text: base64.urlsafe_b64encode(f"user: {text}".encode()).decode().rstrip("="),
    "base64 twice": lambda text: base64.b64encode(base64.b64encode(text.encode())).decode(),
    "data URI": lambda text: "data:text/plain;base64," + base64.b64encode(text.encode()).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
}
"""Spellings that hide it."""


def _message(**more: Any) -> Any:
    return {"jsonrpc": "2.0", "id": 7, **more}


def _bytes(value: Any) -> bytes:
    return json.dumps(value).encode()


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in text)


PLACES: dict[str, Callable[[str], bytes]] = {
    "result": lambda text: _bytes(_message(result={"content": [{"type": "text", "text": text}]})),
    "structured": lambda text: _bytes(_message(result={"structuredContent": {"v": [text]}})),
    "argument": lambda text: _bytes(_message(method="tools/call", params={"name": "t", "arguments": {"v": text}})),
    "name of a member": lambda text: _bytes(_message(result={"structuredContent": {text: 1}})),
    "name of a parameter": lambda text: _bytes(_message(method="x/y", params={text: "z"})),
    "escapes": lambda text: b'{"jsonrpc":"2.0","id":7,"result":{"v":"%b"}}' % _escaped(text).encode(),
    "escapes in a name": lambda text: b'{"jsonrpc":"2.0","id":7,"result":{"%b":1}}' % _escaped(text).encode(),
    "error": lambda text: _bytes(_message(error={"code": -32000, "message": text, "data": {"d": text}})),
    "log": lambda text: _bytes({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": text}}),
    "client's note": lambda text: _bytes(_message(method="tools/call", params={"_meta": {"acme/session": text}})),
    "client's name": lambda text: _bytes(_message(method="initialize", params={"clientInfo": {"name": text}})),
    "schema": lambda text: _bytes(
        _message(
            result={
                "tools": [{"name": "t", "description": text, "inputSchema": {"properties": {"a": {"enum": [text]}}}}]
            }
        )
    ),
    "beside the result": lambda text: _bytes({**_message(result={}), "extra": text}),
    "batch": lambda text: _bytes([_message(result={"v": text})]),
    "duplicate member": lambda text: b'{"jsonrpc":"2.0","id":7,"result":{"v":%b},"result":{}}' % _bytes(text),
    "second value of a line": lambda text: _bytes(_message(result={})) + _bytes({"v": text}),
    "behind a byte order mark": lambda text: b"\xef\xbb\xbf" + _bytes(_message(result={"v": text})),
    "log line": lambda text: b"INFO " + text.encode().replace(b"\n", b" "),
    "not UTF-8": lambda text: b'\xff {"a":%b}' % _bytes(text),
    "piece of a spread message": lambda text: b'  "v": %b,' % _bytes(text),
    "too deep": lambda text: b"[" * 600 + _bytes(text) + b"]" * 600,
    "deep": lambda text: b'{"jsonrpc":"2.0","id":7,"result":%b}' % (b"[" * 150 + _bytes(text) + b"]" * 150),
    "image": lambda text: _bytes(
        _message(
            result={
                "content": [{"type": "image", "data": base64.b64encode(b"\x89PNG\xff" * 12 + text.encode()).decode()}]
            }
        )
    ),
}
"""Complete frames."""

TORN: dict[str, Callable[[str], bytes]] = {
    "torn": lambda text: b'{"jsonrpc":"2.0","id":7,"result":{"v":%b' % _bytes(text)[:-1],
    "torn behind a name": lambda text: b'{"jsonrpc":"2.0","id":7,"result":{%b' % _bytes(text),
}

PAIRED: dict[str, Callable[[str], bytes]] = {
    "id": lambda text: _bytes({"jsonrpc": "2.0", "id": text, "result": {}}),
    "method": lambda text: _bytes(_message(method=text)),
    "tool": lambda text: _bytes(_message(method="tools/call", params={"name": text})),
    "cursor": lambda text: _bytes(_message(result={"tools": [], "nextCursor": text})),
    "progress token": lambda text: _bytes(_message(method="notifications/progress", params={"progressToken": text})),
}
"""Places for words of the protocol, in which hosts and numbers stay."""
STAYS_IN_WORDS = {"host", "card"}


FILLER = "filler words "


class Tape:
    """A capture with secrets, and a list of where they are."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.lines: list[bytes] = []
        self.planted: list[tuple[str, str]] = []
        """Where each secret is, in words, and the text that must not be found."""

    def secrets(self, where: str) -> list[Secret]:
        """A fresh secret of each kind, noted as planted somewhere."""
        fresh = secrets(self.random)
        self.planted += [(f"{secret.kind}: {where}", secret.needle) for secret in fresh]
        return fresh

    def record(self, rec: str, middle: bytes) -> None:
        """Add a record."""
        self.lines.append(seal(len(self.lines), len(self.lines) * 1_000_000, rec, middle))

    def frame(self, raw: bytes, direction: Direction = "s2c", **more: Any) -> None:
        """Add a frame."""
        self.record("frame", frame_members(direction, raw, judge_exactly(raw, direction), **more))

    def header(self) -> None:
        """Add a header with secrets."""
        self.planted += [("header", needle) for needle in ("acme-billing", "ACME_BILLING_KEY", "acme-ide", "acme-src")]
        argv = ["/opt/acme-src/node", "/srv/acme-billing/x.js", *(secret.text for secret in self.secrets("argv"))]
        names = {secret.text: "hmac:0123456789abcdef" for secret in self.secrets("environment")}
        fields = {
            "format": 1,
            "capture": "ab" * 16,
            "segment": 1,
            "transport": "stdio",
            "name": "srv",
            "argv": argv,
            "cwd": "/srv/acme-billing",
            "env": {**names, "ACME_BILLING_KEY": "hmac:00112233aabbccdd"},
            "observed_start": True,
            "wall_ns": 1_700_000_000_000_000_000,
            "parents": [{"pid": 1, "start": 2, "exe": "acme-ide"}],
            "redactions": ["argv", "env"],
            "x_note": {"texts": [secret.text for secret in self.secrets("unknown member")]},
        }
        self.record("header", members(**fields))

    def frames(self) -> None:
        """Add every kind at every place, and in every spelling at one place."""
        for where, build in PLACES.items():
            for secret in self.secrets(where):
                self.frame(build(secret.text), "c2s" if where == "argument" else "s2c")
        for where, build in TORN.items():
            for secret in self.secrets(where):
                self.frame(build(secret.text), delim=b"", whole=False)
        for where, build in PAIRED.items():
            for secret in secrets(self.random):
                if secret.kind not in STAYS_IN_WORDS:
                    self.planted.append((f"{secret.kind}: {where}", secret.needle))
                    self.frame(build(secret.text))
        for where, spell in INSIDE.items():
            for secret in self.secrets(where):
                self.frame(PLACES["result"](spell(secret.text)))
        for where, spell in ENCODED.items():
            for secret in secrets(self.random):
                text = spell(secret.text)
                hidden = text.split()[1] if " " in text else text.partition(",")[2] or text
                self.planted.append((f"{secret.kind}: {where}", hidden))
                self.frame(PLACES["structured"](text))

    def named(self) -> None:
        """Add secrets that only their names reveal."""
        for name in ("password", "api_key", "clientSecret", "Authorization", "GITHUB_TOKEN", "Cookie", "x-api-key"):
            plain = "".join(self.random.choice(string.ascii_lowercase) for _ in range(12))
            self.planted.append((f"under {name}", plain))
            self.frame(_bytes(_message(result={"structuredContent": {name: plain, "l": {name: [plain]}}})))
        # So long that the digits are not part of a hash by chance; not the number of a card.
        for name, digits in (("pin", "7391482650173"), ("n", "4539148803436467")):
            self.planted.append((f"number {name}", digits))
            self.frame(b'{"jsonrpc":"2.0","id":7,"result":{"%b":%b}}' % (name.encode(), digits.encode()))

    def giant(self) -> None:
        """Add a frame in parts, cut inside a secret, and parts without an end."""
        found = self.secrets("parts")
        filler = FILLER * 7_000
        raw = PLACES["result"](filler + " ".join(secret.text for secret in found) + " " + filler)
        cut = raw.index(found[1].text.encode()) + 10
        pieces = [raw[cut - 50_000 : cut], raw[cut:]]
        pieces = [raw[: cut - 50_000], pieces[0], pieces[1][:50_000], pieces[1][50_000:]]
        for number, piece in enumerate(pieces, 1):
            self.record("part", part_members("s2c", number, piece))
        self.record("frame", frame_members("s2c", b"", judge_exactly(raw), parts=(len(pieces), len(raw))))
        for number, secret in enumerate(self.secrets("part without an end"), 1):
            self.record("part", part_members("c2s", number, b'{"a":' + _bytes(secret.text)))

    def others(self) -> None:
        """Add everything that is not a message."""
        for secret in self.secrets("stderr"):
            self.record("stderr", stderr_members(secret.text.encode()))
        for secret in self.secrets("unknown record"):
            self.record("x_thing", members(a=secret.text, b={secret.text: [secret.text]}))
        plain = b'{"jsonrpc":"2.0","id":7,"result":{}}'
        for secret in self.secrets("unknown member of a frame"):
            more = b',"x_more":' + _bytes(secret.text)
            self.record("frame", frame_members("s2c", plain, judge_exactly(plain)) + more)
        for secret in self.secrets("frame of no direction"):
            self.record("frame", b',"dir":"up","raw":' + _bytes(secret.text))
        for number, secret in enumerate(self.secrets("event id"), 1):
            text = secret.text.replace("\n", " ")
            self.frame(plain, conn=1, exchange=number, unit="sse_event", event_id=text)
            self.record("stream", members(conn=1, exchange=number, dir="s2c", event="opened", last_event_id=text))
        for number, secret in enumerate(self.secrets("HTTP"), 1):
            text = secret.text.replace("\n", " ")
            fields = [
                [name, text] for name in ("X-Custom", "Authorization", "User-Agent", "Mcp-Name", "Cookie", "Host")
            ]
            target = f"/mcp/{quote(text, safe=':@=')}?key={quote(text, safe='')}"
            request = {"method": "POST", "target": target, "version": "HTTP/1.1", "headers": fields}
            rest = {
                "error": f"failed: {text}",
                "metadata": json.dumps({"issuer": text}),
                "endpoints": [target],
                "rewritten": {"location": target} if number % 2 else text,  # which is not an object
            }
            self.record(
                "exchange",
                members(conn=1, exchange=number, stage="request", request=request, peer="10.1.2.3:5", **rest),
            )
        self.planted.append(("peer", "10.1.2.3"))


def tape(seed: int) -> Tape:
    """A capture with every kind of secret everywhere."""
    made = Tape(seed)
    made.header()
    made.frames()
    made.named()
    made.giant()
    made.others()
    made.record("close", members(ending="client", totals={}))
    return made
