"""What lines and pages say about methods of extensions, and the generated page of extensions."""

from pathlib import Path
from typing import Any

import pytest

from analysis.conversation.call import MessageContext, context_of
from analysis.filter import FilterError, facts_of, parse
from analysis.protocol.extensions import EXTENSION_METHODS, EXTENSIONS
from mcpproxy.wording.extension_page import page
from mcpproxy.wording.facts import facts
from mcpproxy.wording.lines import line_of
from tests.analysis.talk import META, Talk

ROOT = Path(__file__).parents[3]
UNKNOWN = "unknown: no revision or known extension defines this method, so it is not judged"


def extension_facts(context: MessageContext) -> list[str]:
    return [fact.text for fact in facts(context, None) if fact.name == "extension"]


def test_a_line_marks_only_methods_that_are_not_known() -> None:
    talk = Talk()
    for method, gist in (("acme/dig", '[not judged] {"a":1}'), ("skills/list", '{"a":1}'), ("tools/list", '{"a":1}')):
        assert line_of(talk.ask(method, method, a=1)).gist.text == gist
    assert line_of(talk.tell("notifications/acme/dug")).gist.text == "[not judged]"
    assert line_of(talk.tell("notifications/events/event")).gist.text == ""
    assert line_of(talk.tell("progress")).gist.text == ""  # only its prefix is missing


def test_a_page_names_the_extension() -> None:
    talk = Talk()
    assert extension_facts(talk.ask(1, "skills/list")) == ["Skills (io.modelcontextprotocol/skills)"]
    assert extension_facts(talk.ask(2, "tasks/get", taskId="t")) == ["Tasks (io.modelcontextprotocol/tasks)"]
    assert extension_facts(talk.ask(3, "acme/dig")) == [UNKNOWN]
    assert extension_facts(talk.ask(4, "tools/list")) == []
    assert extension_facts(talk.answer(4, tools=[])) == []
    draft = "Events (io.modelcontextprotocol/events), a draft"
    assert extension_facts(talk.tell("notifications/events/event")) == [draft]


def test_a_page_names_the_unknown_extensions_that_are_declared() -> None:
    talk = Talk()
    declaring = {**META, "io.modelcontextprotocol/clientCapabilities": {"extensions": {"com.example/a\x1b[1m": {}}}}
    asked = talk.ask(1, "acme/dig", _meta=declaring)
    text = "perhaps of com.example/a\\x1b[1m, which the client declares: not known, so not judged"
    assert extension_facts(asked) == [text]
    assert extension_facts(talk.ask(2, "acme/dig")) == [UNKNOWN]
    names: dict[str, Any] = {f"com.example/{letter}": {} for letter in "bcde"}
    talk.ask(3, "server/discover")
    talk.answer(3, supportedVersions=["2026-07-28"], capabilities={"extensions": names})
    others = "com.example/b, com.example/c, com.example/d or another"
    assert extension_facts(talk.tell("notifications/acme/dug")) == [
        f"perhaps of {others}, which the server declares: not known, so not judged"
    ]
    (fact,) = extension_facts(talk.ask(4, "acme/dig", _meta=declaring))
    assert fact.endswith("another, which client and server declare: not known, so not judged")
    assert extension_facts(talk.ask(5, "tools/lst")) == [UNKNOWN]  # only the core has names like this


def test_a_name_that_a_known_extension_reserves_is_judged() -> None:
    context = Talk().ask(1, "skills/install")
    assert extension_facts(context) == ["not defined by Skills (io.modelcontextprotocol/skills)"]
    assert line_of(context).gist.text == ""


def test_a_revision_that_cannot_have_the_extension_is_named() -> None:
    talk = Talk()
    talk.handshake()
    asked = talk.say("c2s", id=1, method="skills/list")
    text = "Skills (io.modelcontextprotocol/skills), which 2025-11-25 does not have"
    assert extension_facts(asked) == [text]
    answered = talk.answer(1, skills=[])
    alone = facts(context_of(asked.message, asked.session), answered.answered)
    assert text in [fact.text for fact in alone]
    for context in (asked, answered):
        assert parse("extension:io.modelcontextprotocol/skills").matches(facts_of(context))


def test_a_method_is_named_by_its_revision() -> None:
    talk = Talk()
    start: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
    talk.say("c2s", id=1, method="initialize", params=start)
    talk.answer(1, **start, serverInfo={"name": "demo", "version": "1"})
    context = talk.say("c2s", id=2, method="tasks/get", params={"taskId": "t"})
    assert extension_facts(context) == []  # tasks of the core
    assert not parse("extension:*").matches(facts_of(context))


def test_a_filter_selects_by_extension() -> None:
    talk = Talk()
    for number, method in enumerate(EXTENSION_METHODS):
        context = talk.ask(number, method)
        assert parse(f"extension:{EXTENSION_METHODS[method][0].identifier}").matches(facts_of(context)), method
        assert not parse("extension:x*").matches(facts_of(context)), method
        if EXTENSION_METHODS[method][1].is_request:
            assert parse("extension:*").matches(facts_of(talk.answer(number))), method
    for method in ("tools/list", "acme/dig"):
        assert not parse("extension:*").matches(facts_of(talk.ask(method, method))), method


def test_a_filter_for_an_unknown_extension_explains_why_it_selects_nothing() -> None:
    for value in ("com.example/foo", '"com.example/foo"', "tasks"):
        with pytest.raises(FilterError, match="methods of other extensions are not known"):
            parse(f"extension:{value}")


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs/extensions.md").read_text("utf-8") == page(), "make extensions-docs"
    for extension in EXTENSIONS.values():
        assert all(f"| `{method.name}`" in page() for method in extension.methods), extension.title
