"""Messages between an app and its host, which do not belong between client and server."""

from collections.abc import Iterable
from typing import Final

from analysis.conversation.call import MessageContext
from analysis.rules.base import NOTE, Rule
from analysis.rules.ext_apps.capability import SOURCE
from analysis.rules.finding import Finding
from analysis.rules.support.eras import shortened

_PREFIX: Final = "ui/"


class AppMessage(Rule):
    """A message that belongs between an app and its host is sent between client and server.

    **Why it matters.** Apps talk to their host through the browser. Of their messages, hosts forward only those whose
    methods do not begin with `ui/`; a server does not know the others.

    **On the wire.** `> {"id":5,"method":"ui/initialize","params":{"appInfo":{…},…}}`

    **Instead.** Have the host answer messages whose methods begin with `ui/`, and forward only `tools/call`,
    `resources/read` and the like.
    """

    id = "ext-apps/app-message"
    level = NOTE
    replaces = ("method/unknown-request", "method/unknown-notification")
    source = SOURCE

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - the name decides
        return method.startswith(_PREFIX)

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        return self._check(context)

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        return self._check(context)

    def _check(self, context: MessageContext) -> Iterable[Finding]:
        text = f"{shortened(context.method)} is a message between an app and its host"
        return [self.finding(context, text, pointer="/method")]
