"""Echoes over HTTP: a response that is the request's own body."""

from analysis.conversation.call import MessageContext


def echoed_message(context: MessageContext) -> MessageContext | None:
    """Returns the client's message whose bytes the server has sent back as the response, or None if there is none."""
    http, frame = context.http, context.message.frames[0]
    if http is None or frame.unit != "http_body" or context.message.sender != "server":
        return None
    return next(
        (sent_context for sent_context in http.client_messages if sent_context.message.frames[0].raw == frame.raw), None
    )
