"""What tools say about Apps."""

from typing import Any

import pytest

from analysis.conversation.listed_ui import MAX_LISTED_NAMES, ListedUi, is_for_apps_only, resource_uri_of


def test_a_tool_names_its_ui_in_either_member() -> None:
    assert resource_uri_of({"_meta": {"ui": {"resourceUri": "ui://a"}, "ui/resourceUri": "ui://b"}}) == "ui://a"
    assert resource_uri_of({"_meta": {"ui": {}, "ui/resourceUri": "ui://b"}}) == "ui://b"


@pytest.mark.parametrize("tool", [None, 7, {}, {"_meta": 1}, {"_meta": {"ui": 1, "ui/resourceUri": 2}}])
def test_any_json_may_be_a_tool(tool: Any) -> None:
    assert resource_uri_of(tool) is None
    assert not is_for_apps_only(tool)
    listed = ListedUi()
    listed.add_tools([tool], 1)
    assert listed.is_empty


def test_a_tool_is_only_for_apps_if_its_visibility_says_so() -> None:
    visibilities = [["app"], ["app", "other"], ["model", "app"], ["model"], [], "app", None]
    only = [is_for_apps_only({"_meta": {"ui": {"visibility": visibility}}}) for visibility in visibilities]
    assert only == [True, True, False, False, False, False, False]


def test_the_number_of_names_is_bounded() -> None:
    listed = ListedUi()
    listed.add_tools(
        [
            {"name": str(number), "_meta": {"ui": {"resourceUri": f"ui://{number}", "visibility": ["app"]}}}
            for number in range(MAX_LISTED_NAMES + 5)
        ],
        1,
    )
    assert len(listed.uris) == len(listed.ui_tools) == len(listed.app_tools) == MAX_LISTED_NAMES
