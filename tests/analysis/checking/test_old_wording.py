"""Old wording: only whole texts of the previous version are replaced by those of this one."""

import json

from analysis.checking.baseline import findings_by_fingerprint
from analysis.checking.old_wording import WORDING_CHANGES, current_wording
from analysis.rules.discovery import rules


def test_an_entry_says_from_then_on_what_this_version_says() -> None:
    row = {"rule": "timeout/unanswered", "message": "tools/call (id 1) has no answer after 9 s"}
    (entry,) = findings_by_fingerprint([json.dumps(row).encode()]).values()
    assert entry == row | {"message": "tools/call (id 1) is still unanswered after 9 s"}


def test_texts_change_at_most_once_and_keep_their_values() -> None:
    for rule, texts in WORDING_CHANGES.items():
        assert rule in rules(), rule
        for old, new in texts:
            values = [f"v{number}" for number in range(old.count("{}"))]
            assert new.count("{}") == len(values), old
            assert current_wording(rule, old.format(*values)) == new.format(*values)
            assert current_wording(rule, new.format(*values)) == new.format(*values)


def test_only_whole_texts_of_that_rule_change() -> None:
    old = "request 1 was cancelled before"
    assert current_wording("cancel/twice", old) == "request 1 was already cancelled"
    for rule, text in (("cancel/posted", old), ("cancel/twice", f"{old} x"), ("cancel/twice", f"x {old}")):
        assert current_wording(rule, text) == text


def test_braces_and_the_words_of_a_template_in_a_value_stay() -> None:
    text = "{0} comes after the answer comes after the answer"
    assert current_wording("http/message-after-answer", text) == "{0} comes after the answer is sent after the response"


def test_a_guess_stays() -> None:
    text = "tools/call (id 1) has no answer after 9 s; probably answered in frame 4"
    expected = "tools/call (id 1) is still unanswered after 9 s; probably answered in frame 4"
    assert current_wording("timeout/unanswered", text) == expected


def test_a_hostile_text_takes_no_longer_than_it_is_long() -> None:
    for rule, texts in WORDING_CHANGES.items():
        for old, _ in texts:
            text = old.replace("{}", "") * 20_000
            assert current_wording(rule, f"{text}x").endswith("x")


def test_what_this_version_writes_stays_whatever_its_values_say() -> None:
    text = "a has no answer after b is still unanswered after 60 s"
    assert current_wording("timeout/unanswered", text) == text
