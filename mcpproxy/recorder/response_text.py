"""Removes credentials from the text of a response that is not an MCP message.

A gateway's error page, a line such as `Invalid session` or an OAuth error is the first thing that people want to read
when a call is refused. Such bodies often repeat the request. So keyed hashes replace, as everywhere in a capture:

- every value that is left out of the exchange's stored heads: credentials, cookies, session ids, values of queries and
  segments of paths, both as they were sent and as HTML pages and JSON texts spell them
- the word after `Bearer`
- the values of members and parameters with the names of secrets, in JSON and in similar notations
- every word that mixes letters and digits or is unusually long, because it may be a credential of another exchange

A text that still contains a secret of the exchange, spelled with entities or escapes, is not kept at all. Only text is
kept, and at most `MAX_BODY_TEXT_BYTES` of it. Bodies are untrusted, so all patterns take linear time.
"""

import html
import re
import unicodedata
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Final
from urllib.parse import quote, unquote, unquote_to_bytes

from orjson import JSONDecodeError, dumps, loads

from captures.addresses import escaped_text
from captures.redact import PREFIX
from mcpproxy.recorder.header_redaction import ADDRESS_FIELDS, MAX_DOCUMENT_DEPTH, CleanAddress, HashSecret, is_kept
from mcpproxy.wire.framing import Fields

MAX_BODY_TEXT_BYTES: Final = 64 << 10
OAUTH_MEMBERS: Final = ("error", "error_description", "error_uri")
"""The members of an OAuth error that are meant for people (RFC 6749 §5.2, RFC 6750 §3)."""
MAX_OAUTH_MEMBER_CHARS: Final = 2048
MIN_SECRET_BYTES: Final = 4
"""Shorter values are not replaced: they are parts of ordinary words, and replacing those would make a page unreadable.
"""
MIN_VALUE_BYTES: Final = 6
"""The same minimum for values in queries and paths, which need not be credentials, such as `true`."""
MIN_FIELD_BYTES: Final = 8
"""The same minimum for fields that usually contain no credential, such as `http` in `X-Forwarded-Proto`."""
MAX_SECRET_SPELLINGS: Final = 256
"""If secrets have more spellings than this, no text is kept, because the search would take too long."""
_TEXT_MEDIA_TYPE: Final = re.compile(
    rb"(?i)\s*(?:text/(?!event-stream)|application/(?:[\w.-]*\+)?(?:json|xml)|$)"
).match
_CHARSET: Final = re.compile(
    rb'(?i);\s*charset\s*=\s*"?(utf-?(?:8|16(?:[lb]e)?)|us-ascii|iso-8859-\d{1,2}|latin-?1|windows-\d{3,4}|shift_jis'
    rb"|euc-(?:jp|kr)|gb(?:2312|k|18030)|big5|koi8-[ru])(?![\w-])"
).search
"""Python has other codecs, but some do not decode text, and some take quadratic time."""
_BEARER_TOKEN: Final = re.compile(
    r"(?i)\b(bearer(?:[\s:=+\"'`]|%20|&\w{2,6};|&#\d{2,3};|\\{1,8}[nt\"]){1,8})([^\s\"'<>&,;]++)"
)
_ODD_WORD: Final = re.compile(r"hmac:[0-9a-f]{16}(?![0-9a-f])|[A-Za-z0-9]{6,}+")
MAX_WORD_CHARS: Final = 20
"""The maximum number of letters in a word that is kept; longer words may be random."""
MAX_NUMBER_DIGITS: Final = 7
"""The maximum number of digits in a number that is kept, such as a status, a size, a year or a count."""
MAX_SECRET_PLACES: Final = 4096
"""If secrets occur in more places than this, no text is kept."""
_TAG: Final = re.compile(rf"{PREFIX}[0-9a-f]{{16}}")
_NO_LETTERS: Final = re.compile(r"[\W_]+")
_LONG_ENTITY: Final = re.compile(r"&#(?:\d{7}|x[0-9a-fA-F]{6})")
_COOKIE_FIELDS: Final = frozenset({b"cookie", b"set-cookie"})
_CREDENTIAL_FIELDS: Final = frozenset({b"authorization", b"proxy-authorization"})
_CREDENTIAL_WORD: Final = re.compile(rb"[^\s,;:=/\"]{6,}+(?!\s*=)")
"""Matches the parts of a credential that may be secret alone, such as the value of a parameter, but not its name."""
_ISSUING_FIELDS: Final = frozenset({b"set-cookie", b"mcp-session-id"})
"""The fields of responses that issue credentials; other fields that are left out are not secret, only not needed."""
_SECRET_NAME: Final = re.compile(
    r"(?i)token|secret|passw|pwd|auth[_-]?key|api[_-]?key|access[_-]?key|private[_-]?key|credential|authori[sz]ation"
    r"|cookie|signature|session[_-]?id|assertion|verifier"
).search
_PLAIN_NAMES: Final = frozenset({"token_type", "token_endpoint", "authorization_endpoint", "authorization_servers"})
_MEMBER_NAME: Final = re.compile(r'"((?:[^"\\\n]|\\.){1,200}+)"\s*+:\s*+')
_MEMBER_VALUE: Final = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|$)|\[\s*+\]|\{\s*+\}|[\[{](?s:.*)|[^\s,}\]"]*+')
"""Matches the value of a member in JSON that cannot be parsed; if it is not a scalar, the rest of the text."""
_TRIVIAL_VALUE: Final = re.compile(r'null|true|false|\d{1,6}|""|\[\s*+\]|\{\s*+\}|"hmac:[^"]*+"|').fullmatch
_QUOTE: Final = r"(?:\\{0,8}[\"']|&quot;|&#0{0,4}(?:34|39);)"
_QUOTED_MEMBER: Final = re.compile(
    rf"({_QUOTE}([\w.-]{{1,200}}+){_QUOTE}\s{{0,8}}[:=]\s{{0,8}}{_QUOTE})((?:(?!{_QUOTE}).){{1,8192}}+)"
)
"""Matches a member of JSON within a JSON string or an HTML page, or in another notation."""
_ASSIGNMENT: Final = re.compile(r"(?<![\w-])(([\w-]{1,100}+)=)([^\s&\"'<>;,]++)")
_ESCAPE: Final = re.compile(r"\\{1,8}u([0-9a-fA-F]{4})")


class TextCleaner:
    """Replaces credentials in the text of the responses to one request."""

    def __init__(
        self, target: bytes, request: Fields, response: Fields, hashed: HashSecret | None, clean: CleanAddress
    ) -> None:
        """Collect the secrets of an exchange.

        Args:
            target: the request's target, as sent.
            request: the header fields of the request.
            response: the header fields of the response.
            hashed: returns the keyed hash of a secret; None to replace nothing.
            clean: returns an address without secrets.
        """
        self._hash, self._clean = hashed, clean
        self._secrets: list[bytes] = []
        """The spellings of the secrets, in lower case, longest first."""
        self._longest_bytes = 0
        """The length of the longest spelling, in bytes."""
        self._has_too_many_secrets = False
        if hashed is not None:
            self._collect_secrets(target, request, response, clean)

    def _collect_secrets(self, target: bytes, request: Fields, response: Fields, clean: CleanAddress) -> None:
        secrets = dict.fromkeys(_secrets_of_target(target, clean))
        request_fields = [(name.lower(), value) for name, value in request]
        response_fields = [(name.lower(), value) for name, value in response]
        for name, value in request_fields:
            if name in ADDRESS_FIELDS:
                secrets.update(dict.fromkeys(_secrets_of_target(_after_host(value), clean)))
            elif not is_kept(name):
                secrets.update(dict.fromkeys(_secrets_of_field(name, value)))
        for name, value in response_fields:
            if name in ADDRESS_FIELDS:
                secrets.update(dict.fromkeys(_secrets_of_target(_after_host(value), clean)))
            elif name in _ISSUING_FIELDS or _is_secret_name(escaped_text(name)):
                secrets.update(dict.fromkeys(_secrets_of_field(name, value)))
        if len(secrets) > MAX_SECRET_SPELLINGS:
            self._has_too_many_secrets = True
            return
        spellings = dict.fromkeys(
            spelling for secret in secrets for spelling in _spellings(secret) if len(spelling) >= MIN_SECRET_BYTES
        )
        self._secrets = sorted(spellings, key=len, reverse=True)
        self._longest_bytes = len(self._secrets[0]) if spellings else 0
        self._has_too_many_secrets = len(spellings) > MAX_SECRET_SPELLINGS

    def cleaned_text(self, text: str) -> str:
        """Returns a text without the credentials that can be recognised in any text; empty if they are too many."""
        hash_secret = self._hash
        if hash_secret is None:
            return text
        raw = text.encode("utf-8", "replace")
        # Separate searches are many times faster than one pattern for all secrets, and other traffic waits for them.
        lower_text = raw.lower()
        secret_spans = list(
            islice(
                (span for secret in self._secrets for span in _spans_of_word(lower_text, secret)), MAX_SECRET_PLACES + 1
            )
        )
        if len(secret_spans) > MAX_SECRET_PLACES:
            return ""
        pieces, copied_to = list[bytes](), 0
        for start, end in _merged_spans(secret_spans):
            pieces += (raw[copied_to:start], hash_secret(raw[start:end]).encode())
            copied_to = end
        text = b"".join((*pieces, raw[copied_to:])).decode("utf-8", "replace")
        if b"bearer" in lower_text:
            text = _BEARER_TOKEN.sub(partial(_without_token, hash_secret), text)
        return _ODD_WORD.sub(partial(_without_odd_word, hash_secret), text)

    def cleaned_body(self, body: bytes, media_type: bytes, *, is_cut: bool = False) -> str | None:
        """Returns the text of a body, or of its beginning, without credentials, or None if the body is not text.

        Args:
            body: the body, without transfer and content codings.
            media_type: the whole value of `Content-Type`; empty if there is none.
            is_cut: whether the end of the body is missing.
        """
        if not _TEXT_MEDIA_TYPE(media_type) or self._has_too_many_secrets:
            return None
        text = _decoded_text(body[:MAX_BODY_TEXT_BYTES], media_type)
        if text is None or self._hash is None:
            return text
        is_cut = is_cut or len(body) > MAX_BODY_TEXT_BYTES
        document = None if is_cut else _parsed_document(body)
        if document is not None and (cleaned_document := _cleaned_document(document, self._hash)) != document:
            # The text is rewritten only if the document contains a secret.
            text = dumps(cleaned_document).decode()
        # The text is searched, too, because the parser drops duplicate members, and strings may contain JSON.
        text = self.cleaned_text(_without_members(text, self._hash))
        if self._contains_secret(text):
            return None
        # A secret at the cut would not be recognised, so as many bytes as the longest secret has are dropped.
        text = text[: -self._longest_bytes] if is_cut and self._longest_bytes else text
        return text[:MAX_BODY_TEXT_BYTES] or None

    def _contains_secret(self, text: str) -> bool:
        """Returns whether a text still contains a secret in a spelling that was not replaced."""
        decoded_texts = [html.unescape(_LONG_ENTITY.sub("", text))] if "&" in text else []
        decoded_texts += [unquote(text)] if "%" in text else []
        decoded_texts += [_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)] if "\\u" in text else []
        lower_texts = [decoded_text.encode("utf-8", "replace").lower() for decoded_text in decoded_texts]
        return any(secret in decoded_text for decoded_text in lower_texts for secret in self._secrets)

    def _hints_at_secret(self, text: str) -> bool:
        """Returns whether a text contains a secret that is interspersed, reversed or in other forms of its letters."""
        letters = _letters(_TAG.sub(" ", text))
        secrets = {_letters(secret.decode("utf-8", "replace")) for secret in self._secrets}
        return any(
            len(secret) >= MIN_VALUE_BYTES and (secret in letters or secret[::-1] in letters) for secret in secrets
        )

    def cleaned_texts(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Returns named texts, shortened and without credentials; omits those that still contain one."""
        cleaned_texts: dict[str, str] = {}
        for name, whole_text in texts.items() if not self._has_too_many_secrets else ():
            text = whole_text[:MAX_OAUTH_MEMBER_CHARS]
            if name == "error_uri":
                text = self._clean(text.encode("utf-8", "replace"))
            if self._hash is not None:
                text = self.cleaned_text(_without_members(text, self._hash))
            if len(whole_text) > MAX_OAUTH_MEMBER_CHARS and self._longest_bytes:
                text = text[: -self._longest_bytes]  # a secret at the cut would not be recognised
            if not self._contains_secret(text) and not self._hints_at_secret(text):
                cleaned_texts[name] = text
        return cleaned_texts


def _letters(text: str) -> str:
    """Returns the letters and digits of a text in their usual form, in lower case."""
    return _NO_LETTERS.sub("", unicodedata.normalize("NFKC", text).lower())


def _without_members(text: str, hash_secret: HashSecret) -> str:
    """Returns a text with hashes in place of the values of members whose names suggest secrets."""
    pieces, copied_to = list[str](), 0
    for name in _MEMBER_NAME.finditer(text):
        value = _MEMBER_VALUE.match(text, name.end())
        if name.start() < copied_to or value is None or not _is_secret_name(name[1]) or _TRIVIAL_VALUE(value[0]):
            continue
        pieces += (text[copied_to : name.end()], f'"{hash_secret(value[0].encode("utf-8", "replace"))}"')
        copied_to = value.end()
    text = "".join((*pieces, text[copied_to:]))
    for pattern in (_QUOTED_MEMBER, _ASSIGNMENT):
        text = pattern.sub(partial(_without_value, hash_secret), text)
    return text


def _without_token(hash_secret: HashSecret, match: re.Match[str]) -> str:
    word = match[2].strip(".:!?)")
    is_word = word.isalpha() and word.islower() and len(word) <= MAX_WORD_CHARS
    return (
        match[0] if is_word or word.startswith(PREFIX) else match[1] + hash_secret(match[2].encode("utf-8", "replace"))
    )


def _without_odd_word(hash_secret: HashSecret, match: re.Match[str]) -> str:
    word = match[0]
    if word.startswith(PREFIX) or (word.isalpha() and len(word) <= MAX_WORD_CHARS):
        return word
    return word if word.isdigit() and len(word) <= MAX_NUMBER_DIGITS else hash_secret(word.encode())


def _without_value(hash_secret: HashSecret, match: re.Match[str]) -> str:
    is_tag = match[3].startswith(PREFIX)
    return (
        match[1] + hash_secret(match[3].encode("utf-8", "replace"))
        if _is_secret_name(match[2]) and not is_tag
        else match[0]
    )


def _cleaned_document(value: Any, hash_secret: HashSecret, depth: int = 0) -> Any:
    """Returns a document with hashes in place of secret members; containers nested too deeply become None."""
    if not isinstance(value, (dict, list)):
        return value
    if depth > MAX_DOCUMENT_DEPTH:
        return None
    if isinstance(value, list):
        return [_cleaned_document(item, hash_secret, depth + 1) for item in value]
    return {
        name: value_hash(item, hash_secret)
        if _is_secret_name(name) and not is_trivial(item)
        else _cleaned_document(item, hash_secret, depth + 1)
        for name, item in value.items()
    }


def is_trivial(value: Any) -> bool:
    """Returns whether a value is too simple to be a secret: empty, a Boolean or a short number."""
    return not value or value is True or (isinstance(value, int) and abs(value) < 10**6)


def value_hash(value: Any, hash_secret: HashSecret) -> str:
    """Returns the hash of a text, or of any other JSON value as it is serialised."""
    if isinstance(value, str):
        return hash_secret(value.encode("utf-8", "replace"))
    try:
        return hash_secret(dumps(value))
    except TypeError:  # the value is nested too deeply to be serialised
        return hash_secret(b"")


def _is_secret_name(name: str) -> bool:
    return name not in _PLAIN_NAMES and _SECRET_NAME(name) is not None


def _decoded_text(body: bytes, media_type: bytes) -> str | None:
    charset = _CHARSET(media_type)
    try:
        text = body.decode(charset[1].decode() if charset else "utf-8", "replace")
    except (LookupError, ValueError):
        text = body.decode("utf-8", "replace")
    text = text.removeprefix("\ufeff")
    odd_chars = text.count("\ufffd") + text.count("\0")
    return text if text.strip() and odd_chars * 10 < len(text) else None


def _parsed_document(body: bytes) -> Any:
    """Returns a parsed JSON object or array, or None for anything else."""
    try:
        document = loads(body) if body.lstrip()[:1] in (b"{", b"[") else None
    except JSONDecodeError:
        return None
    return document


def _secrets_of_target(target: bytes, clean: CleanAddress) -> Iterator[bytes]:
    path, _, query = target.partition(b"?")
    for segment in path.split(b"/"):
        if len(segment) >= MIN_VALUE_BYTES and clean(b"/" + segment) != "/" + escaped_text(segment):
            yield segment
    for word in query.split(b"&"):
        name, _, value = word.partition(b"=")
        min_length = MIN_SECRET_BYTES if _is_secret_name(escaped_text(name)) else MIN_VALUE_BYTES
        if len(value or word) >= min_length and clean(b"?" + word) != "?" + escaped_text(word):
            yield value or word


def _after_host(address: bytes) -> bytes:
    _, separator, host_and_path = address.partition(b"://")
    return b"/" + host_and_path.partition(b"/")[2] if separator else address


def _secrets_of_field(name: bytes, value: bytes) -> Iterator[bytes]:
    value = value.strip()
    if not value:
        return
    if name in _COOKIE_FIELDS:
        for part in value.split(b";")[: 1 if name == b"set-cookie" else None]:
            yield (part.partition(b"=")[2] or part).strip(b'" ')
        return
    scheme, *credentials = value.split(None, 1)
    credential = b"".join(credentials)
    if name in _CREDENTIAL_FIELDS and credential:
        yield credential.strip()
        yield from _CREDENTIAL_WORD.findall(credential)
        if scheme.lower() == b"basic":
            try:
                user_and_password = b64decode(credential.strip())
            except ValueError:
                return
            yield user_and_password
            user, _, password = user_and_password.partition(b":")
            yield password
            if len(user) >= MIN_FIELD_BYTES or not password:
                yield user
        return
    min_length = (
        MIN_SECRET_BYTES
        if name in _CREDENTIAL_FIELDS | _ISSUING_FIELDS or _is_secret_name(escaped_text(name))
        else MIN_FIELD_BYTES
    )
    for part in dict.fromkeys((value, *value.split(b","))):
        if len(part.strip()) >= min_length:
            yield part.strip()


def _spellings(secret: bytes) -> Iterator[bytes]:
    for form in (secret, unquote_to_bytes(secret)):
        text = form.decode("utf-8", "replace")
        json_text = dumps(text)[1:-1].decode()
        for spelling in (text, html.escape(text), json_text, json_text.replace("/", "\\/"), quote(form, safe="")):
            yield spelling.encode().lower()


def _spans_of_word(text: bytes, word: bytes) -> Iterator[tuple[int, int]]:
    start = text.find(word)
    while start >= 0:
        yield start, start + len(word)
        start = text.find(word, start + len(word))


def _merged_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the spans in order, with overlapping ones merged."""
    merged = list[tuple[int, int]]()
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
