"""A text is JSON here exactly if it is JSON for Node."""

import random
import shutil
import subprocess
from collections.abc import Iterator
from typing import Final

import pytest

from captures.envelope import judge
from tests.captures.verdicts import CASES

NO_JSON: Final = frozenset(
    {
        "framing/invalid-utf8",
        "framing/stdout-not-json",
        "framing/stdin-not-json",
        "framing/lsp-header",
        "framing/several-messages-on-a-line",
        "framing/blank-line",
        "framing/truncated-message",
        "framing/non-json-number",
        "sse/data-not-json",
    }
)


NODE: Final = shutil.which("node")
NODE_READS_JSON: Final = """
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const parse = (hex) => JSON.parse(strict.decode(Buffer.from(hex, "hex")));
const reads = (hex) => { try { parse(hex); return "1"; } catch { return "0"; } };
const frames = require("fs").readFileSync(0, "latin1").split("\\n");
process.stdout.write(frames.map(reads).join(""));
"""


def texts_near_json() -> Iterator[bytes]:
    """The table's frames and many variants with one to three places changed; the same ones in every run."""
    raws = [case.raw for case in CASES if case.whole and len(case.raw) < 300 and case.expect.problem != "framing/bom"]
    yield from raws
    pieces = [b"", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"0", b"1", b"-", b".", b"e", b" ", b"\n", b"\x0b"]
    pieces += [
        b"\x7f",
        b"\x1f",
        b"\xe2\x80\xa8",
        b"\xff",
        b"true",
        b"null",
        b"nul",
        b"\\u",
        b"\\ud8",
        b"\\/",
        b"{}",
        b'""',
    ]
    choices = random.Random(20260728)
    for raw in raws:
        for _ in range(10):
            changed = raw
            for _ in range(choices.randint(1, 3)):
                at = choices.randint(0, len(changed))
                changed = changed[:at] + choices.choice(pieces) + changed[at + choices.randint(0, 2) :]
            yield changed


@pytest.mark.skipif(NODE is None, reason="node is not installed: its JSON.parse is the other opinion")
def test_what_is_no_json_here_is_no_json_for_node() -> None:
    frames = [raw for raw in dict.fromkeys(texts_near_json()) if judge(raw).kind != "unjudged"]
    hexadecimal = "\n".join(raw.hex() for raw in frames).encode()
    told = subprocess.run([str(NODE), "-e", NODE_READS_JSON], input=hexadecimal, stdout=subprocess.PIPE, check=True)
    ours = "".join("0" if judge(raw).problem in NO_JSON else "1" for raw in frames)
    theirs = told.stdout.decode()
    assert len(frames) > 1_000
    assert [raw for raw, we, they in zip(frames, ours, theirs, strict=True) if we != they] == []
