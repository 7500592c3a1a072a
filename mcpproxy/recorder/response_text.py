"""The text of a response that is not an MCP message, without the credentials that it may repeat.

A gateway's page, a line such as `Invalid session` or an OAuth error is the first thing that people want to read when a
call is refused. Such bodies often repeat the request, so keyed hashes replace, as everywhere in a capture:

- every value that is left out of the exchange's stored heads: credentials, cookies, session ids, values of queries and
  segments of paths; as they were sent, and as pages and JSON texts spell them
- what follows the word `Bearer`
- values of members and parameters whose names are those of secrets, in JSON and wherever a text spells them alike
- every word that mixes letters and digits or is unusually long, because it may be a credential of another exchange

A text that still spells a secret of the exchange, by entities or escapes, is not kept at all. Nor is anything but text,
or more than `MAX_BODY_TEXT_BYTES` of it. All patterns take linear time, as bodies are untrusted.
"""

import html
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final
from urllib.parse import quote, unquote, unquote_to_bytes

from orjson import JSONDecodeError, dumps, loads

from captures.redact import PREFIX
from mcpproxy.recorder.header_redaction import ADDRESSES, MAX_DOCUMENT_DEPTH, Clean, Hash, is_kept
from mcpproxy.wire.framing import Fields

MAX_BODY_TEXT_BYTES: Final = 64 << 10
OAUTH_MEMBERS: Final = ("error", "error_description", "error_uri")
"""The members of an OAuth error that are meant for people (RFC 6749 §5.2, RFC 6750 §3)."""
MAX_OAUTH_MEMBER_CHARS: Final = 2048
SHORTEST_SECRET: Final = 4
"""Shorter values are parts of other words: replacing them would hide what a page says, and hide no secret."""
SHORTEST_VALUE: Final = 6
"""The same for values that need not be credentials: of queries and paths, such as `true`."""
SHORTEST_FIELD: Final = 8
"""The same for fields that are not known to hold one, such as `http` in `X-Forwarded-Proto`."""
MAX_SECRET_SPELLINGS: Final = 256
"""With more of them, nothing is kept: searching for all of them would take too long."""
_TEXT: Final = re.compile(rb"(?i)\s*(?:text/(?!event-stream)|application/(?:[\w.-]*\+)?(?:json|xml)|$)").match
_CHARSET: Final = re.compile(
    rb'(?i);\s*charset\s*=\s*"?(utf-?(?:8|16(?:[lb]e)?)|us-ascii|iso-8859-\d{1,2}|latin-?1|windows-\d{3,4}|shift_jis'
    rb"|euc-(?:jp|kr)|gb(?:2312|k|18030)|big5|koi8-[ru])(?![\w-])"
).search
"""Python has other codecs, but some do not decode text, and some take quadratic time."""
_BEARER: Final = re.compile(
    r"(?i)\b(bearer(?:[\s:=+\"'`]|%20|&\w{2,6};|&#\d{2,3};|\\{1,8}[nt\"]){1,8})([^\s\"'<>&,;]++)"
)
_ODD_WORD: Final = re.compile(r"hmac:[0-9a-f]{16}(?![0-9a-f])|[A-Za-z0-9]{6,}+")
MAX_WORD_CHARS: Final = 20
"""Letters in a word that is kept; longer ones may be random."""
MAX_NUMBER_DIGITS: Final = 7
"""Digits of a number that is kept: a status, a size, a year or a count."""
MAX_SECRET_PLACES: Final = 4096
"""If secrets occur in more places than this, nothing is kept."""
_LONG_ENTITY: Final = re.compile(r"&#(?:\d{7}|x[0-9a-fA-F]{6})")
_COOKIES: Final = frozenset({b"cookie", b"set-cookie"})
_CREDENTIALS: Final = frozenset({b"authorization", b"proxy-authorization"})
_GIVEN_OUT: Final = frozenset({b"set-cookie", b"mcp-session-id"})
"""Fields of responses that give out credentials; the values of others are not secret, only not needed."""
_SECRET_NAME: Final = re.compile(
    r"(?i)token|secret|passw|pwd|auth[_-]?key|api[_-]?key|access[_-]?key|private[_-]?key|credential|authori[sz]ation"
    r"|cookie|signature|session[_-]?id|assertion|verifier"
).search
_PLAIN_NAMES: Final = frozenset({"token_type", "token_endpoint", "authorization_endpoint", "authorization_servers"})
_NAME: Final = re.compile(r'"((?:[^"\\\n]|\\.){1,200}+)"\s*+:\s*+')
_VALUE: Final = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|$)|\[\s*+\]|\{\s*+\}|[\[{](?s:.*)|[^\s,}\]"]*+')
"""The value of a member in JSON that cannot be parsed; unless it is a scalar, the rest of the text."""
_SAYS_NOTHING: Final = re.compile(r'null|true|false|\d{1,6}|""|\[\s*+\]|\{\s*+\}|"hmac:[^"]*+"|').fullmatch
_QUOTE: Final = r"(?:\\{0,8}[\"']|&quot;|&#0{0,4}(?:34|39);)"
_QUOTED_MEMBER: Final = re.compile(
    rf"({_QUOTE}([\w.-]{{1,200}}+){_QUOTE}\s{{0,8}}[:=]\s{{0,8}}{_QUOTE})((?:(?!{_QUOTE}).){{1,8192}}+)"
)
"""A member of JSON within a JSON string or a page, or in a program's own notation."""
_ASSIGNED: Final = re.compile(r"(?<![\w-])(([\w-]{1,100}+)=)([^\s&\"'<>;,]++)")
_ESCAPE: Final = re.compile(r"\\{1,8}u([0-9a-fA-F]{4})")


class Cleaner:
    """Replaces credentials in the text of the responses to one request."""

    def __init__(self, target: bytes, request: Fields, response: Fields, hashed: Hash | None, clean: Clean) -> None:
        """Find out what is secret.

        Args:
            target: the request's target, as sent.
            request: the header fields of the request.
            response: the header fields of the response.
            hashed: makes a keyed hash of a secret; None to replace nothing.
            clean: makes an address without secrets.
        """
        self._hash, self._clean = hashed, clean
        self._secrets: list[bytes] = []
        """What may stand for a secret, in lower case, the longest first."""
        self._longest = 0
        """Bytes of the longest of them."""
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
            if name in ADDRESSES:
                found.update(dict.fromkeys(_of_target(_after_host(value), clean)))
            elif name in _GIVEN_OUT or _is_secret(_plain(name)):
                found.update(dict.fromkeys(_of_field(name, value)))
        if len(found) > MAX_SECRET_SPELLINGS:
            self._has_too_many = True
            return
        spelt = dict.fromkeys(form for secret in found for form in _spellings(secret) if len(form) >= SHORTEST_SECRET)
        self._secrets = sorted(spelt, key=len, reverse=True)
        self._longest = len(self._secrets[0]) if spelt else 0
        self._has_too_many = len(spelt) > MAX_SECRET_SPELLINGS

    def text(self, text: str) -> str:
        """A text without the credentials that are recognised in text of any kind; empty if it holds very many."""
        hashed = self._hash
        if hashed is None:
            return text
        raw = text.encode("utf-8", "replace")
        # Searching for each is many times as fast as one pattern for all, and other traffic waits for it.
        lower = raw.lower()
        places = list(
            islice((span for secret in self._secrets for span in _places(lower, secret)), MAX_SECRET_PLACES + 1)
        )
        if len(places) > MAX_SECRET_PLACES:
            return ""
        kept, done = list[bytes](), 0
        for start, end in _apart(places):
            kept += (raw[done:start], hashed(raw[start:end]).encode())
            done = end
        text = b"".join((*kept, raw[done:])).decode("utf-8", "replace")
        if b"bearer" in lower:
            text = _BEARER.sub(partial(_without_token, hashed), text)
        return _ODD_WORD.sub(partial(_without_odd_word, hashed), text)

    def body(self, body: bytes, media_type: bytes, *, is_cut: bool = False) -> str | None:
        """The text of a body, or of its beginning, without credentials; returns None if the body is not text.

        Args:
            body: without transfer and content codings.
            media_type: the whole value of `Content-Type`; empty if there is none.
            is_cut: whether more of it was to come.
        """
        if not _TEXT(media_type) or self._has_too_many:
            return None
        text = _decoded(body[:MAX_BODY_TEXT_BYTES], media_type)
        if text is None or self._hash is None:
            return text
        is_cut = is_cut or len(body) > MAX_BODY_TEXT_BYTES
        document = None if is_cut else _document(body)
        if document is not None and (cleaned := _cleaned(document, self._hash)) != document:
            # Otherwise the text stays as it was sent.
            text = dumps(cleaned).decode()
        # In the text, too: a parser drops duplicate members, and texts may hold JSON.
        text = self.text(_without_members(text, self._hash))
        if self._is_spelt_in(text):
            return None
        # A secret that was cut is not recognised.
        text = text[: -self._longest] if is_cut and self._longest else text
        return text[:MAX_BODY_TEXT_BYTES] or None

    def _is_spelt_in(self, text: str) -> bool:
        """Whether a text still spells a secret, in a way that nothing replaces."""
        views = [html.unescape(_LONG_ENTITY.sub("", text))] if "&" in text else []
        views += [unquote(text)] if "%" in text else []
        views += [_ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)] if "\\u" in text else []
        lower = [view.encode("utf-8", "replace").lower() for view in views]
        return any(secret in view for view in lower for secret in self._secrets)

    def cleaned(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Named texts without credentials, shortened; leaves out those that still spell one."""
        cleaned: dict[str, str] = {}
        for name, whole in texts.items() if not self._has_too_many else ():
            text = whole[:MAX_OAUTH_MEMBER_CHARS]
            if name == "error_uri":
                text = self._clean(text.encode("utf-8", "replace"))
            if self._hash is not None:
                text = self.text(_without_members(text, self._hash))
            if len(whole) > MAX_OAUTH_MEMBER_CHARS and self._longest:
                text = text[: -self._longest]  # a secret that was cut is not recognised
            if not self._is_spelt_in(text):
                cleaned[name] = text
        return cleaned


def _without_members(text: str, hashed: Hash) -> str:
    """A text with hashes in place of the values of what looks like secret members."""
    kept, done = list[str](), 0
    for name in _NAME.finditer(text):
        value = _VALUE.match(text, name.end())
        if name.start() < done or value is None or not _is_secret(name[1]) or _SAYS_NOTHING(value[0]):
            continue
        kept += (text[done : name.end()], f'"{hashed(value[0].encode("utf-8", "replace"))}"')
        done = value.end()
    text = "".join((*kept, text[done:]))
    for pattern in (_QUOTED_MEMBER, _ASSIGNED):
        text = pattern.sub(partial(_without_value, hashed), text)
    return text


def _without_token(hashed: Hash, found: re.Match[str]) -> str:
    word = found[2].strip(".:!?)")
    is_word = word.isalpha() and word.islower() and len(word) <= MAX_WORD_CHARS
    return found[0] if is_word or word.startswith(PREFIX) else found[1] + hashed(found[2].encode("utf-8", "replace"))


def _without_odd_word(hashed: Hash, found: re.Match[str]) -> str:
    word = found[0]
    if word.startswith(PREFIX) or (word.isalpha() and len(word) <= MAX_WORD_CHARS):
        return word
    return word if word.isdigit() and len(word) <= MAX_NUMBER_DIGITS else hashed(word.encode())


def _without_value(hashed: Hash, found: re.Match[str]) -> str:
    is_tag = found[3].startswith(PREFIX)
    return found[1] + hashed(found[3].encode("utf-8", "replace")) if _is_secret(found[2]) and not is_tag else found[0]


def _cleaned(value: Any, hashed: Hash, depth: int = 0) -> Any:
    """A document in which the values of secret members are hashes; what is nested too deeply is left out."""
    if not isinstance(value, (dict, list)):
        return value
    if depth > MAX_DOCUMENT_DEPTH:
        return None
    if isinstance(value, list):
        return [_cleaned(item, hashed, depth + 1) for item in value]
    return {
        name: _tag(item, hashed) if _is_secret(name) and not _is_nothing(item) else _cleaned(item, hashed, depth + 1)
        for name, item in value.items()
    }


def _is_nothing(value: Any) -> bool:
    return not value or value is True or (isinstance(value, int) and abs(value) < 10**6)


def _tag(value: Any, hashed: Hash) -> str:
    if isinstance(value, str):
        return hashed(value.encode("utf-8", "replace"))
    try:
        return hashed(dumps(value))
    except TypeError:  # it is nested too deeply to be written
        return hashed(b"")


def _is_secret(name: str) -> bool:
    return name not in _PLAIN_NAMES and _SECRET_NAME(name) is not None


def _decoded(body: bytes, media_type: bytes) -> str | None:
    named = _CHARSET(media_type)
    try:
        text = body.decode(named[1].decode() if named else "utf-8", "replace")
    except (LookupError, ValueError):
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
        if len(segment) >= SHORTEST_VALUE and clean(b"/" + segment) != "/" + _plain(segment):
            yield segment
    for word in query.split(b"&"):
        name, _, value = word.partition(b"=")
        shortest = SHORTEST_SECRET if _is_secret(_plain(name)) else SHORTEST_VALUE
        if len(value or word) >= shortest and clean(b"?" + word) != "?" + _plain(word):
            yield value or word


def _plain(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _after_host(address: bytes) -> bytes:
    _, marks, rest = address.partition(b"://")
    return b"/" + rest.partition(b"/")[2] if marks else address


def _of_field(name: bytes, value: bytes) -> Iterator[bytes]:
    value = value.strip()
    if not value:
        return
    if name in _COOKIES:
        for part in value.split(b";")[: 1 if name == b"set-cookie" else None]:
            yield (part.partition(b"=")[2] or part).strip(b'" ')
        return
    scheme, *rest = value.split(None, 1)
    credential = b"".join(rest)
    if name in _CREDENTIALS and credential:
        yield credential.strip()
        if scheme.lower() == b"basic":
            try:
                pair = b64decode(credential.strip())
            except ValueError:
                return
            yield pair
            user, _, password = pair.partition(b":")
            yield password
            if len(user) >= SHORTEST_FIELD or not password:
                yield user
        return
    shortest = SHORTEST_SECRET if name in _CREDENTIALS | _GIVEN_OUT or _is_secret(_plain(name)) else SHORTEST_FIELD
    for part in dict.fromkeys((value, *value.split(b","))):
        if len(part.strip()) >= shortest:
            yield part.strip()


def _spellings(secret: bytes) -> Iterator[bytes]:
    for form in (secret, unquote_to_bytes(secret)):
        text = form.decode("utf-8", "replace")
        quoted = dumps(text)[1:-1].decode()
        for spelt in (text, html.escape(text), quoted, quoted.replace("/", "\\/"), quote(form, safe="")):
            yield spelt.encode().lower()


def _places(text: bytes, word: bytes) -> Iterator[tuple[int, int]]:
    at = text.find(word)
    while at >= 0:
        yield at, at + len(word)
        at = text.find(word, at + len(word))


def _apart(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same spans in order, overlapping ones merged."""
    apart = list[tuple[int, int]]()
    for start, end in sorted(spans):
        if apart and start < apart[-1][1]:
            apart[-1] = apart[-1][0], max(end, apart[-1][1])
        else:
            apart.append((start, end))
    return apart
