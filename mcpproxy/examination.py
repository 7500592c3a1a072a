"""Examination: the items of one capture become findings, with all that a report tells beside them.

All rules run, whichever are wanted: one takes away what another says worse, and a choice must not bring that back.
Memory is bounded by the records of the capture (some 46 bytes each) and by what the checker holds.
"""

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from analysis.baseline import Baseline, fingerprint
from analysis.checker import Checker
from analysis.filter import Facts, Filter, facts_of
from analysis.finding import Finding
from analysis.message import Notification, Request, Response
from analysis.rules import Rule, rules
from analysis.session import Seen
from captures.frame import Frame
from captures.reader import Damage, FrameAssembler
from captures.record import Record
from mcpproxy.report.found import Ended, Found
from mcpproxy.report.sites import Sites

_LONGEST_METHOD: Final = 256
_MOST_METHODS: Final = 10_000
_MOST_BATCHED: Final = 100_000
_FACTS_KEPT: Final = 10_000
_FACTS_BYTES: Final = 64 << 20


def is_any(_rule: str) -> bool:
    """Wants every rule."""
    return True


class Wanted(NamedTuple):
    """Which findings are wanted."""

    picks: Callable[[str], bool] = is_any
    """Whether a rule is, by its id."""
    baseline: Baseline = Baseline()
    """What was accepted."""
    only: Filter | None = None
    """Selects messages; None for all."""


class Examination:
    """Examines one capture."""

    def __init__(self, path: Path, wanted: Wanted) -> None:
        self.frames = 0
        self.is_damaged = False
        """Whether bytes of it are no record; an unfinished record at the end is ordinary."""
        self._path = path
        self._wanted = wanted
        self._sites = Sites(path)
        self._assembler = FrameAssembler()
        self._onlooker = _Onlooker(keeps_facts=wanted.only is not None)
        self._checker = Checker([_shown_to(self._onlooker.look), *rules().values()])

    @property
    def sessions(self) -> int:
        """How many there were so far."""
        return self._checker.fold.routing.count

    def feed(self, item: Record | Damage) -> Iterator[Found]:
        """The next item of the capture."""
        self._sites.note(item)
        self.is_damaged = self.is_damaged or (isinstance(item, Damage) and item.cause != "torn")
        assembled = self._assembler.feed(item)
        if assembled is not None:
            yield from self._feed(assembled)

    def finish(self, *, still_open: bool) -> Iterator[Found]:
        """No more will come, at least not now.

        Args:
            still_open: whether it is still being recorded.
        """
        for item in self._assembler.end():
            yield from self._feed(item)
        fold = self._checker.fold
        for exchange in fold.finish() if self._wanted.only is not None else ():
            seen = Seen(exchange.request, fold.session_of(exchange.request))
            self._onlooker.facts[exchange.request.seq, exchange.request.index] = facts_of(seen, exchange)
        yield from self._told(
            self._checker.finish("open" if still_open else "closed" if fold.ending is not None else "killed")
        )

    @property
    def ended(self) -> Ended:
        """What is known at the end."""
        return Ended(self._path, self._checker.counts, self._checker.faults, self.is_damaged)

    def _feed(self, item: Frame | Record | Damage) -> Iterator[Found]:
        self.frames += isinstance(item, Frame)
        yield from self._told(self._checker.feed(item))

    def _told(self, findings: Iterable[Finding]) -> Iterator[Found]:
        for finding in findings:
            if self._wanted.picks(finding.rule) and self._is_selected(finding):
                yield self._found(finding)

    def _is_selected(self, finding: Finding) -> bool:
        if self._wanted.only is None:
            return True
        facts = self._onlooker.facts.get((finding.frame, finding.item), Facts(session=finding.session))
        return self._wanted.only.matches(replace(facts, rules=(finding.rule,), level=str(finding.level)))

    def _found(self, finding: Finding) -> Found:
        method = self._onlooker.method(finding.frame, finding.item)
        mark = fingerprint(finding.rule, method, finding.pointer, finding.message)
        return Found(
            finding,
            self._path,
            method,
            self._checker.fold.wall_ns,
            self._sites.place(finding.frame),
            mark,
            mark in self._wanted.baseline,
        )


class _Onlooker:
    """Remembers of each message what findings do not say: its method, and what a filter may ask."""

    def __init__(self, *, keeps_facts: bool) -> None:
        self.facts: OrderedDict[tuple[int, int | None], Facts] = OrderedDict()
        """Of the last messages, where they are wanted."""
        self._keeps_facts = keeps_facts
        self._bytes = 0
        self._names = [""]
        self._numbers = {"": 0}
        self._seqs, self._methods = array("Q"), array("L")
        self._batched: OrderedDict[tuple[int, int | None], int] = OrderedDict()

    def look(self, seen: Seen) -> None:
        """The next message."""
        message = seen.message
        asked = seen.request if isinstance(message, Response) else message
        name = asked.method[:_LONGEST_METHOD] if isinstance(asked, Request | Notification) else ""
        number = self._numbers.get(name)
        if number is None and len(self._names) < _MOST_METHODS:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
        if message.index is not None or (self._seqs and message.seq <= self._seqs[-1]):
            self._batched[message.seq, message.index] = number or 0
            if len(self._batched) > _MOST_BATCHED:
                self._batched.popitem(last=False)
        elif number:
            self._seqs.append(message.seq)
            self._methods.append(number)
        if self._keeps_facts:
            self._keep(seen)

    def method(self, seq: int, item: int | None) -> str:
        """The method of a message; of an answer, that of its request; empty where there is none."""
        number = self._batched.get((seq, item))
        if number is None:
            at = bisect_left(self._seqs, seq)
            number = self._methods[at] if at < len(self._seqs) and self._seqs[at] == seq else 0
        return self._names[number]

    def _keep(self, seen: Seen) -> None:
        facts = facts_of(seen)
        self.facts[seen.message.seq, seen.message.index] = facts
        self._bytes += len(facts.raw)
        while len(self.facts) > 1 and (len(self.facts) > _FACTS_KEPT or self._bytes > _FACTS_BYTES):
            _, oldest = self.facts.popitem(last=False)
            self._bytes -= len(oldest.raw)


def _shown_to(look: Callable[[Seen], None]) -> type[Rule]:
    """A rule that finds nothing: by it somebody is shown each message before the rules are asked about it."""

    class Onlooking(Rule):
        id = ""

        def on_message(self, seen: Seen) -> Iterable[Finding]:
            look(seen)
            return ()

    return Onlooking
