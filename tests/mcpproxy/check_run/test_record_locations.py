"""Every record of a capture is found again with its line number, regardless of what lies between the records."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from captures.envelope import judge
from captures.reader import Capture
from captures.record import Record, frame_members, members, seal
from mcpproxy.check_run.record_locations import RecordLocations, payload_at

BETWEEN = st.sampled_from([b"", b"", b"", b"\n", b"no record\n", b"two\nlines\n", b"glued"])
"""What precedes a record: usually nothing, sometimes damage; `glued` removes the line feed before the record."""


@given(st.lists(st.tuples(BETWEEN, st.integers(1, 3)), min_size=1, max_size=30))
def test_every_record_is_found_again(tmp_path_factory: object, parts: list[tuple[bytes, int]]) -> None:
    path = Path(tmp_path_factory.mktemp("sites")) / "x.mcpcap"  # type: ignore[attr-defined] # a fixture of pytest
    written = bytearray(seal(0, 0, "header", members(format=1, capture="0" * 32, segment=1, transport="stdio")))
    seq, lines = 0, {}
    for before, step in parts:
        seq += step
        if before == b"glued":
            del written[-1:]
        else:
            written += before
        raw = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % seq
        lines[seq] = written.count(b"\n") + 1, raw
        written += seal(seq, seq, "frame", frame_members("c2s", raw, judge(raw)))
    path.write_bytes(written)
    sites = RecordLocations(path)
    found = set[int]()
    for item in Capture(path):
        sites.on_item(item)
        found |= {item.seq} if isinstance(item, Record) else set()
    assert found == {0, *lines}
    for number, (line, raw) in lines.items():
        place = sites.place(number)
        assert place is not None
        assert (place.line, payload_at(place)) == (line, raw)
    assert sites.place(seq + 1) is None
