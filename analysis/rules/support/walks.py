"""Walks: lists that are requested page by page, each page with the cursor of the previous page.

Each session has one `Walks` object, which its rules share. Each rule passes every result to it; only the first call for
a result counts. The numbers of cursors and items are bounded; beyond the limits, nothing new is recorded.
"""

from typing import Any, Final, NamedTuple

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Id, Message, Request, Side, id_of
from analysis.conversation.session import Session

LISTS: Final[dict[str, tuple[str, str] | None]] = {
    "tools/list": ("tools", "name"),
    "prompts/list": ("prompts", "name"),
    "resources/list": ("resources", "uri"),
    "resources/templates/list": None,
    "tasks/list": None,
    "skills/list": ("skills", "uri"),
    "resources/directory/read": ("resources", "uri"),
}
"""Methods with pages, each with the member that contains the items and the member that identifies an item."""
CHANGES: Final = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
}
"""Notifications, with the lists that they announce as changed."""

MAX_CURSORS: Final = 10_000
MAX_ITEMS: Final = 100_000

_KEY: Final = "walks"


class _Walk:
    """One list, from its first page on."""

    __slots__ = ("depths", "items", "scope")

    def __init__(self) -> None:
        self.depths: dict[Id, int] = {}
        """Cursors, each with the number of pages that precede its page."""
        self.items: dict[str, tuple[int, int]] = {}
        """Items, each with the depth of its page and the number of the message that listed it."""
        self.scope: tuple[str, int] | None = None
        """The first `cacheScope`, and the number of its message."""


class _IssuedCursor(NamedTuple):
    """A cursor that was issued for a method."""

    walk: _Walk
    depth: int
    seq: int
    """Number of the first message that issued it."""


class Page(NamedTuple):
    """A result of a list request, as a page of its walk."""

    is_loop: bool = False
    """Whether the page's next cursor leads back to an earlier page."""
    repeated_positions: tuple[int, ...] = ()
    """Positions of items that are on another page as well."""
    related_seqs: tuple[int, ...] = ()
    """Numbers of the messages with the other pages."""
    other_scope: tuple[str, int] | None = None
    """A different `cacheScope` of an earlier page, and the number of its message."""


class Walks:
    """The walks of a session."""

    def __init__(self) -> None:
        self._issued_cursors: dict[tuple[Side, Id], dict[str, _IssuedCursor]] = {}
        self._cursor_count = self._item_count = 0
        self._walks: dict[str, _Walk] = {}
        self._last_page: tuple[Message, Page] | None = None

    @property
    def is_full(self) -> bool:
        """Whether some issued cursors may not be remembered."""
        return self._cursor_count >= MAX_CURSORS

    def issued_for(self, request: Request) -> frozenset[str] | None:
        """Returns the methods for which a request's cursor was issued earlier, or None if the request has no cursor."""
        cursor = cursor_of(request)
        if cursor is None:
            return None
        cursors_by_method = self._issued_cursors.get((request.sender, cursor), {})
        return frozenset(
            method for method, issued_cursor in cursors_by_method.items() if issued_cursor.seq < request.seq
        )

    def record_page(self, context: MessageContext) -> Page:
        """Record a result of a list request on the first call; returns it as a page."""
        if self._last_page is None or self._last_page[0] is not context.message:
            self._last_page = context.message, self._record(context)
        return self._last_page[1]

    def on_lists_changed(self, methods: tuple[str, ...]) -> None:
        """Record that lists have changed, after which their items may be repeated."""
        for method in methods:
            if method in self._walks:
                self._item_count -= len(self._walks[method].items)
                self._walks[method].items = {}

    def _record(self, context: MessageContext) -> Page:
        result, request = context.body.get("result"), context.request
        if request is None or not isinstance(result, dict):
            return Page()
        if "nextCursor" not in result and cursor_of(request) is None:
            self._walks.pop(request.method, None)
            return Page()  # the whole list is on one page, as usual
        walk, depth = self._walk_of(request)
        self._walks[request.method] = walk
        is_loop = self._record_next_cursor(walk, depth, request, result.get("nextCursor"), context.message.seq)
        positions, related_seqs = self._record_items(walk, depth, request.method, result, context.message.seq)
        return Page(is_loop, positions, related_seqs, _conflicting_scope(walk, result, context.message.seq))

    def _walk_of(self, request: Request) -> tuple[_Walk, int]:
        cursor = cursor_of(request)
        issued_cursor = (
            self._issued_cursors.get((request.sender, cursor), {}).get(request.method) if cursor is not None else None
        )
        if issued_cursor is not None:
            return issued_cursor.walk, issued_cursor.depth
        walk = _Walk()
        if cursor is not None:
            walk.depths[cursor] = 0
        return walk, 0

    def _record_next_cursor(self, walk: _Walk, depth: int, request: Request, next_cursor: object, seq: int) -> bool:
        """Record the cursor of the next page; returns whether it leads back to an earlier page."""
        if not isinstance(next_cursor, str):
            return False
        cursor = id_of(next_cursor)
        if walk.depths.get(cursor, depth + 1) <= depth or cursor == cursor_of(request):
            return True
        cursors_by_method = self._issued_cursors.get((request.sender, cursor), {})
        earlier_cursor = cursors_by_method.get(request.method)
        if earlier_cursor is None:
            if self.is_full:
                return False
            self._cursor_count += 1
        walk.depths[cursor] = depth + 1
        cursors_by_method[request.method] = _IssuedCursor(
            walk, depth + 1, seq if earlier_cursor is None else earlier_cursor.seq
        )
        self._issued_cursors[request.sender, cursor] = cursors_by_method
        return False

    def _record_items(
        self, walk: _Walk, depth: int, method: str, result: dict[str, Any], seq: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        list_members = LISTS.get(method)
        items = result.get(list_members[0]) if list_members is not None else None
        if list_members is None or not isinstance(items, list):
            return (), ()
        positions, related_seqs, current_place = list[int](), set[int](), (depth, seq)
        for index, item in enumerate(items[: MAX_ITEMS - self._item_count]):
            name = item.get(list_members[1]) if isinstance(item, dict) else None
            if not isinstance(name, str):
                continue
            first_place = walk.items.setdefault(name, current_place)
            if first_place[0] != depth:
                positions.append(index)
                related_seqs.add(first_place[1])
            elif first_place[1] == seq:
                self._item_count += 1
        return tuple(positions), tuple(sorted(related_seqs))


def walks_of(session: Session) -> Walks:
    """The walks of a session."""
    walks: Walks | None = session.memory.get(_KEY)
    if walks is None:
        walks = session.memory[_KEY] = Walks()
    return walks


def cursor_of(request: Request) -> Id | None:
    """Returns the cursor of a request, or None if it is missing or not a string."""
    params = request.params
    cursor = params.get("cursor") if isinstance(params, dict) else None
    return id_of(cursor) if isinstance(cursor, str) else None


def _conflicting_scope(walk: _Walk, result: dict[str, Any], seq: int) -> tuple[str, int] | None:
    scope = result.get("cacheScope")
    if scope != "public" and scope != "private":
        return None
    if walk.scope is None:
        walk.scope = str(scope), seq
    return walk.scope if walk.scope[0] != scope else None
