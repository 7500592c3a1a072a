"""Observes the lists of definitions of a side: of tools, resources, resource templates and prompts.

Of each list, the newest complete walk over its pages counts, in whichever session and capture it was made.
"""

from collections import OrderedDict
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct, field

from analysis.comparison.aspect import Observer
from analysis.comparison.canonical import canonical_json
from analysis.comparison.change import Place
from analysis.comparison.servers import MAX_SERVERS, merge_unnamed, server_key
from analysis.conversation.call import Call, MessageContext, Outcome
from analysis.conversation.message import Notification, Request, Response
from analysis.facts import code_of
from analysis.protocol.declared_capabilities import lacks
from analysis.protocol.error_codes import METHOD_NOT_FOUND
from analysis.protocol.features import SCHEMA_DIALECT
from analysis.protocol.methods import METHODS
from analysis.reading import Reading
from analysis.rules.support.listings import Listing, ListWalk

ListName: TypeAlias = Literal["tools", "prompts", "resources", "resource templates"]
ListState: TypeAlias = Literal["complete", "cut", "unreadable", "lost", "refused", "unanswered", "none", "unasked"]
"""All pages are known; some are. A client asked for it, and no page is known, because a message could not be examined,
because records are lost, because the server sent an error, or because no answer came. The server has no such list; no
client asked for it."""

MAX_WALKED_SESSIONS: Final = 1_000
"""The most sessions of a capture whose walks are followed at the same time."""


class DefinitionList(NamedTuple):
    """One list that servers have."""

    name: ListName
    item: str
    """What one definition is called: `tool`."""
    method: str
    member: str
    """The member of the result that contains the definitions."""
    identity: str
    """The member of a definition that identifies it."""
    changed: str
    """The notification that the list has changed."""

    @property
    def capability(self) -> str:
        """The capability without which a server has no such list."""
        return METHODS[self.method].required_capability


LISTS: Final = (
    DefinitionList("tools", "tool", "tools/list", "tools", "name", "notifications/tools/list_changed"),
    DefinitionList("prompts", "prompt", "prompts/list", "prompts", "name", "notifications/prompts/list_changed"),
    DefinitionList(
        "resources", "resource", "resources/list", "resources", "uri", "notifications/resources/list_changed"
    ),
    DefinitionList(
        *("resource templates", "resource template", "resources/templates/list", "resourceTemplates", "uriTemplate"),
        "notifications/resources/list_changed",
    ),
)
"""The lists, in the order of outputs."""
_BY_METHOD: Final = {row.method: row for row in LISTS}
_BY_NOTIFICATION: Final = {
    changed: [row for row in LISTS if row.changed == changed] for changed in {row.changed for row in LISTS}
}


class ListedDefinition(Struct):
    """One definition in a list."""

    name: str
    """What identifies it: its name, URI or template. Untrusted text."""
    text: str
    """The whole definition as canonical JSON."""
    place: Place


class ListRecord(Struct):
    """One list of one server."""

    state: ListState = "unasked"
    definitions: list[ListedDefinition] = field(default_factory=list)
    """The definitions, in the order of the list; several may have the same name."""
    unnamed: int = 0
    """How many items are not definitions with a name."""
    is_outdated: bool = False
    """Whether a later request for the list did not get all of it."""
    is_superseded: bool = False
    """Whether the server announced later that the list has changed, and no client asked for it again."""
    predates_dialects: bool = False
    """Whether the revision does not specify a default dialect of schemas."""


class DefinitionsRecord(Struct):
    """The lists of a side."""

    servers: dict[str, dict[ListName, ListRecord]] = field(default_factory=dict)
    """By the key of the server."""
    uncompared: int = 0
    """How many captures are of further servers, beyond the most that are told apart."""


class _CompleteWalk(NamedTuple):
    walk: ListWalk
    session: int
    predates_dialects: bool


class _OpenRequest(NamedTuple):
    """The last request for a list of which not all has come yet."""

    call: Call | None
    """None if the request repeats another one."""
    unjudged: int
    """How many messages of the capture could not be examined before it."""


class DefinitionsObserver(Observer):
    """Follows the walks over the lists."""

    aspect = "definitions"

    def __init__(self) -> None:
        """Create an observer that has seen no capture."""
        self._record = DefinitionsRecord()
        self._forget()

    def _forget(self) -> None:
        """Forget the walks of a capture."""
        self._listings: OrderedDict[int, dict[ListName, Listing]] = OrderedDict()
        self._newest: dict[ListName, _CompleteWalk] = {}
        self._open: dict[ListName, _OpenRequest] = {}
        """The lists that were requested and of which not all has come yet."""
        self._refused: set[ListName] = set()
        """The lists whose last request got an error."""
        self._announced: set[ListName] = set()
        """The lists that have changed, as the server says, since they were complete."""
        self._begun: set[ListName] = set()
        """The lists of which some page has come."""
        self._absent: set[ListName] = set()
        """The lists whose method the server does not have."""
        self._sessions: set[int] = set()

    def begin(self, capture: str, reading: Reading) -> None:
        """Begin a capture."""
        self._capture, self._reading = capture, reading

    def on_message(self, context: MessageContext) -> None:
        """Note requests for lists, their responses, and notifications that lists have changed."""
        message = context.message
        self._sessions.add(context.session.number)
        if isinstance(message, Response):
            request = context.request
            row = None if request is None else _BY_METHOD.get(request.method)
            if row is not None and context.answered is not None and context.answered.request.sender == "client":
                self._on_response(row, message, context)
        elif isinstance(message, Request):
            row = _BY_METHOD.get(message.method)
            if row is not None and message.sender == "client":
                self._open[row.name] = _OpenRequest(context.call, self._reading.fold.unjudged_count)
                self._refused.discard(row.name)
        elif isinstance(message, Notification) and message.sender == "server":
            for row in _BY_NOTIFICATION.get(message.method, ()):
                self._listing(row, context).on_list_changed(context)
                self._announced.add(row.name)

    def _on_response(self, row: DefinitionList, response: Response, context: MessageContext) -> None:
        """Note a page, or the error that came instead."""
        if response.is_error:
            if code_of(response) == METHOD_NOT_FOUND:
                self._absent.add(row.name)
                self._open.pop(row.name, None)
            else:
                self._refused.add(row.name)
            return
        self._begun.add(row.name)
        listing = self._listing(row, context)
        listing.record_page(context)
        walk = listing.complete_walk
        if walk is not None:
            self._newest[row.name] = _CompleteWalk(
                walk, context.session.number, not SCHEMA_DIALECT.includes(context.rank)
            )
            self._open.pop(row.name, None)
            self._announced.discard(row.name)

    def _listing(self, row: DefinitionList, context: MessageContext) -> Listing:
        """Return the list of a session. The rules have their own, because they may be ahead of an observer."""
        number = context.session.number
        listings = self._listings.get(number)
        if listings is None:
            listings = self._listings[number] = {each.name: Listing(each.member, each.identity) for each in LISTS}
            if len(self._listings) > MAX_WALKED_SESSIONS:
                self._listings.popitem(last=False)
        return listings[row.name]

    def end(self) -> None:
        """Keep the newest complete walks of the capture."""
        key = server_key(self._reading)
        servers = self._record.servers
        if key not in servers and len(servers) >= MAX_SERVERS:
            self._record.uncompared += 1
        else:
            lists = {row.name: self._list_record(row) for row in LISTS}
            servers[key] = _newer_lists(servers[key], lists) if key in servers else lists
        self._forget()

    def _list_record(self, row: DefinitionList) -> ListRecord:
        complete = self._newest.get(row.name)
        if complete is None:
            if row.name in self._open:
                return ListRecord("cut" if row.name in self._begun else self._missing_state(row.name))
            return ListRecord("none" if row.name in self._absent or self._is_undeclared(row) else "unasked")
        walk, session, predates_dialects = complete
        definitions = [self._definition(name, each.item, session, each.seq) for name, each in walk.entries.items()]
        unnamed = 0
        for item, seq in walk.others:
            name = item.get(row.identity) if isinstance(item, dict) else None
            if isinstance(name, str):
                definitions.append(self._definition(name, item, session, seq))
            else:
                unnamed += 1
        is_outdated = row.name in self._open
        is_superseded = row.name in self._announced and not is_outdated
        return ListRecord("complete", definitions, unnamed, is_outdated, is_superseded, predates_dialects)

    def _missing_state(self, name: ListName) -> ListState:
        """Return why no page of a list is known that a client asked for."""
        call, unjudged = self._open[name]
        if name in self._refused:
            return "refused"
        if self._reading.fold.unjudged_count > unjudged:
            return "unreadable"
        return "lost" if call is not None and call.outcome is Outcome.NOT_RECORDED else "unanswered"

    def _definition(self, name: str, item: object, session: int, seq: int) -> ListedDefinition:
        name = name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()
        return ListedDefinition(name, canonical_json(item).decode(), Place(self._capture, session, seq))

    def _is_undeclared(self, row: DefinitionList) -> bool:
        """Whether the server is known to lack the capability for a list in all sessions that say so."""
        declarations = [
            session.server_capabilities
            for session in self._reading.sessions
            if session.number in self._sessions and session.server_capabilities is not None
        ]
        return bool(declarations) and all(lacks(capabilities, row.capability) for capabilities in declarations)

    def observed(self) -> DefinitionsRecord:
        """Returns the lists of the side."""
        merge_unnamed(self._record.servers, lambda named, unnamed: _newer_lists(unnamed, named))
        return self._record


UNKNOWN_STATES: Final[frozenset[ListState]] = frozenset({"unreadable", "lost", "refused"})
"""The states of a list that a server has, or may have, and of which no page is known."""
_PRECEDENCE: Final[dict[ListState, int]] = {
    "unasked": 0,
    "none": 1,
    "unanswered": 2,
    "cut": 4,
    "complete": 5,
    **dict.fromkeys(UNKNOWN_STATES, 3),
}


def _newer_lists(earlier: dict[ListName, ListRecord], later: dict[ListName, ListRecord]) -> dict[ListName, ListRecord]:
    """Returns the lists of a server after a later capture: those that are complete there, and otherwise the earlier."""
    return {row.name: _newer_list(earlier[row.name], later[row.name]) for row in LISTS}


def _newer_list(earlier: ListRecord, later: ListRecord) -> ListRecord:
    if earlier.state == "complete" and later.state in ("cut", "unanswered", *UNKNOWN_STATES):
        earlier.is_outdated = True
    return later if _PRECEDENCE[later.state] >= _PRECEDENCE[earlier.state] else earlier
