"""Markdown: GitHub's own parser reads it, and no peer's text becomes a link, mention, reference or element."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options

from tests.analysis.store.capture_writer import CaptureWriter
from tests.mcpproxy.cli.typed import complaints, mcpproxy
from tests.mcpproxy.exporters.recorded import counted
from tests.mcpproxy.html_report.conversations import busy
from tests.mcpproxy.login_captures import LoginCapture

HOSTILE = (
    "```\n\n# heading\n\n@octocat #1 GH-2 owner/repo#3 https://evil.example www.evil.example",
    "`````````` ~~~ ``` @octocat",
    "</code></summary></details><script>alert(1)</script><img src=x onerror=alert(2)>",
    "<details open><summary>x</summary>",
    "</details>\n\n[link](https://evil.example) ![image](https://evil.example/x.png)",
    "| a | b |\n|---|---|\n| @octocat | #1 |",
    "<https://evil.example> &lt;b&gt; <!-- hidden",
    "\n\n\n@octocat\n\n",
    "\u2028@octocat\u202e\x1b[31m",
    "[x]: https://evil.example\n\n[x]",
    "<![CDATA[ @octocat ]]> <?php ?> <!DOCTYPE x>",
)
OURS = {"h2", "h3", "p", "div", "table", "tr", "th", "td", "code", "pre", "details", "summary", "thead", "tbody"}


class Rendered(HTMLParser):
    """What GitHub's parser makes of a text: its elements, and the text inside and outside of code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: set[str] = set()
        self.outside: list[str] = []
        self.inside: list[str] = []
        self.open: list[str] = []
        self.feed(cmarkgfm.github_flavored_markdown_to_html(text, Options.CMARK_OPT_UNSAFE))
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes |= {name for name, _ in attributes}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data: str) -> None:
        (self.inside if {"code", "pre"} & set(self.open) else self.outside).append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture with each hostile text in every place that is printed."""
    one = CaptureWriter(tmp_path_factory.mktemp("x") / "one.mcpcap", "@octocat #1", 1, tool="@octocat ```")
    number = 1
    one.handshake(0, "@octocat", HOSTILE[0])
    at = 20
    for text in HOSTILE:
        one.call(at, number, text, **{text: text})
        one.fail(at, number, text)
        one.ask(at, f"{text}{number}", text, uri=text, value=text)
        one.refuse(at, f"{text}{number}", -32000, text)
        one.raw(at, "s2c", text.replace("\n", "\\n").encode())
        one.raw(at, "s2c", b"\xff" + text.encode())
        one.record(at, "stderr", raw=text.replace("\n", " "), size=len(text))
        one.say(at, "s2c", method="notifications/message", params={"level": "info", "logger": text, "data": text})
        one.ask(at, number + 1, "resources/read", uri=text)
        number += 2
        at += 1
    return one.close()


def shown(*arguments: str | Path) -> str:
    done = mcpproxy("show", "--format", "markdown", *arguments)
    assert done.returncode == 0, complaints(done)
    return done.stdout.decode()


def test_no_text_of_a_peer_acts_or_leaves_its_place(hostile: Path) -> None:
    rendered = Rendered(shown(hostile))
    assert rendered.open == []
    assert set(rendered.elements) <= OURS
    assert rendered.attributes <= {"lang", "class"}
    outside = "".join(rendered.outside)
    assert not re.search(r"octocat|evil|alert|heading|#\d|GH-|link|image|CDATA", outside), outside
    assert "octocat" in "".join(rendered.inside)
    # Each `<details>` has its `<summary>`.
    assert rendered.elements.count("details") == rendered.elements.count("summary")


def test_each_message_is_folded_with_its_whole_body(stdio: Path, tmp_path: Path) -> None:
    rendered = Rendered(shown(stdio))
    assert rendered.elements.count("details") == counted(stdio, folder=tmp_path / "tables", table="frames")
    assert '"name": "word_count"' in "".join(rendered.inside)


def test_a_login_is_folded_with_its_requests(tmp_path: Path) -> None:
    one = LoginCapture(tmp_path / "one.mcpcap")
    one.login()
    text = shown(one.close())
    assert text.count("·  login 1: token issued  challenge → ") == 1
    (legs,) = re.findall(r"login 1: .*?</summary>\n\n```text\n(.*?)```\n\n</details>", text, re.DOTALL)
    assert [line.split("  ")[1:6] for line in legs.splitlines()[-2:]] == [
        ["11", "@5 ·", "authorization", "302", "GET /authorize"],
        ["13", "@6 ·", "token", "200", "POST /token"],
    ]
    assert "GET /.well-known" not in text.replace(legs, "")


def test_no_text_of_a_login_leaves_its_place(tmp_path: Path) -> None:
    for number, text in enumerate(HOSTILE):
        one = LoginCapture(tmp_path / f"{number}.mcpcap")
        one.program = text
        one.leg("resource-metadata", "GET", f"/{text}", 404, as_server=text)
        one.token(400, text, error=text, error_description=text, scope=text)
        rendered = Rendered(shown(one.close()))
        assert rendered.open == []
        assert set(rendered.elements) <= OURS
        assert not re.search(r"octocat|evil|alert|heading|#\d|GH-|link|image|CDATA", "".join(rendered.outside))


def test_it_begins_with_versions_and_findings(stdio: Path) -> None:
    text = shown(stdio)
    head, _, rest = text.partition("### Findings: ")
    for fact in ("mcpproxy-demo-client 1.0.0", "mcpproxy-demo 1.0.0", "2026-07-28", "stdio", "mcpproxy 0."):
        assert f"<code>{fact}" in head, fact
    count, rows = rest.partition("\n")[0], _findings(rest)
    found = [json.loads(line) for line in mcpproxy("check", "--json", stdio).stdout.splitlines()]
    assert int(count) == sum(times for *_, times in rows) == sum("rule" in line for line in found) > 5
    levels = [level for level, *_ in rows]
    assert levels == sorted(levels, key=["error", "warning", "note"].index)
    assert "<code>id/type-changed</code>" in rest


def _findings(text: str) -> list[tuple[str, str, int, int]]:
    """Returns level, rule, first frame and count of the rows of findings."""
    cell = r"<td><code>([^<]*)</code></td>"
    rows = re.findall(rf"<tr>{cell * 5}", text.partition("### Conv")[0])
    return [(level, rule, int(frame), int(times)) for level, rule, _, frame, times in rows]


def test_findings_that_differ_only_in_the_frame_are_one_row(tmp_path: Path) -> None:
    text = shown(busy(tmp_path / "busy.mcpcap", 600))
    rows = [row for row in _findings(text) if row[1] == "capability/undeclared-log-messages"]
    found = [json.loads(line) for line in mcpproxy("check", "--json", tmp_path).stdout.splitlines()]
    frames = [one["frame"] for one in found if one.get("rule") == "capability/undeclared-log-messages"]
    assert rows == [("error", "capability/undeclared-log-messages", min(frames), len(frames))]
    assert len(frames) > 5


def test_a_filter_selects_messages(stdio: Path) -> None:
    text = shown("--filter", "method:tools/list", stdio)
    assert set(re.findall(r"<summary><code>.*?(tools/\w+)", text)) == {"tools/list"}
    assert text.count("<details>") == 4
    assert shown("--filter", "method:tools/list", "--limit", "1", stdio).count("<details>") == 1
    assert shown("--filter", "method:tools/list", "--tail", "1", stdio).count("<details>") == 1


def test_export_writes_the_same(stdio: Path, tmp_path: Path) -> None:
    done = mcpproxy("export", "--format", "markdown", "-o", tmp_path / "out.md", stdio)
    assert (done.returncode, complaints(done)) == (0, b"")
    assert (tmp_path / "out.md").read_text("utf-8") == shown(stdio)


def test_a_long_body_is_cut_and_says_how_to_see_all_of_it(tmp_path: Path) -> None:
    one = CaptureWriter(tmp_path / "one.mcpcap", "x", 1)
    one.handshake()
    number = one.call(20, 2, "a", text="x" * 100_000)
    text = shown(one.close())
    assert f"`mcpproxy show --frame {number}` prints all" in text
    assert len(text) < 50_000
    done = mcpproxy("export", "--format", "markdown", "-o", tmp_path / "out.md", tmp_path)
    assert (done.returncode, complaints(done)) == (0, b"")


def test_what_an_issue_cannot_hold_is_told(tmp_path: Path) -> None:
    one = CaptureWriter(tmp_path / "one.mcpcap", "x", 1)
    for number in range(20):
        one.call(20 + number, number, "a", text="x" * 8_000)
    done = mcpproxy("export", "--format", "markdown", "-o", tmp_path / "out.md", one.close())
    assert done.returncode == 0
    assert b"GitHub accepts 65,536 characters in an issue, and this has 1" in complaints(done)


@pytest.mark.parametrize(
    "words", [["--follow"], ["--verbose"], ["--unfold"], ["--frame", "3"], ["--id", "3"]], ids=" ".join
)
def test_what_does_not_go_with_markdown_is_one_line(words: list[str], hostile: Path) -> None:
    done = mcpproxy("show", "--format", "markdown", *words, hostile)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
