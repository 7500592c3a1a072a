"""Observer and the hooks that the core calls: how an aspect collects what it compares.

The core (`observe.py`) reads each capture of a side once. It calls `on_call` once for each call that the filter
selects, when it is over or at the end of its capture, and `on_message` and `on_finding` as they come. An observer only
overrides the hooks that it needs; the others cost nothing. Memory must be bounded, whatever the traffic.
"""

from collections.abc import Collection
from typing import Any, ClassVar

from analysis.comparison.change import AspectResult
from analysis.comparison.kind import AspectName
from analysis.comparison.options import CompareOptions, ObserveOptions
from analysis.conversation.call import Call, MessageContext
from analysis.reading import Reading
from analysis.rules.finding import Finding


class Observer:
    """The base class of the observers. One instance sees all captures of a side, one after another, oldest first."""

    aspect: ClassVar[AspectName]

    def begin(self, capture: str, reading: Reading) -> None:
        """Begin a capture, before its first step.

        Args:
            capture: its name for `Place.capture`.
            reading: the reading, whose properties show the state at any time.
        """

    def on_message(self, context: MessageContext) -> None:
        """Note a message; called for every message that the filter selects, in order."""

    def on_call(self, call: Call) -> None:
        """Note a call whose outcome is final."""

    def on_finding(self, finding: Finding, fingerprint: str) -> None:
        """Note a finding that the filter selects."""

    def end(self) -> None:
        """End the capture: everything of it was seen."""

    def observed(self) -> Any:
        """Returns what was collected: an instance of `Aspect.record`, a `msgspec.Struct` that JSON can hold."""
        raise NotImplementedError


class Aspect:
    """An aspect: how to observe it and how to compare what was observed. `aspects.py` lists them."""

    name: ClassVar[AspectName]
    record: ClassVar[type]
    """The type of `Observer.observed`, with which `msgspec` reads it back."""

    def observer(self, options: ObserveOptions) -> Observer:
        """Returns an observer for one side."""
        raise NotImplementedError

    def compare(self, old: Any, new: Any, options: CompareOptions) -> AspectResult:
        """Compare the records of both sides."""
        raise NotImplementedError

    def recognisable(self, record: Any) -> Collection[str]:  # noqa: ARG002
        """Returns what a side has that two unrelated servers do not share: calls of tools, items of lists.

        If the sides share none of it, over all aspects, they have nothing in common, and their comparison has failed.
        """
        return ()
