"""Edits of configuration files change only their own bytes, and undoing them restores the file byte for byte."""

import json
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy.clients.documents.document import Document, Format
from mcpproxy.clients.documents.edits import (
    AddMember,
    ConfigError,
    DropFirstItems,
    Edit,
    MovedValue,
    Path,
    PrependItems,
    RemoveMember,
    SetValue,
)
from tests.examples import examples

OURS = ("run", "--name", "x y", "--")


def wrap(entry: Path, args: bool) -> list[Edit]:
    """Puts mcpproxy's words in front of a command and its arguments."""
    command = (*entry, "command")
    words = (*OURS, MovedValue(command))
    return [
        SetValue(command, "/opt/mcpproxy"),
        PrependItems((*entry, "args"), words) if args else AddMember(command, "args", words),
    ]


def unwrap(entry: Path, args: bool) -> list[Edit]:
    """Removes mcpproxy's words again."""
    command, words = (*entry, "command"), (*entry, "args")
    back = SetValue(command, MovedValue((*words, len(OURS))))
    return [back, DropFirstItems(words, len(OURS) + 1) if args else RemoveMember(words)]


CASES: dict[str, tuple[Format, Path, bool, str]] = {
    "one line": ("json", ("m", "a"), True, '{"m":{"a":{"command":"npx","args":["-y","p"],"env":{}}}}'),
    "two spaces": (
        "json",
        ("m", "a"),
        True,
        (
            '{\n  "m": {\n    "a": {\n      "command": "npx",\n'
            '      "args": [\n        "-y",\n        "p"\n      ]\n    }\n  }\n}\n'
        ),
    ),
    "tabs, CRLF, no end of line": (
        "json",
        ("m", "a"),
        True,
        (
            '{\r\n\t"m": {\r\n\t\t"a": {\r\n'
            '\t\t\t"args": [\r\n\t\t\t\t"-y"\r\n\t\t\t],\r\n\t\t\t"command": "n\\u0070x"\r\n\t\t}\r\n\t}\r\n}'
        ),
    ),
    "no args": ("json", ("m", "a"), False, '{"m": {"a": {\n  "type": "stdio",\n  "command": "npx"\n}}}'),
    "no args on one line": ("json", ("m", "a"), False, '{"m": {"a": {"command": "npx", "env": {}}}}'),
    "empty args": ("json", ("m", "a"), True, '{"m": {"a": {"command": "npx", "args": [ ]}}}'),
    "byte-order mark": ("json", ("m", "a"), True, '\ufeff{"m": {"a": {"command": "npx", "args": ["é\\n"]}}}'),
    "comments": (
        "jsonc",
        ("m", "a"),
        True,
        (
            '// top, "m"\n{ /* { */ "m": {"a": {"command": /* here */ "npx", // ['
            '\n "args": [ // first\n   "-y", // yes\n "p", /* , */\n ],\n },},}\n// end'
        ),
    ),
    "comment before a comma": (
        "jsonc",
        ("m", "a"),
        True,
        '{"m": {"a": {"command": "npx", "args": ["a" /* , */ , "b" // ,\n ,]}}}',
    ),
    "the last of two names": (
        "json",
        ("m", "a"),
        True,
        '{"m": {"a": {"command": "no", "args": []}, "a": {"command": "yes", "args": []}}}',
    ),
    "codex": (
        "toml",
        ("m", "a"),
        True,
        "# top\n[m.a]\ncommand = 'npx'  # why\nargs = [\n  \"-y\", # yes\n  'p',\n]\n\n[m.a.env]\nX = \"1\"\n",
    ),
    "toml on one line": ("toml", ("m", "a"), True, 'x = 1\r\n[m]\r\na = { command = "npx", args = ["-y"] }\r\n'),
    "toml, dotted": ("toml", ("m", "a"), True, 'm.a.command = "npx"\nm.a.args = ["""-y"""]'),
    "toml, quoted name": ("toml", ("m", "a.b"), True, '[m."a.b"]\ncommand="npx"\nargs=[]\n'),
    "toml, no args": ("toml", ("m", "a"), False, '[m.a]\n  command = "npx" # c\n\n[other]\n'),
    "toml, no args at the end": ("toml", ("m", "a"), False, '[m.a]\r\nurl = 1\r\ncommand = "npx"'),
    "toml, no args on one line": ("toml", ("m", "a"), False, 'm = { a = { command = "npx" } }'),
    "toml, out of order": (
        "toml",
        ("m", "a"),
        True,
        '[m.a]\ncommand = "npx"\nargs = ["-y"]\n[z]\nq = 1\n[m.b]\ncommand = "other"\n',
    ),
    "goose": (
        "yaml",
        ("m", "a"),
        True,
        (
            "# top\nm:\n  a:\n    command: npx  # why\n"
            "    args:\n    - -y   # yes\n    - 'p'\n    enabled: true\n  b: {command: x}\n"
        ),
    ),
    "yaml in brackets": ("yaml", ("m", "a"), True, "m:\r\n  a: {command: 'npx', args: [-y, \"p\"]}\r\n"),
    "yaml, empty args": ("yaml", ("m", "a"), True, "m:\n  a:\n    command: npx run\n    args: []\n"),
    "yaml, no args": ("yaml", ("m", "a"), False, "m:\n  a:\n    command: npx\n    enabled: true\n"),
    "yaml, no args at the end": ("yaml", ("m", "a"), False, "m:\n  a:\n    enabled: true\n    command: 'npx'"),
    "yaml list": ("yaml", ("m", 1), True, "m:\n- name: b\n- name: a\n  command: npx\n  args:\n    - -y\n"),
}


@pytest.mark.parametrize("name", CASES)
def test_edits_change_their_own_bytes_only_and_can_be_taken_back(name: str) -> None:
    form, entry, args, text = CASES[name]
    before = text.encode()
    plain = Document(before, form)
    after = plain.edited_bytes(wrap(entry, args))
    document = Document(after, form)
    there: Any = document.data
    was: Any = plain.data
    for key in entry:
        there, was = there[key], was[key]
    assert there["command"] == "/opt/mcpproxy"
    assert there["args"] == [*OURS, was["command"], *was.get("args", [])]
    assert {key: value for key, value in there.items() if key not in ("command", "args")} == {
        key: value for key, value in was.items() if key not in ("command", "args")
    }
    assert after.count(b"\r") == before.count(b"\r") or b"\r\n" in before
    assert document.edited_bytes(unwrap(entry, args)) == before


def test_a_layout_of_one_word_a_line_is_kept() -> None:
    text = '{"m": {"a": {"command": "npx",\n  "args": [\n    "-y"\n  ]}}}'
    after = Document(text.encode(), "json").edited_bytes(wrap(("m", "a"), True)).decode()
    assert after == (
        '{"m": {"a": {"command": "/opt/mcpproxy",\n  "args": [\n    "run",\n    "--name",\n    "x y",\n    "--",\n'
        '    "npx",\n    "-y"\n  ]}}}'
    )


@pytest.mark.parametrize(
    ("form", "text", "place"),
    [
        ("json", "", "line 1, column 1"),
        ("json", '{"a": 1,}', "line 1, column 8"),
        ("json", '{"a": 1 // no\n}', "line 1, column 9"),
        ("jsonc", '{"a": 1 /* no\n}', "line 1, column 9"),
        ("json", '{"a" 1}', "line 1, column 6"),
        ("json", "{\n  a: 1}", "line 2, column 3"),
        ("json", '{"a": [1 2]}', "line 1, column 10"),
        ("json", '{"a": [1', "line 1, column 9"),
        ("json", '{"a": 01}', "line 1, column 7"),
        ("json", "{} {}", "line 1, column 4"),
        ("json", '{"a": "\t"}', "line 1, column 7"),
        ("json", "[" * 300, "column 202"),
        ("json", '{"a": NaN}', "line 1, column 7: NaN is not JSON"),
        ("jsonc", '{"a": [1,\n -Infinity,], "b": "NaN"} // no', "line 2, column 2: -Infinity is not JSON"),
        ("jsonc", "[,]", "line 1, column 2: a value is missing"),
        ("jsonc", "{ /* c */ , }", "line 1, column 11"),
        ("jsonc", "[1,,]", "line 1, column 4"),
        ("toml", "a = 1\nb = \n", "line 2"),
        ("toml", "a = 1\na = 2\n", "line 2"),
        ("yaml", "a: [1\nb: 2\n", "line 2"),
        ("yaml", "a: 1\n---\nb: 2\n", "line 2"),
        ("yaml", "\t- a\n", "line 1"),
    ],
    ids=str,
)
def test_a_file_that_does_not_parse_is_refused_with_its_place(form: Format, text: str, place: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Document(text.encode(), form)
    assert place in str(refused.value)


def test_what_is_no_text_is_refused_with_its_line() -> None:
    with pytest.raises(ConfigError, match="line 2: this is not UTF-8"):
        Document(b'{\n"\xff": 1}', "json")


@pytest.mark.parametrize(
    "text",
    [
        "x: &x npx\nm:\n  a:\n    command: *x\n    args: []\n",
        "m:\n  a: &a\n    command: npx\n    args: []\n  b: *a\n",
        "m:\n  a:\n    command: |\n      npx\n    args: []\n",
    ],
)
def test_yaml_that_an_edit_would_change_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Document(text.encode(), "yaml").edited_bytes(wrap(("m", "a"), True))


words = st.text(st.characters(codec="utf-8", exclude_characters="\x7f", exclude_categories=("Cs", "Cc")), max_size=12)
entries = st.dictionaries(
    words.filter(bool),
    st.tuples(words, st.none() | st.lists(words, max_size=4), st.dictionaries(words, words, max_size=2)),
    min_size=1,
    max_size=4,
)
blanks = st.text(" \t\n", max_size=4)


def laid_out(data: dict[str, Any], form: Format, draw: Any) -> str:
    if form == "json":
        return json.dumps(data, indent=draw(st.sampled_from([None, 0, 2, "\t"])), ensure_ascii=draw(st.booleans()))
    if form == "jsonc":
        return spaced(data, draw)
    if form == "toml":
        import tomlkit

        return tomlkit.dumps(data)
    return yaml.safe_dump(
        data,
        allow_unicode=True,
        default_flow_style=draw(st.sampled_from([None, True, False])),
        indent=draw(st.sampled_from([2, 4])),
        width=draw(st.sampled_from([20, 80])),
    )


def spaced(value: Any, draw: Any) -> str:
    """JSON with white space, comments and commas in every place that allows them."""

    def gap() -> str:
        comment = draw(st.sampled_from(["", "", "", "/* , ] } */", '// " , ]\n']))
        return str(draw(blanks) + comment + draw(blanks))

    def joined(parts: list[str], brackets: str) -> str:
        inside = ",".join(gap() + part + gap() for part in parts)
        return brackets[0] + inside + ("," + gap() if parts and draw(st.booleans()) else gap()) + brackets[1]

    if isinstance(value, dict):
        return joined(
            [json.dumps(name) + gap() + ":" + gap() + spaced(child, draw) for name, child in value.items()], "{}"
        )
    if isinstance(value, list):
        return joined([spaced(child, draw) for child in value], "[]")
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


@pytest.mark.parametrize("form", ["json", "jsonc", "toml", "yaml"])
@examples(12)
@given(servers=entries, data=st.data())
def test_any_file_is_edited_exactly_or_refused(form: Format, servers: Any, data: st.DataObject) -> None:
    config = {
        "m": {
            name: {"command": command, **({} if args is None else {"args": args}), "env": env}
            for name, (command, args, env) in servers.items()
        },
        "other": ["x", {"y": "z"}],
    }
    before = laid_out(config, form, data.draw).encode()
    name = data.draw(st.sampled_from(sorted(servers)))
    entry, args = ("m", name), servers[name][1] is not None
    document = Document(before, form)
    if document.data != config:
        return  # the library did not write what it was given
    try:
        after = document.edited_bytes(wrap(entry, args))
        back = Document(after, form).edited_bytes(unwrap(entry, args))
    except ConfigError:
        assert form in ("yaml", "toml"), "JSON can always be edited"
        return
    meant = json.loads(json.dumps(config))
    meant["m"][name] |= {
        "command": "/opt/mcpproxy",
        "args": [*OURS, servers[name][0], *(servers[name][1] or [])],
    }
    assert Document(after, form).data == meant
    assert Document(back, form).data == config
    if form != "yaml":
        assert back == before
    if form == "toml":
        assert tomllib.loads(after.decode()) == meant


@pytest.mark.parametrize(
    ("form", "before", "after"),
    [
        ("json", '{"a": {"args": [\n    "run",\n    "x"\n  ]}}\n', '{"a": {"args": []}}\n'),
        ("jsonc", '{"a": {"args": [\n  // mine\n  "run",\n  "x"\n]}}\n', '{"a": {"args": [\n  // mine\n  \n]}}\n'),
        ("toml", '[a]\nargs = [\n  "run",\n  "x",\n]\n', "[a]\nargs = []\n"),
        ("yaml", "a:\n  args: [run,\n    x]\n", "a:\n  args: []\n"),
        ("yaml", "a:\n  args:\n  - run\n  - x\n  type: stdio\n", "a:\n  args: []\n  type: stdio\n"),
    ],
)
def test_a_list_that_its_client_has_laid_out_anew_leaves_no_blank_line(form: Format, before: str, after: str) -> None:
    edited = Document(before.encode(), form).edited_bytes([DropFirstItems(("a", "args"), 2)])
    assert edited.decode() == after


def test_a_block_of_yaml_ends_before_the_next_member() -> None:
    before = "a:\n  cmd: x\n  args:\n  - run\n  - cat\n  # theirs\n  type: stdio\n"
    edited = Document(before.encode(), "yaml").edited_bytes([RemoveMember(("a", "args"))])
    assert edited.decode() == "a:\n  cmd: x\n  # theirs\n  type: stdio\n"
