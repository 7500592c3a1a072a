"""Reads the parameters of authorization requests and responses: of queries, forms, JSON objects and redirects."""

from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_plus

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
    """There are more parameters than `MAX_PARAMETERS`."""


def pairs_of(text: bytes) -> list[tuple[str, str]]:
    """Returns the names and values in a query, a fragment or a form, decoded, in the order sent.

    Raises:
        TooManyParameters: there are too many of them.
    """
    try:
        return parse_qsl(text.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise TooManyParameters from None


def document_of(body: bytes) -> dict[str, Any] | list[Any] | None:
    """Returns a body as a JSON object or array, or None if it is anything else."""
    try:
        document: dict[str, Any] | list[Any] | None = loads(body) if body.lstrip()[:1] in (b"{", b"[") else None
    except JSONDecodeError:
        return None
    return document


def texts_of(document: Mapping[str, Any] | list[Any]) -> list[tuple[str, str]]:
    """Returns the strings in a JSON document, at any depth, each with the name of the member that it belongs to.

    Raises:
        TooManyParameters: there are too many of them.
    """
    texts = list[tuple[str, str]]()
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
    elif isinstance(value, list):
        for item in value:
            yield from _texts(name, item, depth + 1)
    elif isinstance(value, dict):
        for member, item in value.items():
            yield from _texts(member, item, depth + 1)


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
