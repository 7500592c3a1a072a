"""A copy has the findings of the original: for the corpus of the rules, and for conversations full of secrets."""

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.importers.case import Case
from mcpproxy.importers.forms.trace import cases
from mcpproxy.sharing import RedactionAccount, redacted_copy
from tests.analysis.traces import CORPUS, read
from tests.mcpproxy.sharing.secret_forms import FORMS, fresh, planted
from tests.mcpproxy.sharing.written import written

SHARE = 60
"""The suite takes each 60th conversation of the corpus; `make soak` takes all."""

pytestmark = pytest.mark.usefixtures("secret_rules")

EXPECTED = {
    *("logging/secret", "ext-events/webhook-secret"),
    *("ext-skills/digest-mismatch", "ext-skills/wrong-size"),
    *("ext-skills/frontmatter-mismatch", "ext-skills/no-frontmatter"),
}
"""Rules about secrets themselves, and about contents byte by byte, which are not compared in a redacted copy."""


def differences(lines: list[bytes], folder: Path) -> RedactionAccount:
    """The account of a share of these lines."""
    original, copy = folder / "original.mcpcap", folder / "copy.mcpcap"
    original.write_bytes(b"".join(lines))
    copy.unlink(missing_ok=True)
    return redacted_copy(original, copy)


def check_corpus(step: int, folder: Path) -> None:
    """Compare the findings of each `step`th case."""
    all_cases = [
        case for path in sorted(CORPUS.glob("*.ndjson")) if path.stem != "framing-large" for case in read(path)
    ]
    wrong = []
    for case in all_cases[::step]:
        account = differences([line for _, line in case.records()], folder)
        changed = {*account.hidden_findings, *account.created_findings} - EXPECTED
        if changed or account.changed_frames:
            wrong.append((case.name, changed, account.changed_frames))
    assert wrong == []


@pytest.mark.costly("it shares thirty conversations, and checks each before and after")
def test_conversations_of_the_corpus_keep_their_findings(tmp_path: Path) -> None:
    check_corpus(SHARE, tmp_path)


@pytest.mark.soak
def test_all_conversations_of_the_corpus_keep_their_findings(tmp_path: Path) -> None:
    check_corpus(1, tmp_path)


def test_the_secret_and_the_address_that_get_events_are_replaced(tmp_path: Path) -> None:
    """A subscription of the Events extension names a callback, often with a token, and what signs its events."""
    random = Random(1)
    secret, token = (planted(random, "a secret", form).text for form in ("whsec_{w32}", "{w32}"))
    lines = (CORPUS / "ext-events.ndjson").read_text("utf-8").splitlines()
    line = next(line for line in lines if json.loads(line)["name"] == "webhook")
    told = line.replace("whsec_" + "A" * 32, secret).replace("hooks/client123", f"hooks/client123?token={token}")
    assert (told.count(secret), told.count(token)) == (3, 4)
    (case,) = cases([told.encode()])
    assert isinstance(case, Case)
    account = differences([record for _, record in case.records()], tmp_path)
    copy = (tmp_path / "copy.mcpcap").read_text("utf-8")
    assert [text in copy for text in (secret, token, "proxy.example.com")] == [False, False, True]
    assert [*account.created_findings, *account.hidden_findings] == []


TEXT = st.sampled_from(["plain prose", "", "10", "Ünïcode \u2028", "a/b", "http://localhost:3000/x"])
SECRET = st.integers(0, len(FORMS) - 1)
VALUE = st.recursive(
    TEXT | SECRET | st.booleans() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "token", "id", "uri"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def filled(value: Any, texts: list[str]) -> Any:
    """A value with secrets in place of their numbers."""
    if isinstance(value, dict):
        return {name: filled(inner, texts) for name, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, texts) for inner in value]
    return texts[value] if type(value) is int else value


@pytest.mark.costly("each example is checked, shared and checked again")
@given(
    st.lists(st.tuples(st.sampled_from(["call", "list", "log", "read", "error"]), VALUE, VALUE), max_size=8),
    st.integers(),
)
def test_planted_secrets_neither_create_nor_hide_a_finding_unnoticed(
    tmp_path: Path, steps: list[tuple[str, Any, Any]], seed: int
) -> None:
    texts = [secret.text for secret in fresh(Random(seed))]
    messages: list[tuple[str, Any]] = []
    for number, (kind, asked, said) in enumerate(steps, 2):
        request, response = filled(asked, texts), filled(said, texts)
        methods = {"call": "tools/call", "list": "tools/list", "read": "resources/read", "error": "tools/call"}
        if kind == "log":
            messages.append(("s2c", {"method": "notifications/message", "params": {"level": "info", "data": response}}))
            continue
        params = {"name": "echo", "arguments": {"v": request}} if "call" in methods[kind] else {"uri": request}
        messages.append(("c2s", {"id": number, "method": methods[kind], "params": params}))
        if kind == "error":
            messages.append(("s2c", {"id": number, "error": {"code": -32603, "message": json.dumps(response)}}))
        else:
            content = [{"type": "text", "text": json.dumps(response)}]
            result = {
                "content": content,
                "structuredContent": {"v": response},
                "tools": [],
                "contents": [{"uri": request}],
            }
            messages.append(("s2c", {"id": number, "result": result}))
    account = differences(written(messages), tmp_path)
    # What changed is in the account; nothing else may change, and by far the most may not.
    assert account.findings_kept == account.findings_before - account.hidden_findings.total()
    known = {"schema/uri", "jsonrpc/error-message-verbose", "resource/contents-uri", *EXPECTED}
    assert {*account.hidden_findings, *account.created_findings} <= known
    assert account.changed_frames == []


def test_a_finding_that_the_redaction_changes_is_in_the_account(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"password": {"type": "string", "maxLength": 8}}}
    tools = {"tools": [{"name": "login", "inputSchema": schema}]}
    call = {"name": "login", "arguments": {"password": "hunter2"}}
    answer = {"content": [{"type": "text", "text": "ok"}]}
    account = differences(
        written(
            [
                ("c2s", {"id": 2, "method": "tools/list"}),
                ("s2c", {"id": 2, "result": tools}),
                ("c2s", {"id": 3, "method": "tools/call", "params": call}),
                ("s2c", {"id": 3, "result": answer}),
            ]
        ),
        tmp_path,
    )
    assert account.created_findings == Counter({"tool/arguments-invalid": 1})
