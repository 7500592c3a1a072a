"""Logs of programs with something in front: a sentence, a fence of Markdown, or what `tail` left of an entry."""

import pytest

from tests.mcpproxy.importers.logs import imported, recognised
from tests.mcpproxy.importers.test_hostile_logs import raws, sample

OF_PROGRAMS = ("claude-code", "claude-desktop", "cursor", "vscode")
FRONTS = (
    b"Here is my log:\n",
    b"It fails. What is wrong?\n\n```\n",
    b"```json\n",
    b"# source: https://example.com\n",
    b"      'C:\\WINDOWS',\n      [length]: 14\n    ]\n",
    b'fo] "method":"ping"}\n    at Object.<anonymous> (/x.js:1:2)\n',
)


@pytest.mark.parametrize("name", OF_PROGRAMS)
@pytest.mark.parametrize("front", FRONTS)
def test_a_log_is_recognised_behind_other_text(name: str, front: bytes) -> None:
    data = front + sample(name)
    assert recognised(data) == [name]
    result = imported(name, data)
    assert raws(result) == raws(imported(name, sample(name)))
    assert len(result.left_out) <= front.count(b"\n")


@pytest.mark.parametrize("name", OF_PROGRAMS)
def test_a_fence_is_no_part_of_a_log(name: str) -> None:
    whole, fenced = imported(name, sample(name)), imported(name, b"```\n" + sample(name) + b"```\n")
    assert fenced.left_out == []
    assert [len(capture.records) for capture in fenced.captures] == [len(capture.records) for capture in whole.captures]


@pytest.mark.parametrize("name", OF_PROGRAMS)
def test_a_log_in_another_log_is_not(name: str) -> None:
    for other in (b"2026-03-01 10:12:05.377 started\n", b'{"level":"info"}\n', b"12:x;\0\n", b"x\n" * 101):
        assert name not in recognised(other + sample(name)), other
