"""Made-up comparisons for the tests of their outputs: an ordinary one, and one that holds every hard thing.

Their kinds are like those of the real table, but do not change with its texts.
"""

from typing import Any, Final

from analysis.comparison.change import (
    Change,
    Comparison,
    Gap,
    Ignored,
    LatencyRow,
    Place,
    SideSummary,
    SizeRow,
    Witness,
)
from analysis.comparison.kind import Kind, Severity
from analysis.conversation.message import Number

TOOL_REMOVED: Final = Kind(
    "tool/removed",
    Severity.BREAKING,
    "a tool was removed",
    "Calls of the tool fail from now on.",
    "search, fetch → fetch",
)
ARGUMENT_REQUIRED: Final = Kind(
    "arguments/newly-required",
    Severity.BREAKING,
    "an argument is required now",
    "Calls without it are refused from now on.",
    '"required": ["query"] → ["query", "limit"]',
)
NOW_FAILS: Final = Kind(
    "outcome/now-fails", Severity.WORSE, "a call fails now", "It got a result before.", "result → error", "outcome"
)
SLOWER: Final = Kind(
    "latency/slower", Severity.WORSE, "a call takes longer", "Chance does not explain it.", "12 ms → 31 ms", "slower"
)
FINDING_NEW: Final = Kind(
    "finding/new", Severity.WORSE, "a finding is new", "A rule is broken.", "id/null: 3", "finding"
)
REVISION_CHANGED: Final = Kind(
    "session/revision-changed", Severity.MAY_BREAK, "another revision", "They differ.", "2025-06-18 → 2025-11-25"
)
VALUE_CHANGED: Final = Kind("value/changed", Severity.NOTE, "a value changed", "It may matter.", "3 → 4", "value")
CALL_MISSING: Final = Kind("sequence/missing", Severity.NOTE, "a call is missing", "It may matter.", "3 times → never")

HOSTILE: Final = (
    '\x1b[31m\x1b]0;owned\x07\x00 \r\n::error::owned %0A ]]> --> </script><img src=x onerror=alert(1)> & "quoted" | '
    "`a` ```b``` [click](http://x) ![i](x) @team #1 {0} \ud800 \ufffe \u202e\u2066\u200b\U000e0041 e\u0301名 \u2028"
)
"""Text that every output must make harmless."""
DEEP: Final[list[Any]] = []
_inner = DEEP
for _ in range(10_000):
    _inner.append([])
    _inner = _inner[0]

OLD: Final = SideSummary(
    "old.mcpcap", 1, 2, 1_240, "search 1.0.0", "inspector 0.17.0", ("2025-06-18",), 1_795_000_000_000_000_000
)
NEW: Final = OLD._replace(
    name="new.mcpcap",
    frames=1_260,
    server="search 2.0.0",
    revisions=("2025-11-25",),
    begun_ns=1_795_086_400_000_000_000,
)


def place(frame: int, capture: str = "old.mcpcap", session: int = 1) -> Place:
    """Returns a place in a capture that need not exist."""
    return Place(capture, session, frame)


def latency(name: str, verdict: str, old_ms: float, new_ms: float, count: int = 100) -> LatencyRow:
    """Returns the latencies of a call."""
    old, new, ratio = int(old_ms * 1e6), int(new_ms * 1e6), new_ms / old_ms
    interval = None if verdict == "cannot tell" else (ratio * 0.9, ratio * 1.1)
    return LatencyRow(name, count, count - 2, old, new, 3 * old, 3 * new, interval, interval, verdict)


ORDINARY: Final = Comparison(
    OLD,
    NEW,
    (
        Change(TOOL_REMOVED, "tool fetch", "the tool was removed", old=place(4)),
        Change(
            ARGUMENT_REQUIRED,
            "tool search",
            "the argument limit is required now",
            "/inputSchema/required",
            ["query"],
            ["query", "limit"],
            place(4),
            place(6, "new.mcpcap"),
            Witness({"query": "a"}, fits_old=True),
        ),
        Change(
            NOW_FAILS,
            "tools/call search",
            "a request that got a result fails now: error -32602",
            before={"outcome": "result"},
            after={"outcome": "error", "code": -32602},
            old=place(12),
            new=place(14, "new.mcpcap"),
            times=3,
        ),
        Change(SLOWER, "tools/call search", "p50 rose from 12 ms to 31 ms, by 120 to 190 %"),
        Change(
            ARGUMENT_REQUIRED,
            "tool search",
            "the argument cursor is required now",
            "/inputSchema/allOf/0/required",
            lowered=Severity.MAY_BREAK,
            unproved="the schema took too long",
        ),
        Change(REVISION_CHANGED, "session", "another revision was negotiated", before="2025-06-18", after="2025-11-25"),
        Change(
            VALUE_CHANGED,
            "tools/call search",
            "a value changed",
            "/structuredContent/count",
            3,
            4,
            place(12),
            place(14),
        ),
        Change(CALL_MISSING, "tools/call fetch", "the call is not made any more: 3 times before"),
    ),
    (Gap("prompts", "neither side lists them", is_failure=False, needed_by=frozenset({"breaking"})),),
    (("tools", 3, 2), ("calls", 120, 118), ("requests", 1, 1)),
    (Ignored("/_meta/*", 240, 3), Ignored("times", 118, 118)),
    (
        latency("tools/call search", "slower", 12, 31),
        latency("tools/call list", "faster", 120, 61),
        latency("ping", "same", 1, 1.01),
        latency("tools/call fetch", "cannot tell", 1, 7, 4),
    ),
    (SizeRow("tools", 3, 2, 12_310, 14_020, 3_021, 3_412), SizeRow("prompts", 1, 1, 90, 90, 20, 20)),
    accepted_changes=(
        Change(VALUE_CHANGED, "tools/call fetch", VALUE_CHANGED.title, "/structuredContent/total", 41, 7),
        Change(CALL_MISSING, "tools/call drop", "the call is not made any more: once before"),
    ),
)
"""A comparison as users see it: a new version of a server broke something."""

NOTHING: Final = Comparison(OLD, NEW, (), (), (("tools", 14, 14), ("calls", 120, 120)))
"""A comparison without a change."""

FAILED: Final = NOTHING._replace(
    gaps=(Gap("tools", "the old side lists them and the new side does not", is_failure=True),),
    changes=ORDINARY.changes[-2:],
    compared=(("calls", 120, 120),),
)
"""A comparison that failed."""

_HOSTILE_VALUES: Final[tuple[Any, ...]] = (
    HOSTILE,
    {HOSTILE: [HOSTILE, None, True, 1.5]},
    "a" * 10_000 + "b",
    10**30,
    -(10**6_000),
    Number("1e999"),
    DEEP,
    {"wide": list(range(100_000))},
    None,
    float("inf"),
)
_HOSTILE_PLACE: Final = Place(HOSTILE.replace("\x00", "").replace("\ud800", "\udcff"), 0, 2**70)

HARD: Final = Comparison(
    OLD._replace(name=HOSTILE, server=HOSTILE, client=HOSTILE, revisions=(HOSTILE,), captures=3, warnings=(HOSTILE,)),
    NEW._replace(name="expectation.json", captures=0, sessions=0, frames=0, server=None, client=None, begun_ns=2**80),
    tuple(
        Change(
            kind,
            f"tool {HOSTILE}",
            f"{HOSTILE} {number}",
            f"/a|b/{HOSTILE}",
            before,
            after,
            _HOSTILE_PLACE,
            place(-1, "expectation.json", 0),
            Witness({HOSTILE: after}, fits_old=bool(number % 2)),
            times=2**70,
        )
        for number, (kind, before, after) in enumerate(
            zip(
                (ARGUMENT_REQUIRED, NOW_FAILS, SLOWER, FINDING_NEW, REVISION_CHANGED) * 2,
                _HOSTILE_VALUES,
                reversed(_HOSTILE_VALUES),
                strict=True,
            )
        )
    )
    + tuple(Change(VALUE_CHANGED, "x" * 10_000, "y" * 10_000, "/z" * 10_000, number) for number in range(50)),
    (Gap(HOSTILE, HOSTILE, is_failure=True), *(Gap(f"{HOSTILE} {n}", HOSTILE, is_failure=False) for n in range(50))),
    ((HOSTILE, 2**70, 1),),
    (Ignored(f"/{HOSTILE}", 2**70, 1),),
    (
        latency(HOSTILE, "slower", 1, 4),
        *(latency(f"{HOSTILE} {number}", "cannot tell", 1, 1) for number in range(50)),
        LatencyRow(HOSTILE, 0, 2**70, None, 2**70, None, None, None, None, "faster"),
    ),
    (SizeRow("tools", 0, 2**70, 0, 2**70, 0, 2**70),),
)
"""A comparison with hostile text, deep, wide and huge values, and absurd numbers wherever they can be."""
