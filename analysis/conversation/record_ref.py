"""RecordRef: the record that reported a fact, identified by its number and its stamp."""

from msgspec import Struct


class RecordRef(Struct, frozen=True, gc=False):
    """The record that reported a fact."""

    seq: int
    t_ns: int
