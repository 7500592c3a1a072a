"""The filter language, which selects messages to show, check or list; see docs/filter.md.

`parse` takes any text and returns a `Filter` or raises a `FilterError` that points at the place; it takes time linear
in the text, whose length and depth are bounded. A filter reads only the `Facts` about one message, so callers decide
which facts are known at which time. It never raises, regardless of the facts. An unknown fact matches no term, so `not`
before it selects the message.
"""

from analysis.filter.facts import Facts, facts_of, facts_of_batch, facts_of_call, facts_of_record
from analysis.filter.keys import FINDING_KEYS, KEYS
from analysis.filter.parser import MAX_FILTER_CHARS, MAX_FILTER_DEPTH, Filter, FilterError, parse

__all__ = [
    "FINDING_KEYS",
    "KEYS",
    "MAX_FILTER_CHARS",
    "MAX_FILTER_DEPTH",
    "Facts",
    "Filter",
    "FilterError",
    "facts_of",
    "facts_of_batch",
    "facts_of_call",
    "facts_of_record",
    "parse",
]
