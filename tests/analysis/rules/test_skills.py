"""Rules about skills in a redacted copy, in which texts may have been replaced, but not their digests."""

from pathlib import Path

import orjson

from captures.record import members, seal
from tests.analysis.traces import alarms, by_name


def test_contents_of_a_redacted_copy_are_not_compared(tmp_path: Path) -> None:
    (case,) = [case for case in by_name()["ext-skills"] if case.name == "stale-digests"]
    first_line, *records = [line for _, line in case.records()]
    header = orjson.loads(first_line)
    del header["seq"], header["rec"], header["t_ns"], header["crc"]
    rules = {}
    for name, redacted_by in (("original", None), ("copy", "mcpproxy 1.0.0")):
        path = tmp_path / f"{name}.mcpcap"
        path.write_bytes(b"".join([seal(0, 0, "header", members(**header, redacted_by=redacted_by)), *records]))
        rules[name] = [rule for rule, _, _ in alarms(path)]
    assert rules == {"original": ["ext-skills/digest-mismatch"] * 2, "copy": []}
