"""What the body of a response says that is no MCP message: its text, without the credentials that it may repeat.

A gateway's page, a line such as `Invalid session` or an OAuth error is the first thing that people want to read when a
call is refused. Such bodies often repeat the request, so keyed hashes replace, as everywhere in a capture:

- every value that the exchange's heads are not stored with: credentials, cookies, session ids, values of queries and
  segments of paths; as they were sent, and as pages and JSON texts spell them
- what follows the word `Bearer`
- values of JSON members whose names are those of secrets

Only text is kept, and at most `KEPT_BYTES` of it. All patterns take linear time, as bodies are untrusted.
"""

import html
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

from orjson import JSONDecodeError, dumps, loads

from mcpproxy.recorder.header_redaction import ADDRESSES, DEEPEST, Clean, Hash, is_kept
from mcpproxy.wire.framing import Fields

KEPT_BYTES: Final = 64 << 10
OAUTH_MEMBERS: Final = ("error", "error_description", "error_uri")
"""What an OAuth error says for people (RFC 6749 §5.2, RFC 6750 §3)."""
LONGEST_MEMBER: Final = 2048
SHORTEST_SECRET: Final = 4
"""Shorter values are parts of other words: replacing them would hide what a page says, and hide no secret."""
MOST_SPELLINGS: Final = 256
"""With more of them, nothing is kept: to look for them all would take too long."""
_TEXT: Final = re.compile(rb"(?i)\s*(?:text/(?!event-stream)|application/(?:[\w.-]*\+)?(?:json|xml)|$)").match
_CHARSET: Final = re.compile(rb'(?i);\s*charset\s*=\s*"?([\w.:-]{1,40})').search
_BEARER: Final = re.compile(
    r"(?i)\b(bearer\s{1,8})(?!(?:tokens?|auth\w*|scheme|realm|error|resource_metadata|scope)\b)([\w.~+/=:-]++)"
)
_GIVEN_OUT: Final = frozenset({b"set-cookie", b"mcp-session-id"})
"""Fields of responses that give out credentials; the values of others are no secrets, only not needed."""
_SECRET_NAME: Final = re.compile(
    r"(?i)token|secret|passw|pwd|api[_-]?key|access[_-]?key|private[_-]?key|credential|authori[sz]ation|cookie"
    r"|signature|session[_-]?id|assertion|verifier"
).search
_PLAIN_NAMES: Final = frozenset({"token_type", "token_endpoint", "authorization_endpoint", "authorization_servers"})
_NAME: Final = re.compile(r'"((?:[^"\\\n]|\\.){1,200}+)"\s*+:\s*+')
_VALUE: Final = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|$)|[\[{](?s:.*)|[^\s,}\]"]*+')
"""The value of a member in a JSON text that cannot be parsed; all that follows if it is no scalar."""


class Cleaner:
    """Replaces credentials in what the responses to one request say."""

    def __init__(self, target: bytes, request: Fields, response: Fields, hashed: Hash | None, clean: Clean) -> None:
        """Find out what is secret.

        Args:
            target: of the request, as sent.
            request: its header fields.
            response: those of the response.
            hashed: makes a keyed hash of a secret; None to replace nothing.
            clean: makes an address without secrets.
        """
        self._hash, self._clean = hashed, clean
        self._secrets: list[bytes] = []
        """What may stand for a secret, in lower case, the longest first."""
        self._longest = 0
        """Bytes of the longest."""
        self._has_too_many = False
        if hashed is not None:
            self._find(target, request, response, clean)

    def _find(self, target: bytes, request: Fields, response: Fields, clean: Clean) -> None:
        found = dict.fromkeys(_of_target(target, clean))
        asked = [(name.lower(), value) for name, value in request]
        given = [(name.lower(), value) for name, value in response]
        for name, value in asked:
            if name in ADDRESSES:
                found.update(dict.fromkeys(_of_target(_after_host(value), clean)))
            elif not is_kept(name):
                found.update(dict.fromkeys(_of_field(name, value)))
        for name, value in given:
            if name in _GIVEN_OUT:
                found.update(dict.fromkeys(_of_field(name, value)))
        if len(found) > MOST_SPELLINGS:
            self._has_too_many = True
            return
        spelt = dict.fromkeys(form for secret in found for form in _spellings(secret) if len(form) >= SHORTEST_SECRET)
        self._secrets = sorted(spelt, key=len, reverse=True)
        self._longest = len(self._secrets[0]) if spelt else 0
        self._has_too_many = len(spelt) > MOST_SPELLINGS

    def text(self, text: str) -> str:
        """A text without the credentials that are recognised in text of any kind."""
        hashed = self._hash
        if hashed is None:
            return text
        raw = text.encode("utf-8", "replace")
        # A search for each is many times as fast as a pattern of all, and the traffic of others waits for it.
        lower = raw.lower()
        kept, done = list[bytes](), 0
        for start, end in _apart(span for secret in self._secrets for span in _places(lower, secret)):
            kept += (raw[done:start], hashed(raw[start:end]).encode())
            done = end
        text = b"".join((*kept, raw[done:])).decode("utf-8", "replace")
        if b"bearer" not in lower:
            return text
        return _BEARER.sub(lambda found: found[1] + hashed(found[2].encode("utf-8", "replace")), text)

    def body(self, body: bytes, media_type: bytes) -> str | None:
        """The text of a body, or of its beginning, without credentials; None if it is no text.

        Args:
            body: without transfer and content codings.
            media_type: the whole value of `Content-Type`; empty if there is none.
        """
        if not _TEXT(media_type) or self._has_too_many:
            return None
        text = _decoded(body[:KEPT_BYTES], media_type)
        if text is None or self._hash is None:
            return text
        document = _document(body) if len(body) <= KEPT_BYTES else None
        if document is None:
            text = self.text(_without_members(text, self._hash))
            # A secret that was cut is not recognised.
            return text[: -self._longest] if len(body) > KEPT_BYTES and self._longest else text[:KEPT_BYTES]
        # The text stays as it was sent unless it holds a secret.
        cleaned = _cleaned(document, self._hash)
        return self.text(text if cleaned == document else dumps(cleaned).decode())[:KEPT_BYTES]

    def oauth_error(self, body: bytes) -> dict[str, str] | None:
        """The members of an OAuth error that speak to people; None if there are none."""
        document = None if self._has_too_many else _document(body)
        if not isinstance(document, dict) or not isinstance(document.get("error"), str):
            return None
        said = {name: value for name in OAUTH_MEMBERS if isinstance(value := document.get(name), str)}
        return {
            name: self._clean(value.encode()) if name == "error_uri" else self.text(value)[:LONGEST_MEMBER]
            for name, value in said.items()
        }


def _without_members(text: str, hashed: Hash) -> str:
    """A text with hashes in place of the values of what looks like secret members."""
    kept, done = list[str](), 0
    for name in _NAME.finditer(text):
        value = _VALUE.match(text, name.end())
        if name.start() < done or value is None or not _is_secret(name[1]):
            continue
        kept += (text[done : name.end()], f'"{hashed(value[0].encode("utf-8", "replace"))}"')
        done = value.end()
    return "".join((*kept, text[done:]))


def _cleaned(value: Any, hashed: Hash, depth: int = 0) -> Any:
    """A document in which the values of secret members are hashes; what is nested too deeply is left out."""
    if not isinstance(value, (dict, list)):
        return value
    if depth > DEEPEST:
        return None
    if isinstance(value, list):
        return [_cleaned(item, hashed, depth + 1) for item in value]
    return {
        name: hashed(dumps(item)) if _is_secret(name) and item else _cleaned(item, hashed, depth + 1)
        for name, item in value.items()
    }


def _is_secret(name: str) -> bool:
    return name not in _PLAIN_NAMES and _SECRET_NAME(name) is not None


def _decoded(body: bytes, media_type: bytes) -> str | None:
    named = _CHARSET(media_type)
    try:
        text = body.decode(named[1].decode() if named else "utf-8", "replace")
    except LookupError:
        text = body.decode("utf-8", "replace")
    text = text.removeprefix("\ufeff")
    odd = text.count("\ufffd") + text.count("\0")
    return text if text.strip() and odd * 10 < len(text) else None


def _document(body: bytes) -> Any:
    """A parsed JSON object or array; None for anything else."""
    try:
        document = loads(body) if body.lstrip()[:1] in (b"{", b"[") else None
    except JSONDecodeError:
        return None
    return document


def _of_target(target: bytes, clean: Clean) -> Iterator[bytes]:
    path, _, query = target.partition(b"?")
    for segment in path.split(b"/"):
        if clean(b"/" + segment) != "/" + segment.decode("utf-8", "backslashreplace"):
            yield segment
    for word in query.split(b"&"):
        if clean(b"?" + word) != "?" + word.decode("utf-8", "backslashreplace"):
            yield word.partition(b"=")[2] or word


def _after_host(address: bytes) -> bytes:
    _, marks, rest = address.partition(b"://")
    return b"/" + rest.partition(b"/")[2] if marks else address


def _of_field(name: bytes, value: bytes) -> Iterator[bytes]:
    if name in (b"authorization", b"proxy-authorization") and b" " in value:
        scheme, _, credential = value.partition(b" ")
        yield credential.strip()
        if scheme.lower() == b"basic":
            try:
                pair = b64decode(credential.strip())
            except ValueError:
                return
            yield pair
            yield pair.partition(b":")[2]
    elif name in (b"cookie", b"set-cookie"):
        for part in value.split(b";")[: 1 if name == b"set-cookie" else None]:
            yield part.partition(b"=")[2].strip()
    else:
        yield value


def _spellings(secret: bytes) -> Iterator[bytes]:
    for form in (secret, unquote_to_bytes(secret)):
        text = form.decode("utf-8", "replace")
        for spelt in (text, html.escape(text), dumps(text)[1:-1].decode(), quote(form, safe="")):
            yield spelt.encode().lower()


def _places(text: bytes, word: bytes) -> Iterator[tuple[int, int]]:
    at = text.find(word)
    while at >= 0:
        yield at, at + len(word)
        at = text.find(word, at + len(word))


def _apart(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same places in order, with one for those that overlap."""
    apart = list[tuple[int, int]]()
    for start, end in sorted(spans):
        if apart and start < apart[-1][1]:
            apart[-1] = apart[-1][0], max(end, apart[-1][1])
        else:
            apart.append((start, end))
    return apart
