"""The aspects of a comparison, in the order in which outputs show them."""

from typing import Final

from analysis.comparison.aspect import Aspect
from analysis.comparison.findings import FindingsAspect
from analysis.comparison.outcomes import OutcomesAspect

ASPECTS: Final[tuple[Aspect, ...]] = (
    FindingsAspect(),
    OutcomesAspect(),
)
"""Each aspect, once."""
