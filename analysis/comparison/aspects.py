"""The aspects of a comparison, in the order in which outputs show them."""

from typing import Final

from analysis.comparison.aspect import Aspect

ASPECTS: Final[tuple[Aspect, ...]] = ()
"""Each aspect, once."""
