"""Reads the parameters of authorization requests and responses: of queries, forms, JSON objects and redirects."""

import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus, unquote_to_bytes

from orjson import JSONDecodeError, loads

from mcpproxy.recorder.header_redaction import MAX_DOCUMENT_DEPTH
from mcpproxy.wire.framing import Fields

MAX_PARAMETERS: Final = 256
"""The maximum number of parameters of a query, form or document."""
MAX_CONTENT_BYTES: Final = 64 << 10
"""The largest body of which facts are kept."""
FORM: Final = b"application/x-www-form-urlencoded"
FORMS: Final = frozenset({FORM, b"multipart/form-data"})
"""The media types in which browsers send forms."""
_SCHEME: Final = b"basic "


class TooManyParameters(Exception):
    """There are more parameters than `MAX_PARAMETERS`, or they cannot be read."""


class _Members(list[tuple[str, Any]]):
    """The members of a JSON object in the order sent, with duplicates."""


def pairs_of(text: bytes) -> list[tuple[str, str]]:
    """Returns the names and values in a query, a fragment or a form, decoded, in the order sent.

    Raises:
        TooManyParameters: there are too many of them.
    """
    try:
        return parse_qsl(text.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise TooManyParameters from None


def is_ambiguous(text: bytes) -> bool:
    """Returns whether servers may read other parameters: separated by `;`, or not in UTF-8."""
    try:
        unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        return True
    return b";" in text or b"\0" in text


def document_of(body: bytes) -> dict[str, Any] | list[Any] | None:
    """Returns a body as a JSON object or array, or None if it is anything else."""
    try:
        document: dict[str, Any] | list[Any] | None = loads(body) if body.lstrip()[:1] in (b"{", b"[") else None
    except JSONDecodeError:
        return None
    return document


def texts_of(body: bytes) -> list[tuple[str, str]]:
    """Returns the strings and numbers in a JSON document, at any depth, each with the name of its member.

    All of several members with the same name are among them. The name of a member with any other value has an empty
    text.

    Raises:
        TooManyParameters: there are too many of them.
    """
    texts = list[tuple[str, str]]()
    try:
        document = json.loads(body, object_pairs_hook=_Members, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        raise TooManyParameters from None
    for name, text in _texts("", document):
        texts.append((name, text))
        if len(texts) > MAX_PARAMETERS:
            raise TooManyParameters
    return texts


def _texts(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif depth > MAX_DOCUMENT_DEPTH:
        raise TooManyParameters
    elif isinstance(value, _Members):
        yield name, ""
        for member, item in value:
            yield from _texts(member, item, depth + 1)
    elif isinstance(value, list):
        yield name, ""
        for item in value:
            yield from _texts(name, item, depth + 1)
    else:
        yield name, ""


def split_redirect(location: bytes) -> tuple[str, list[tuple[str, str]]]:
    """Returns the address to which a response redirects, without parameters, and those in its query and its fragment.

    Raises:
        TooManyParameters: there are too many of them.
    """
    address, _, fragment = location.partition(b"#")
    front, _, query = address.partition(b"?")
    return front.decode("utf-8", "replace"), [*pairs_of(query), *pairs_of(fragment)]


def basic_client(fields: Fields) -> str | None:
    """Returns the client id in a Basic credential (RFC 6749 §2.3.1), or None if there is none."""
    for value in fields.values_of(b"authorization"):
        if value[: len(_SCHEME)].lower() == _SCHEME:
            try:
                user, mark, _ = b64decode(value[len(_SCHEME) :].strip(), validate=True).partition(b":")
            except ValueError:
                return None
            return unquote_plus(user.decode("utf-8", "replace")) if mark else None
    return None
