"""The SQL files, with their placeholders filled in."""

import re

from analysis.protocol.error_codes import ERROR_CODES, USER_REJECTED
from analysis.store.dialects import spark_views
from analysis.store.reference import view_texts


def test_both_dialects_name_each_error_code() -> None:
    names = {str(code): row.name for code, row in ERROR_CODES.items() if code != USER_REJECTED}
    for views in (view_texts(), spark_views()):
        assert dict(re.findall(r"when code = (-\d+) then '(.*)'", views["errors"])) == names


def test_everything_is_filled_in() -> None:
    texts = [*view_texts().values(), *spark_views().values()]
    assert [found for text in texts for found in re.findall(r"\{[a-z]\w*\}", text)] == []
