"""Apps: which origins and pages are valid, for many forms of each, and in bounded time for hostile ones."""

from time import process_time
from typing import Final

import pytest

from analysis.protocol.extensions import APPS
from analysis.rules.ext_apps.capability import UI_MIME_TYPE
from analysis.rules.ext_apps.csp import OriginFault, origin_fault
from analysis.rules.ext_apps.resources import UiItem, has_doctype, is_html, page_of

BOUND_S: Final = 0.5


@pytest.mark.parametrize(
    ("fault", "origins"),
    [
        (None, "https://a.example http://localhost:3000 wss://a.example:8443 https://*.example.com https://10.0.0.1/"),
        (None, "https://[2001:db8::1]:8080 https://a_b.example https://a.example:* data: blob:"),
        ("any-host", "* https: http: wss: https://* http://*:* https://*:443 *:443"),
        (
            "not-origin",
            "a.example https://a.example/v1 https:// ftp://a.example ui://a https://a.*.example //a.example",
        ),
        ("not-origin", "https://exämple.com https://user@a.example https://a.example?x 'self' 'none' self"),
        ("injection", "https://a.example;script-src https://a,https://b 'unsafe-eval' \"https://a\" https://a\\b <b>"),
    ],
)
def test_an_entry_of_the_policy_is_judged_by_what_it_allows(fault: OriginFault | None, origins: str) -> None:
    assert {origin: origin_fault(origin) for origin in origins.split(" ")} == dict.fromkeys(origins.split(" "), fault)


def test_spaces_inside_an_entry_add_to_the_policy_and_around_it_do_not() -> None:
    assert origin_fault("https://a.example https://b.example") == "injection"
    assert origin_fault("https://a.example\nscript-src *") == "injection"
    assert origin_fault(" https://a.example ") == "not-origin"
    assert origin_fault("") == "not-origin"
    assert origin_fault("https://" + 1000 * "a") == "not-origin"


@pytest.mark.parametrize("start", ["", "\ufeff", " \n", "<!-- a --> <!-- b -->\n"])
@pytest.mark.parametrize(
    "doctype", ["<!doctype html>", "<!DOCTYPE HTML>", '<!DOCTYPE html SYSTEM "about:legacy-compat">']
)
def test_a_page_may_have_comments_before_its_doctype(start: str, doctype: str) -> None:
    assert has_doctype(f"{start}{doctype}<html></html>")
    assert is_html(f"{start}{doctype}<html></html>")


def test_text_and_json_are_not_pages() -> None:
    pages = ["", "not found", '{"html":"<b></b>"}', "[1]", "a < b", "<div></div>", "{{ <b>template</b> }}"]
    assert [is_html(page) for page in pages] == [False, False, False, False, False, True, True]
    assert not any(map(has_doctype, pages))


def test_a_blob_that_is_not_base64_is_not_judged() -> None:
    item = {"mimeType": UI_MIME_TYPE, "blob": "not base64!"}
    assert page_of(UiItem(item, "", "ui://a", None)) is None


def test_hostile_pages_and_origins_take_linear_time() -> None:
    began = process_time()
    has_doctype("<!-- -->" * 8_000)
    has_doctype("<!--" * 16_000)
    is_html("{" * 60_000)
    is_html("[" * 60_000)
    for text in ("a." * 100_000, "https://" + "-" * 200_000, "https://" + "a-" * 100_000 + "!", "*" * 100_000):
        origin_fault(text)
    assert process_time() - began < BOUND_S


def test_messages_of_apps_are_named_and_told_apart() -> None:
    methods = {method.name: method.is_request for method in APPS.methods}
    assert len(methods) == 15
    assert all(name.startswith("ui/") for name in methods)
    assert {name for name, is_request in methods.items() if not is_request} == {
        name for name in methods if name.startswith("ui/notifications/")
    }
