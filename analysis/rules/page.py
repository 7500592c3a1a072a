"""The group `page`: lists that are sent in pages, and the cursors that lead from one page to the next."""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final, Literal

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request
from analysis.facts import code_of
from analysis.protocol import features
from analysis.protocol.error_codes import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
)
from analysis.protocol.extensions import CERTAIN_REQUESTS, senders_of
from analysis.protocol.revisions import MODERN_ERA, Span
from analysis.rules.base import ERROR, NOTE, WARNING, Rule
from analysis.rules.error.codes import code_text
from analysis.rules.finding import Finding, Impact, Level
from analysis.rules.support.walks import CHANGES, LISTS, Page, walks_of

_LISTS: Final = frozenset(LISTS)
_CURSOR: Final = frozenset({"cursor"})
_NEXT_CURSOR: Final = frozenset({"nextCursor"})
_ACCEPTED_CODES: Final = frozenset(
    {INVALID_PARAMS, METHOD_NOT_FOUND, HEADER_MISMATCH, UNSUPPORTED_VERSION, MISSING_CAPABILITY}
)
"""Codes that are correct, or that a server may send before it checks the cursor."""


class _PageRule(Rule):
    """A rule that needs the cursors that were issued."""

    methods: ClassVar[frozenset[str] | None] = _LISTS

    def required_members_for(self, hook: str, _method: str, _like: MessageContext) -> frozenset[str]:
        return _CURSOR if hook == "request" else _NEXT_CURSOR

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - the same for all hooks
        return method in CHANGES or bool(senders_of(method, like.rank))

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return self.check_page(context, walks_of(context.session).record_page(context))

    def check_page(self, context: MessageContext, page: Page) -> Iterable[Finding]:  # noqa: ARG002 - for rules that override it
        """Returns the findings about a page."""
        return ()


class UnknownCursor(_PageRule):
    """A request has a cursor that the session did not receive in any list.

    **Why it matters.** Only the server that issued a cursor understands it: if it is invented, changed or outdated, the
    response is an error or the wrong page.

    **On the wire.** `> {"id":3,"method":"tools/list","params":{"cursor":"page2"}}` without any earlier
    `"nextCursor":"page2"`

    **Instead.** Start without a cursor, and send back the value of `nextCursor`. Since 2026-07-28 a cursor may outlive
    its connection.
    """

    id = "page/unknown-cursor"
    needs_session = True
    who = "client"
    levels: ClassVar[Mapping[Span, Level]] = {MODERN_ERA: NOTE}
    needs_start = True
    source = "2024-11-05 server/utilities/pagination"

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        if context.request is None or _cursor_fault(context, context.request) != "unknown":
            return ()
        text = f"the cursor of {context.method} was never issued"
        return [self.finding(context, text, pointer="/params/cursor", blames=context.message.sender)]


class ForeignCursor(_PageRule):
    """A request has a cursor that was issued for another list.

    **Why it matters.** The response is an error, or the wrong page.

    **On the wire.** `< …"tools":[…],"nextCursor":"c1"` … `> {"id":4,"method":"prompts/list","params":{"cursor":"c1"}}`

    **Instead.** Keep a separate cursor for each list.
    """

    id = "page/foreign-cursor"
    needs_session = True
    who = "client"
    impact = Impact.WRONG
    source = "2024-11-05 server/utilities/pagination"

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        if context.request is None or _cursor_fault(context, context.request) != "foreign":
            return ()
        text = f"the cursor of {context.method} was issued for another list"
        return [self.finding(context, text, pointer="/params/cursor", blames=context.message.sender)]


class Loop(_PageRule):
    """The cursor of the next page leads back to an earlier page.

    **Why it matters.** A client that requests all pages never finishes.

    **On the wire.** `> …"cursor":"c1"` `< …"nextCursor":"c1"`

    **Instead.** Leave `nextCursor` out of the last page.
    """

    id = "page/loop"
    needs_session = True
    who = "server"
    once = True
    level = WARNING
    impact = Impact.COST
    source = "2024-11-05 server/utilities/pagination"

    def check_page(self, context: MessageContext, page: Page) -> Iterable[Finding]:
        if not page.is_loop:
            return ()
        text = "the next page is an earlier page"
        return [self.finding(context, text, pointer="/result/nextCursor", blames=context.message.sender)]


class DuplicateItem(_PageRule):
    """Two pages of one list have the same item.

    **Why it matters.** Clients show it twice, or drop one of the two. Often another item is missing instead.

    **On the wire.** `< …"resources":[{"uri":"file:///a",…}],"nextCursor":"c1"` … the same URI on the next page

    **Instead.** Use a stable order for all pages. Since 2026-07-28 clients must expect duplicates if the data changes.
    """

    id = "page/duplicate-item"
    follows = ("page/loop",)
    needs_session = True
    who = "server"
    level = NOTE
    impact = Impact.WRONG
    methods = _LISTS | frozenset(CHANGES)
    source = "2024-11-05 server/utilities/pagination"

    def required_members_for(self, _hook: str, _method: str, _like: MessageContext) -> frozenset[str]:
        return frozenset()  # the last page has items, but no cursor

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        if context.message.sender == "server":
            walks_of(context.session).on_lists_changed(CHANGES.get(context.method, ()))
        return ()

    def check_page(self, context: MessageContext, page: Page) -> Iterable[Finding]:
        list_members = LISTS.get(context.method)
        if not page.repeated_positions or list_members is None:
            return ()
        other_count = len(page.repeated_positions) - 1
        text = "an item is also on another page" + (f", and so are {other_count} more" if other_count else "")
        pointer = f"/result/{list_members[0]}/{page.repeated_positions[0]}"
        return [self.finding(context, text, pointer=pointer, related=page.related_seqs[:10])]


class EmptyCursor(_PageRule):
    """The cursor of the next page is an empty string.

    **Why it matters.** An empty cursor is valid and announces another page, but many clients treat it as the end.

    **On the wire.** `< {"id":2,"result":{"tools":[…],"nextCursor":""}}`

    **Instead.** Leave `nextCursor` out of the last page, and use cursors that are not empty.
    """

    id = "page/empty-cursor"
    who = "server"
    level = NOTE
    impact = Impact.WRONG
    source = "2026-07-28 server/utilities/pagination"

    def check_page(self, context: MessageContext, page: Page) -> Iterable[Finding]:  # noqa: ARG002 - the result is enough
        result = context.body["result"]
        if not isinstance(result, dict) or result.get("nextCursor") != "":
            return ()
        return [
            self.finding(context, "nextCursor is empty", pointer="/result/nextCursor", blames=context.message.sender)
        ]


class NextCursorElsewhere(Rule):
    """A result has a `nextCursor`, but its method has no pages.

    **Why it matters.** Clients do not request further pages of this method, so the rest is lost.

    **On the wire.** `< {"id":5,"result":{"contents":[…],"nextCursor":"c1"}}` in answer to `resources/read`

    **Instead.** Send everything at once, or let arguments or the URI select a part.
    """

    id = "page/next-cursor-elsewhere"
    who = "server"
    level = NOTE
    impact = Impact.WRONG
    required_members = frozenset({"nextCursor"})
    source = "2024-11-05 server/utilities/pagination"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - there is one hook
        return method in CERTAIN_REQUESTS and method not in LISTS

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        text = f"{context.method} has no pages, but its result has a nextCursor"
        return [self.finding(context, text, pointer="/result/nextCursor", blames=context.message.sender)]


class BadCursorCode(_PageRule):
    """A cursor that was not issued for the list is refused with a code other than -32602.

    **Why it matters.** -32602 tells the client to start again without a cursor.

    **On the wire.** `> {"id":3,"method":"tools/list","params":{"cursor":"old"}}` `< {"id":3,"error":{"code":-32603,…}}`

    **Instead.** Send -32602.
    """

    id = "page/bad-cursor-code"
    who = "server"
    level = WARNING
    impact = Impact.WRONG
    source = "2024-11-05 server/utilities/pagination"

    def on_error(self, context: MessageContext) -> Iterator[Finding]:
        request, code = context.request, code_of(context.message)
        if request is None or code is None or code in _ACCEPTED_CODES or _cursor_fault(context, request) is None:
            return
        text = (
            f"a cursor that was not issued for {request.method} is refused with {code_text(code)}, not {INVALID_PARAMS}"
        )
        level = ERROR if request.method == "tasks/list" and features.CORE_TASKS.includes(context.rank) else None
        blames = context.message.sender
        yield self.finding(context, text, pointer="/error/code", related=(request.seq,), level=level, blames=blames)


# ---- shared by the rules


def _cursor_fault(context: MessageContext, request: Request) -> Literal["unknown", "foreign"] | None:
    """Returns what is wrong with the cursor of a request, or None if it is right or its origin is uncertain."""
    session, walks = context.session, walks_of(context.session)
    issuing_methods = walks.issued_for(request)
    # A cursor issued before the recording, or in lost records, may belong to any list.
    if issuing_methods is None or request.method in issuing_methods or walks.is_full or not session.observed_start:
        return None
    return "foreign" if issuing_methods else "unknown"
