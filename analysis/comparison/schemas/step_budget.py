"""Bounds the work of comparing schemas, in steps: unlike time, they are the same on every machine."""

from typing import Final

from analysis.comparison.schemas.schema_part import Part, Undecidable

MAX_STEPS: Final = 60_000
"""The most steps for one schema and what it is compared with; they take about two seconds of processor time."""
MAX_STEPS_PER_COMPARISON: Final = 1_500_000
"""The most steps for all schemas of a comparison."""
_ITEMS_PER_STEP: Final = 4
"""How many listed values, members or required names take as long as a step."""


class StepBudget:
    """How many steps may still be taken."""

    def __init__(self, steps: int = MAX_STEPS, whole: "StepBudget | None" = None) -> None:
        """Begin with all steps.

        Args:
            steps: how many.
            whole: another budget, of which they are a part.
        """
        self.left = steps
        self._whole = whole

    def take(self, steps: int = 1) -> None:
        """Take some steps.

        Raises:
            Undecidable: there are no more.
        """
        self.left -= steps
        if self.left < 0:
            raise Undecidable("it is too large, or has too many alternatives")
        if self._whole is not None:
            self._whole.take(steps)

    def take_for(self, *parts: Part) -> None:
        """Take the steps for looking at everything in some parts.

        Raises:
            Undecidable: there are no more.
        """
        items = sum(len(part.values or ()) + len(part.properties) + len(part.required) for part in parts)
        self.take(len(parts) + items // _ITEMS_PER_STEP)
