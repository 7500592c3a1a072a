"""The aspects of a comparison, in the order in which outputs show them."""

from typing import Final

from analysis.comparison.aspect import Aspect
from analysis.comparison.definitions.definitions import DefinitionsAspect
from analysis.comparison.findings import FindingsAspect
from analysis.comparison.latency.latency import LatencyAspect
from analysis.comparison.outcomes import OutcomesAspect
from analysis.comparison.session import SessionAspect
from analysis.comparison.values.sequence import SequenceAspect
from analysis.comparison.values.values import ValuesAspect

ASPECTS: Final[tuple[Aspect, ...]] = (
    DefinitionsAspect(),
    SessionAspect(),
    FindingsAspect(),
    OutcomesAspect(),
    ValuesAspect(),
    SequenceAspect(),
    LatencyAspect(),
)
"""Each aspect, once."""
