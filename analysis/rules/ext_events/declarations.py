"""The shapes of the bodies of Events, its declaration, and what servers still have from the sketch before the SEP."""

from collections.abc import Iterable
from typing import Final

from analysis.conversation.call import MessageContext
from analysis.facts import code_of
from analysis.protocol.error_codes import SKETCH_CODES
from analysis.protocol.extensions import EVENTS
from analysis.protocol.revisions import FIRST_MODERN_REVISION
from analysis.rules.finding import Finding
from analysis.rules.support.eras import member
from analysis.rules.support.event_messages import EventsRule
from analysis.rules.support.extension_rules import ExtensionShape, UndeclaredExtension

_DECLARATIONS: Final = frozenset({"server/discover", "initialize"})
"""Requests whose results declare capabilities."""
_CODES: Final = {sketch_code: code for code, sketch_code in SKETCH_CODES.items()}


class Shape(ExtensionShape):
    """The params or the result of a method of Events do not have the declared shape.

    **Why it matters.** Clients recognise repeated events by `eventId`, find their handler by `name`, and go on from
    `cursor`.

    **On the wire.** `< {"id":3,"result":{"events":[{"name":"email.received","data":{}}],…}}`

    **Instead.** Each event has `eventId`, `name` and `timestamp` as strings, and `data` as an object; each type of
    event has a `name` and its modes of `delivery`.
    """

    id = "ext-events/shape"
    who = "either"
    extension = EVENTS


class Undeclared(UndeclaredExtension):
    """A client uses Events, but the server did not declare the extension.

    **Why it matters.** A server without Events refuses the request with -32601.

    **On the wire.** `< {"id":1,"result":{…,"capabilities":{"tools":{}}}}` … `> {"id":2,"method":"events/list",…}`

    **Instead.** Send requests of Events only to servers that declare `io.modelcontextprotocol/events`.
    """

    id = "ext-events/undeclared"
    who = "client"
    extension = EVENTS
    methods = EVENTS.requests
    once = True


class SketchDeclaration(EventsRule):
    """A server declares Events as a capability of its own, or before the revision that can have it.

    **Why it matters.** The sketch before SEP-3415 had the capability `events`. Clients that follow the SEP look for the
    extension only, in 2026-07-28 and later, and then do not use Events at all.

    **On the wire.** `< {"id":1,"result":{…,"capabilities":{"events":{"listChanged":true}}}}`

    **Instead.** Declare `"extensions":{"io.modelcontextprotocol/events":{"listChanged":true}}`, in the result of
    `server/discover`.
    """

    id = "ext-events/sketch-declaration"
    who = "server"
    sender = "server"
    methods = _DECLARATIONS

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        capabilities = member(context.body.get("result"), "capabilities")
        has_extension = isinstance(member(member(capabilities, "extensions"), EVENTS.identifier), dict)
        has_sketch = isinstance(member(capabilities, EVENTS.sketch_capability), dict)
        if has_extension and context.method == "initialize":
            text, pointer = (
                f"Events is declared in a handshake, but needs {FIRST_MODERN_REVISION}",
                _extension_pointer(),
            )
        elif has_sketch and not has_extension:
            text, pointer = "the server declares the capability events, not the extension", "/events"
        else:
            return ()
        return [self.finding(context, text, pointer=f"/result/capabilities{pointer}")]


class SketchCode(EventsRule):
    """An error of Events has the number that it had in the sketch before the SEP.

    **Why it matters.** Clients that follow SEP-3415 do not know the number, so they cannot distinguish a missing type
    of event from missing permission. Since 2026-07-28, numbers from -32019 to -32000 have no common meaning.

    **On the wire.** `< {"id":3,"error":{"code":-32011,"message":"NotFound"}}`

    **Instead.** -32023 (not found), -32024 (forbidden), -32025 (a limit was reached), -32026 (not supported) or -32027
    (the callback endpoint failed).
    """

    id = "ext-events/sketch-code"
    who = "server"
    sender = "server"
    methods = EVENTS.requests
    once = True
    once_each = True

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        sketch_code = code_of(context.message)
        code = None if sketch_code is None else _CODES.get(sketch_code)
        if code is None:
            return ()
        text = f"the error code {sketch_code} is that of the sketch; by the SEP it is {code}"
        return [self.finding(context, text, pointer="/error/code")]


def _extension_pointer() -> str:
    return f"/extensions/{EVENTS.identifier.replace('/', '~1')}"
