"""The lists of a server (tools, prompts, resources, templates), page by page, for rules that need them.

A walk is a list with all its pages, each requested with the cursor of the previous page. A page without a next cursor
completes the walk, which is valid until the server announces that the list has changed.

A list that was requested before such a notification and answered after it counts: it is the server's latest list, and
the client knows no other. Servers that register their tools during startup send the notification at exactly that point.
If only the next list counted, the calls of a client that never requests one could not be compared with any list. A list
is unknown if one of its pages came before the notification. A list requested before the notification does not replace
one that was requested after it.

All rules that use one list share its state; it does not matter which of them uses it first.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import orjson

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Id, Message, Request, id_of
from analysis.conversation.session import Session
from analysis.facts import size_of
from analysis.json_schema.validator import Schema, schema_of
from analysis.protocol.features import SCHEMA_DIALECT
from analysis.rules.unchanged_content import result_digest

MAX_LISTED_ITEMS: Final = 10_000
"""The most items of one list that are kept; a longer list is treated as unknown."""
MAX_LIST_BYTES: Final = 32 << 20
"""The most bytes in the frames of one list; a larger list is treated as unknown."""
MAX_OPEN_WALKS: Final = 16
"""The most lists of one kind that are requested at the same time."""

COMPLETE_PREFIX: Final = "list of "
"""Prefix of the entry in `Session.learned` for a complete list; the name of the member with its items follows."""


class _Schemas:
    """The schemas of some items; each is parsed once."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[int, str, bool], Schema | None] = {}

    def find(self, item: object, index: int, member: str, rank: int | None) -> Schema | None:
        predates_dialects = not SCHEMA_DIALECT.includes(rank)
        key = index, member, predates_dialects
        if key not in self._known:
            value = item.get(member) if isinstance(item, dict) else None
            self._known[key] = schema_of(value, predates_dialects=predates_dialects)
        return self._known[key]


class ListedItem(_Schemas):
    """One item of a complete list."""

    __slots__ = ("item", "seq")

    def __init__(self, item: dict[str, Any], seq: int) -> None:
        super().__init__()
        self.item = item
        self.seq = seq
        """Number of the message that listed the item."""

    def schema(self, member: str, rank: int | None) -> Schema | None:
        """Returns a schema of the tool, or None if the tool has none or the schema cannot be used."""
        return self.find(self.item, 0, member, rank)


class ListPage(_Schemas):
    """One result of a list request."""

    __slots__ = ("items", "reordered", "repeats")

    def __init__(self, items: list[Any], repeats: list[tuple[int, int]]) -> None:
        super().__init__()
        self.items = items[:MAX_LISTED_ITEMS]
        """The items as received, which may be of any type."""
        self.repeats = repeats
        """Positions of items whose name an earlier item of the walk has, each with the number of the earlier
        message."""
        self.reordered: int | None = None
        """Number of the last message of an earlier walk with the same items in another order."""

    def schema(self, index: int, member: str, rank: int | None) -> Schema | None:
        """Returns a schema of one of the page's tools, or None if the tool has none or the schema cannot be used."""
        return self.find(self.items[index], index, member, rank)


class ListWalk:
    """The pages of one list so far, or all of them."""

    __slots__ = ("entries", "is_whole", "others", "size")

    def __init__(self) -> None:
        self.entries: dict[str, ListedItem] = {}
        """The items by name; of items with the same name, the first."""
        self.others: list[tuple[Any, int]] = []
        """The items without a name, and those whose name an earlier item has, each with the number of its message."""
        self.size = 0
        """The bytes of its frames."""
        self.is_whole = True
        """Whether it began with the first page, and is within the limits."""


class Listing:
    """One list of a session, as far as the capture shows it."""

    def __init__(self, member: str, name: str) -> None:
        """Create an unknown list.

        Args:
            member: the member of the result that contains the items.
            name: the member that identifies an item.
        """
        self._member, self._name = member, name
        self._open_walks: OrderedDict[Id, ListWalk] = OrderedDict()
        self._complete_walk: ListWalk | None = None
        self._complete_seq, self._epoch = -1, 0
        self._requested_seq = self._changed_seq = -1
        self._last_order: tuple[list[str], int] | None = None
        self._last_page: tuple[Message, ListPage] | None = None
        self._single_page: tuple[ListWalk, ListPage, bytes | None] | None = None

    def record_page(self, context: MessageContext) -> ListPage:
        """Record a result of the list on the first call; returns the same page to all rules."""
        if self._last_page is not None and self._last_page[0] is context.message:
            return self._last_page[1]
        page = self._record(context)
        self._last_page = context.message, page
        return page

    def on_list_changed(self, context: MessageContext) -> None:
        """Record a notification that the list has changed."""
        self._changed_seq = context.message.seq
        self._open_walks.clear()
        self._complete_walk = None

    @property
    def complete_walk(self) -> ListWalk | None:
        """The complete list that is valid now; None if it is unknown."""
        return self._complete_walk

    def entry(self, name: object, request: Request, session: Session) -> ListedItem | None:
        """Returns an item of the complete list that came before a request, or None if there is none."""
        if self._complete_walk is None or self._complete_seq >= request.seq or self._epoch != session.epoch:
            return None
        return self._complete_walk.entries.get(name) if isinstance(name, str) else None

    def lacks(self, name: str, request: Request, session: Session) -> bool:
        """Whether a complete list came before a request, and a name is not in it."""
        if self._complete_walk is None or self._complete_seq >= request.seq or self._epoch != session.epoch:
            return False
        return name not in self._complete_walk.entries

    def _record(self, context: MessageContext) -> ListPage:
        result, request = context.body.get("result"), context.request
        items = result.get(self._member) if isinstance(result, dict) else None
        if not isinstance(items, list) or request is None or not isinstance(result, dict):
            return ListPage([], [])
        repeated_page = self._repeated_page(request, result, items, context)
        if repeated_page is not None:
            return repeated_page
        walk = self._walk_of(context, request)
        page = ListPage(items, _add_items(walk, items, self._name, context))
        if not self._may_replace(request, context.session):
            return page
        cursor = result.get("nextCursor")
        if cursor is not None:
            self._open_walks[id_of(cursor)] = walk
            if len(self._open_walks) > MAX_OPEN_WALKS:
                self._open_walks.popitem(last=False)
            return page
        if not walk.is_whole:
            self._complete_walk = None  # the list may differ from the previous one
            return page
        page.reordered = self._complete(walk, request, context)
        is_single_page = (
            self._complete_walk is walk and page.reordered is None and not page.repeats and _cursor(request) is None
        )
        self._single_page = (
            (walk, page, result_digest(context)) if is_single_page and len(items) == len(page.items) else None
        )
        return page

    def _repeated_page(
        self, request: Request, result: dict[str, Any], items: list[Any], context: MessageContext
    ) -> ListPage | None:
        """Returns the previous page if the result repeats the whole list unchanged on one page, as usual, or None."""
        if (
            self._single_page is None
            or self._complete_walk is not self._single_page[0]
            or self._epoch != context.session.epoch
        ):
            return None
        _, page, digest = self._single_page
        is_single = "nextCursor" not in result and _cursor(request) is None
        if not is_single or self._last_order is None or not self._may_replace(request, context.session):
            return None
        if (digest is None or digest != result_digest(context)) and not _is_alike(page.items, items):
            return None
        self._last_order, self._requested_seq = (self._last_order[0], context.message.seq), request.seq
        return page

    def _may_replace(self, request: Request, session: Session) -> bool:
        """Whether the response to a request may replace the known list."""
        is_overtaken = self._complete_walk is not None and request.seq < self._changed_seq < self._requested_seq
        return not is_overtaken and request.seq > session.lost_seq

    def _walk_of(self, context: MessageContext, request: Request) -> ListWalk:
        cursor = _cursor(request)
        if cursor is None:
            return ListWalk()
        walk = self._open_walks.pop(id_of(cursor), None) if self._may_replace(request, context.session) else None
        if walk is None:
            walk = ListWalk()
            walk.is_whole = False
        return walk

    def _complete(self, walk: ListWalk, request: Request, context: MessageContext) -> int | None:
        previous_walk, order = self._complete_walk, list(walk.entries)
        is_same = previous_walk is not None and self._epoch == context.session.epoch and _is_same(previous_walk, walk)
        if not is_same:
            self._complete_walk, self._complete_seq, self._epoch = walk, context.message.seq, context.session.epoch
            context.session.learned |= {COMPLETE_PREFIX + self._member}
        self._requested_seq = request.seq
        previous_order, self._last_order = self._last_order, (order, context.message.seq)
        if previous_order is None or previous_order[0] == order or set(previous_order[0]) != set(order):
            return None
        return previous_order[1]


def _cursor(request: Request) -> Any:
    params = request.params
    return params.get("cursor") if isinstance(params, dict) else None


def _add_items(walk: ListWalk, items: list[Any], name: str, context: MessageContext) -> list[tuple[int, int]]:
    repeats: list[tuple[int, int]] = []
    walk.size += size_of(context.message.frames)
    if walk.size > MAX_LIST_BYTES or len(walk.entries) + len(walk.others) + len(items) > MAX_LISTED_ITEMS:
        walk.is_whole = False
        walk.entries.clear()
        walk.others.clear()
    for index, item in enumerate(items[:MAX_LISTED_ITEMS]):
        key = item.get(name) if isinstance(item, dict) else None
        if not isinstance(key, str):
            walk.others.append((item, context.message.seq))
            continue
        earlier_item = walk.entries.get(key)
        if earlier_item is not None:
            repeats.append((index, earlier_item.seq))
            walk.others.append((item, context.message.seq))
        else:
            walk.entries[key] = ListedItem(item, context.message.seq)
    if not walk.is_whole and walk.size > MAX_LIST_BYTES:
        walk.entries.clear()
        walk.others.clear()
    return repeats


def _is_same(walk: ListWalk, other: ListWalk) -> bool:
    entries, other_entries = walk.entries, other.entries
    return (
        entries.keys() == other_entries.keys()
        and _is_alike([item for item, _ in walk.others], [item for item, _ in other.others])
        and all(_is_alike(listed_item.item, other_entries[name].item) for name, listed_item in entries.items())
    )


def _is_alike(value: object, other: object) -> bool:
    """Whether two values are certainly the same JSON; equality is not enough, because 1 == 1.0 == True in Python."""
    if value != other:
        return False
    try:
        return orjson.dumps(value) == orjson.dumps(other)
    except TypeError:
        return False  # integers beyond 64 bits, or lone surrogates


def _listing_in_session(member: str, name: str) -> Callable[[Session], Listing]:
    key = f"listing {member}"

    def listing_of(session: Session) -> Listing:
        listing: Listing | None = session.memory.get(key)
        if listing is None:
            listing = session.memory[key] = Listing(member, name)
        return listing

    return listing_of


tools_of: Final = _listing_in_session("tools", "name")
"""Returns the tool list of a session."""
prompts_of: Final = _listing_in_session("prompts", "name")
resources_of: Final = _listing_in_session("resources", "uri")
templates_of: Final = _listing_in_session("resourceTemplates", "uriTemplate")
events_of: Final = _listing_in_session("events", "name")
"""Returns the list of event types of a session, which belongs to the Events extension."""
