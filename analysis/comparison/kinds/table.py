"""The table of all kinds of changes, which tests and `mcpproxy compare --explain` read."""

from typing import Final

from analysis.comparison.kind import Kind
from analysis.comparison.kinds import definitions, findings, latency, outcomes, schemas, sequence, session, values

KINDS: Final[dict[str, Kind]] = {
    kind.id: kind
    for area in (definitions, schemas, session, findings, outcomes, values, sequence, latency)
    for kind in area.KINDS
}
"""Each kind by its id, in the order of outputs."""
