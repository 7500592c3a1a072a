"""Made-up findings for the tests of reports, and captures that have some."""

from pathlib import Path

from hypothesis import strategies as st

from analysis.rules.finding import Blames, Finding, Level
from mcpproxy.check_run.result import CheckOutcome, LocatedFinding, RecordLocation, Reporter, Totals
from tests.captures.samples import frame, header, lines

FOREIGN = (
    '\x1b[31m\x00\x07 \r\n::error::owned %0A ]]> <!-- & "quoted" [click](http://x) {0} \ud800 \ufffe \u202e 名\u0301'
    * 2
)
"""Text that every report must escape."""
SIDES: tuple[Blames, ...] = ("client", "server", "transport", "unknown")


def found(
    rule: str = "id/null",
    level: Level = Level.ERROR,
    blames: Blames = "server",
    session: int = 1,
    seq: int = 1,
    message: str = "it is wrong",
    **more: object,
) -> LocatedFinding:
    """Returns a finding in a capture that need not exist."""
    made = Finding(rule, level, blames, session, seq, message, t_ns=1_500_000, source="2024-11-05 basic/messages")
    return LocatedFinding(made, Path("some.mcpcap"))._replace(**more)  # type: ignore[arg-type]


anything = st.builds(
    found,
    rule=st.sampled_from(["id/null", "framing/bom", "mrtr/same-id"]),
    level=st.sampled_from(Level),
    blames=st.sampled_from(SIDES),
    session=st.integers(0, 3),
    seq=st.integers(0, 2**63),
    message=st.text() | st.just(FOREIGN),
    capture=st.sampled_from(
        [Path("a.mcpcap"), Path(FOREIGN.replace("\x00", "").replace("\ud800", "\udcff")), Path("/tmp/%41,b:c.mcpcap")]
    ),
    place=st.none()
    | st.builds(RecordLocation, st.just(Path("gone.mcpcap")), st.integers(0, 99), st.just(9), st.integers(1, 9)),
    is_accepted=st.booleans(),
)
"""Any finding, with untrusted text."""


def written(report: Reporter, founds: list[LocatedFinding], **ended: object) -> str:
    """Returns everything that a report prints about one capture."""
    totals, path = Totals(), Path("some.mcpcap")
    totals.captures = 1
    pieces = [*report.begin(path)]
    for one in founds:
        totals.count_finding(one)
        pieces += report.report(one)
    pieces += report.finish(CheckOutcome(path, {}, {}, is_damaged=False)._replace(**ended))  # type: ignore[arg-type]
    return "".join([*pieces, *report.close(totals)])


def twisted(path: Path, answers: int = 1, first: int = 1) -> Path:
    """Write calls whose responses have their ids as strings: id/type-changed, and no other rule of `id`."""
    middles = [("header", header())]
    for number in range(first, first + answers):
        middles.append(
            ("frame", frame("c2s", b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"a"}}' % number))
        )
        middles.append(("frame", frame("s2c", b'{"jsonrpc":"2.0","id":"%d","result":{"content":[]}}' % number)))
    path.write_bytes(b"".join(lines(middles)))
    return path
