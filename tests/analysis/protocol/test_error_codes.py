"""The error codes are those of the official types, and each is explained in one row."""

import re
from importlib.metadata import files

from analysis.protocol import error_codes
from analysis.protocol.error_codes import (
    CONNECTION_CLOSED,
    ERROR_CODES,
    JSONRPC_RANGE,
    LEGACY_RANGE,
    MCP_RANGE,
    MODERN_CODES,
    NOT_RECORDED,
    REQUEST_CANCELLED,
    REQUEST_TIMEOUT,
    RESOURCE_NOT_FOUND,
    RETIRED_CODES,
    SERVER_RANGE,
    SKETCH_CODES,
    URL_ELICITATION,
    USER_REJECTED,
)
from analysis.protocol.extensions import EXTENSIONS


def test_the_official_types_have_the_same_codes() -> None:
    # The source is read as text, as importing pydantic takes half a second.
    (source,) = (file for file in files("mcp-types") or () if str(file) == "mcp_types/jsonrpc.py")
    official = {int(code) for code in re.findall(r"^[A-Z_]+ = (-\d+)$", source.read_text(), re.MULTILINE)}
    assert official - {CONNECTION_CLOSED} == {*ERROR_CODES, REQUEST_TIMEOUT} - {RESOURCE_NOT_FOUND, USER_REJECTED}


def test_every_name_of_a_code_has_one_row() -> None:
    named = [value for name, value in vars(error_codes).items() if name.isupper() and isinstance(value, int)]
    named += SKETCH_CODES.values()
    of_extensions = {row.code for extension in EXTENSIONS.values() for row in extension.error_codes}
    rows = {*ERROR_CODES, *of_extensions, REQUEST_CANCELLED, REQUEST_TIMEOUT, NOT_RECORDED, CONNECTION_CLOSED}
    assert sorted(code for code in named if code < 0) == sorted(rows)


def test_the_eras_have_codes_of_their_own() -> None:
    assert sorted(MODERN_CODES) == [-32022, -32021, -32020]
    assert {RESOURCE_NOT_FOUND, URL_ELICITATION} == RETIRED_CODES


def test_a_code_that_is_gone_says_until_when_it_was_there() -> None:
    assert ERROR_CODES[-32602].meaning_with_revisions == "invalid params"
    assert ERROR_CODES[-32002].meaning_with_revisions == "resource not found, up to 2025-11-25"
    assert ERROR_CODES[-32042].meaning_with_revisions == "a URL must be visited first, in 2025-11-25 only"


def test_the_reserved_ranges_meet_without_a_gap() -> None:
    assert [*JSONRPC_RANGE, *SERVER_RANGE] == [*range(-32768, -31999)]
    assert [*MCP_RANGE, *LEGACY_RANGE] == [*SERVER_RANGE]
    assert [code for code in ERROR_CODES if code not in JSONRPC_RANGE and code not in SERVER_RANGE] == [USER_REJECTED]
