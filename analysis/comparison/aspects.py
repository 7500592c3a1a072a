"""The aspects of a comparison, in the order in which outputs show them."""

from typing import Final

from analysis.comparison.aspect import Aspect
from analysis.comparison.latency import LatencyAspect

ASPECTS: Final[tuple[Aspect, ...]] = (LatencyAspect(),)
"""Each aspect, once."""
