"""Rule pages, generated from the rule classes: for `mcpproxy rule ID`, and for the reference in docs/rules.

python -m mcpproxy.wording.rule_pages docs/rules     rewrites the reference, and removes obsolete pages
"""

import inspect
import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from analysis.protocol.features import SCHEMA_PAGE
from analysis.protocol.revisions import REVISIONS, before, rank_of
from analysis.rules.base import Rule
from analysis.rules.discovery import group_of, module_of, rules
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.page_files import write_pages
from mcpproxy.wording.spans import Span, Style
from mcpproxy.wording.wrapping import wrapped

SIDE_NAMES: Final = {"either": "client or server", "client": "client", "server": "server"}
MARKS: Final = {
    "S": ("needs_start", "silent where the start of the session was not observed"),
    "G": ("needs_session", "silent if the session is a guess, because several clients without session ids look alike"),
    "E": ("at_end", "decided when the session or the capture ends"),
    "T": ("needs_time", "silent if times are not exact, as in some imported logs"),
    "B": ("needs_bytes", "about the original bytes; silent for imported logs that contain text instead"),
    "H": ("needs_http", "applies only over HTTP"),
    "L": ("needs_lists", "needs a complete list that the server has sent"),
    "O": ("once", "reported the first time for each sender and session, then counted"),
}
"""Letters for attributes of rules: letter → attribute, meaning."""
_HEADING: Final = re.compile(r"\*\*(?P<name>[^*]+)\.\*\* ?")
_PARENTHESIS: Final = re.compile(r" \([^)]*\)")
_RFC_SOURCE: Final = re.compile(r"RFC (?P<number>\d+) §(?P<section>[\d.]+)")
_SEP_SOURCE: Final = re.compile(r"SEP-(?P<number>\d+)")
_SPECIFICATION_SOURCE: Final = re.compile(r"(?P<revision>\d{4}-\d\d-\d\d) (?P<page>.+)")
_JSON_RPC: Final = "https://www.jsonrpc.org/specification"
_EVENT_STREAMS: Final = "https://html.spec.whatwg.org/multipage/server-sent-events.html"
_PROPOSALS: Final = "https://github.com/modelcontextprotocol/modelcontextprotocol/issues"
_SPECIFICATION: Final = "https://modelcontextprotocol.io/specification"
_SCHEMAS: Final = "https://github.com/modelcontextprotocol/modelcontextprotocol/blob/main/schema"
_INDEX: Final = "README.md"
_NOTICE: Final = "This page is generated from the rules."


def marks(rule: type[Rule]) -> str:
    """The letters of `MARKS` that apply to a rule."""
    return "".join(letter for letter, (attribute, _) in MARKS.items() if getattr(rule, attribute))


def levels_text(rule: type[Rule]) -> str:
    """Returns the level of a rule, and the revisions in which it has another: `error (warning in ≤2025-03-26)`."""
    others = ", ".join(f"{level} in {str(span).removesuffix(' only')}" for span, level in rule.levels.items())
    return f"{rule.level} ({others})" if others else str(rule.level)


def is_in_revision(rule: type[Rule], revision: str) -> bool:
    """Whether a rule applies to a published revision."""
    return rule.versions.applies_to(REVISIONS.index(revision), None)


def has_level(rule: type[Rule], level: str, revision: str | None) -> bool:
    """Whether a rule has a level in a revision, or in any revision if that is None."""
    if revision is not None:
        return level_in(rule, revision) == level
    return level in map(str, (rule.level, *rule.levels.values()))


def level_in(rule: type[Rule], revision: str) -> str:
    """The level of a rule in a published revision."""
    return str(rule.level_at(REVISIONS.index(revision)))


def page(rule: type[Rule]) -> str:
    """The page of a rule: a sentence, then why it matters, what it looks like and what to do instead."""
    return inspect.getdoc(rule) or ""


def summary_of(rule: type[Rule]) -> str:
    """The sentence with which the page begins."""
    return " ".join(page(rule).partition("\n\n")[0].split())


def sections(rule: type[Rule]) -> Iterator[tuple[str, str]]:
    """The other parts of the page with their headings, each on one line."""
    for paragraph in page(rule).split("\n\n")[1:]:
        text = " ".join(paragraph.split())
        heading = _HEADING.match(text)
        yield (heading["name"], text[heading.end() :]) if heading else ("", text)


def facts(rule: type[Rule]) -> list[tuple[str, str]]:
    """The facts in the attributes of a rule, in words."""
    return [
        ("level", levels_text(rule)),
        ("broken by", SIDE_NAMES[rule.who]),
        ("revisions", str(rule.versions)),
        *(("", MARKS[letter][1]) for letter in marks(rule)),
        *([("replaces", ", ".join(rule.replaces))] if rule.replaces else []),
        *([("follows", ", ".join(rule.follows))] if rule.follows else []),
        *([("source", rule.source)] if rule.source else []),
    ]


def addresses(source: str) -> list[str]:
    """The addresses at which the documents of a source can be read; other kinds of source have none.

    Semicolons separate documents, commas separate the pages of a document, and parentheses give the place on a page.
    """
    urls: dict[str, None] = {}
    for document in _PARENTHESIS.sub("", source).split("; "):
        name, *pages = document.split(", ")
        if name.startswith("JSON-RPC 2.0"):
            urls[_JSON_RPC] = None
        elif name.startswith("WHATWG SSE"):
            urls[_EVENT_STREAMS] = None
        elif sep_match := _SEP_SOURCE.fullmatch(name):
            urls[f"{_PROPOSALS}/{sep_match['number']}"] = None
        elif rfc_match := _RFC_SOURCE.fullmatch(name):
            urls[f"https://www.rfc-editor.org/rfc/rfc{rfc_match['number']}#section-{rfc_match['section']}"] = None
        elif specification_match := _SPECIFICATION_SOURCE.fullmatch(name):
            folder = ""
            for page_name in (specification_match["page"], *pages):
                # A page without a folder is in that of the previous page, except these, which are at the top level.
                is_top_level = "/" in page_name or page_name.partition(" ")[0] in ("schema", "changelog", "deprecated")
                path = page_name if is_top_level else f"{folder}/{page_name}"
                folder = path.rpartition("/")[0]
                urls[_address(specification_match["revision"], path)] = None
    return list(urls)


def _address(revision: str, page_name: str) -> str:
    if page_name.partition(" ")[0] != "schema":
        return f"{_SPECIFICATION}/{revision}/{page_name.removesuffix('/index')}"
    if before(SCHEMA_PAGE).includes(rank_of(revision)):
        return f"{_SCHEMAS}/{revision}/schema.ts"
    name = page_name.removeprefix("schema").partition(" and ")[0].strip().lower()
    return f"{_SPECIFICATION}/{revision}/schema{name and '#' + name}"


def page_lines(rule: type[Rule], style: Style, width: int) -> Iterator[str]:
    """The page for a terminal, line by line."""
    yield style.paint([Span(rule.id, "accent")])
    yield ""
    yield from wrapped(summary_of(rule), width)
    for heading, text in sections(rule):
        yield ""
        if heading:
            yield style.paint([Span(heading, "accent")])
        yield from (f"  {line}" for line in wrapped(text, width - 2))
    yield ""
    yield from _fact_lines(facts(rule), style, width)
    # Never broken, because a terminal turns only a whole address into a link.
    yield from (f"  {address}" for address in addresses(rule.source))


def _fact_lines(rule_facts: list[tuple[str, str]], style: Style, width: int) -> Iterator[str]:
    for name, text in rule_facts:
        for number, line in enumerate(wrapped(text, width - 12)):
            yield style.paint([Span(f"{'' if number else name:<12}", "dim"), Span(line)]).rstrip()


# ---- docs/rules


def reference_files() -> dict[str, str]:
    """The files of the reference: name → text."""
    groups = {
        group: list(group_rules) for group, group_rules in groupby(rules().values(), lambda rule: group_of(rule.id))
    }
    return {
        _INDEX: _index(groups),
        **{f"{group}.md": _group_page(group, group_rules) for group, group_rules in groups.items()},
    }


def _index(groups: dict[str, list[type[Rule]]]) -> str:
    lines = [
        "# Rules",
        "",
        f"What `mcpproxy check` finds: {count_text(len(rules()), 'rule')}. {_NOTICE}",
        "`mcpproxy rule` lists them, `mcpproxy rule ID` shows one. Groups whose names begin with `ext-` are about",
        "[extensions](../extensions.md).",
        "",
        "| group | topic | rules |",
        "|---|---|---|",
        *(
            f"| [{group}]({group}.md) | {group_topic(group)} | {len(group_rules)} |"
            for group, group_rules in groups.items()
        ),
        "",
        "Levels: an `error` is something that the revision in force forbids, a `warning` something that should not be",
        "or is very suspicious, a `note` legal and worth knowing.",
        "",
        "## Marks",
        "",
        "The letters in the column `marks` of each page:",
        "",
        "| mark | means |",
        "|---|---|",
        *(f"| {letter} | {meaning} |" for letter, (_, meaning) in MARKS.items()),
    ]
    return "\n".join(lines) + "\n"


def group_topic(group: str) -> str:
    """What the rules of a group are about."""
    text = " ".join((inspect.getdoc(module_of(group)) or "").partition("\n\n")[0].split())
    return text.partition(": ")[2].removesuffix(".") or group


def _group_page(group: str, group_rules: list[type[Rule]]) -> str:
    lines = [f"# Rules: {group}", "", f"{group_topic(group)[:1].upper()}{group_topic(group)[1:]}. {_NOTICE}"]
    lines += ["", f"| rule | level | broken by | revisions | [marks]({_INDEX}#marks) |", "|---|---|---|---|---|"]
    for rule in group_rules:
        anchor = re.sub(r"[^\w-]", "", rule.id)
        cells = (f"[{rule.id}](#{anchor})", levels_text(rule), SIDE_NAMES[rule.who], str(rule.versions), marks(rule))
        lines.append(f"| {' | '.join(cells)} |")
    for rule in group_rules:
        lines += ["", f"## {rule.id}", "", page(rule)]
        if rule.replaces:
            lines += ["", f"Reported instead of {', '.join(f'`{name}`' for name in rule.replaces)}."]
        if rule.follows:
            causes = ", ".join(f"`{name}`" for name in rule.follows)
            condition = "once one of these rules has reported something in the session"
            lines += ["", f"Counted as a consequence, not listed, {condition}: {causes}."]
        if rule.source:
            links = " ".join(f"<{address}>" for address in addresses(rule.source))
            lines += ["", f"Source: {rule.source} {links}".rstrip()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]), reference_files())
