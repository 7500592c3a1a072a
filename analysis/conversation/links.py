"""Links each message to the multi-round call, task, subscription or app that it belongs to.

Such links connect more than a request and its response. Nearly all messages have none; checking the method or the
outcome, and whether any link exists, is enough for them. The modules of chains, tasks, subscriptions and apps
decide which messages belong to each.
"""

from typing import Final

from analysis.conversation import apps, subscriptions, tasks
from analysis.conversation.call import Call, MessageContext, Outcome
from analysis.conversation.message import InvalidMessage, Message, Notification, Request, Response
from analysis.conversation.multi_round import Chains, Turn
from analysis.conversation.subscriptions import Subscriptions
from analysis.conversation.tasks import Tasks

# Enumeration members are slow to look up, and every response is compared with these two.
_INPUT_REQUIRED: Final = Outcome.INPUT_REQUIRED
_TASK: Final = Outcome.TASK
_REQUESTS: Final = tasks.REQUESTS | subscriptions.REQUESTS | apps.REQUESTS
_NOTIFICATIONS: Final = tasks.NOTIFICATIONS | subscriptions.NOTIFICATIONS | apps.NOTIFICATIONS
METHODS: Final = _REQUESTS | _NOTIFICATIONS
"""Methods of tasks and subscriptions, and those of lists of tools."""


class Links:
    """The chains, tasks and subscriptions of a capture."""

    def __init__(self) -> None:
        """Create links for a capture that has none yet."""
        self.chains = Chains()
        self.tasks = Tasks()
        self.subscriptions = Subscriptions()
        self.has_app_tools = False
        """Whether a server has listed tools that are only for apps."""

    def link(self, context: MessageContext) -> None:
        """Link a message whose meaning is known."""
        message = context.message
        if self.is_idle and _is_plain(message, context.answered):
            return
        if isinstance(message, InvalidMessage):
            return
        self._link(context, message)

    @property
    def is_idle(self) -> bool:
        """Whether no link exists: then only a message that begins one can have one."""
        return not (
            self.chains.waiting_chains
            or self.chains.retries
            or self.tasks.count
            or self.subscriptions.has_listen
            or self.has_app_tools
        )

    def _link(self, context: MessageContext, message: Request | Notification | Response) -> None:
        meta = message.meta if self.tasks.count or self.subscriptions.has_listen else {}
        if self.subscriptions.has_listen and message.sender == "server":
            exchange = message.frames[0].exchange if context.http is None else context.http.first_carrier.number
            context.subscription = self.subscriptions.on_server_message(message, meta, context.session, exchange)
        if isinstance(message, Request):
            self._link_request(context, message)
        elif isinstance(message, Response):
            if context.answered is not None:
                self._link_response(context, message, context.answered)
        elif message.method in _NOTIFICATIONS or context.cancels is not None:
            self._link_notification(context, message)
        if context.task is None and tasks.RELATED_TASK in meta:
            context.task = self.tasks.on_related_message(message, meta, context.session)
        if context.call is not None and (context.call is context.answered or isinstance(message, Request)):
            context.call.round, context.call.task = (
                context.round or context.call.round,
                context.task or context.call.task,
            )

    def _link_request(self, context: MessageContext, request: Request) -> None:
        if request.method in _REQUESTS:
            if request.method in tasks.REQUESTS:
                context.task = self.tasks.on_request(request, context.session)
            elif request.method in subscriptions.REQUESTS and request.sender == "client":
                context.subscription = self.subscriptions.on_request(request, context.session)
            return
        if self.has_app_tools and context.call is not None:
            context.call.is_app_call = apps.is_app_call(request, context.session, context.era)
        if self.chains.waiting_chains and request.sender == "client":
            context.round = self.chains.on_request(request, context.session)

    def _link_response(self, context: MessageContext, response: Response, call: Call) -> None:
        request, outcome, is_from_server = call.request, call.outcome, response.sender == "server"
        method = request.method
        if is_from_server and (outcome is _INPUT_REQUIRED or self.chains.retries):
            turn = Turn(request, response, call.revision, call.era)
            ended_round = self.chains.on_response(turn, context.session, is_interim=outcome is _INPUT_REQUIRED)
            context.round = ended_round or call.round
        if is_from_server and method in subscriptions.REQUESTS:
            context.subscription = self.subscriptions.on_response(request, response, context.session)
        elif is_from_server and method in apps.REQUESTS:
            apps.on_response(request, response, context.session)
            if context.session.listed_ui is not None and context.session.listed_ui.app_tools:
                self.has_app_tools = True
        if outcome is _TASK or method in tasks.REQUESTS or tasks.has_stub(response):
            context.task = self.tasks.on_response(request, response, context.session)
        elif self.tasks.requests_of_tasks:
            context.task = self.tasks.pop_task_of_request(request)

    def _link_notification(self, context: MessageContext, notification: Notification) -> None:
        """Link a notification about a task, a resource or a list of tools, or a cancellation."""
        if notification.method in apps.NOTIFICATIONS:
            apps.on_notification(notification, context.session)
        elif notification.method in tasks.NOTIFICATIONS:
            context.task = self.tasks.on_notification(notification, context.session)
        elif context.cancels is not None:
            context.subscription = self.subscriptions.on_cancelled(context.cancels, notification, context.session)
        elif notification.sender == "server" and context.subscription is None:
            context.subscription = self.subscriptions.on_resource_updated(notification, context.session)


def _is_plain(message: Message, call: Call | None) -> bool:
    """Whether a message of this kind neither begins a link nor belongs to one."""
    if isinstance(message, Response):
        if call is None:
            return True
        outcome = call.outcome
        if outcome is _INPUT_REQUIRED or outcome is _TASK or call.request.method in _REQUESTS:
            return False
        result = message.body.get("result")
        return not isinstance(result, dict) or "task" not in result
    return isinstance(message, InvalidMessage) or message.method not in METHODS
