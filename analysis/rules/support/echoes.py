"""Echoes over HTTP: a response that is the request's own body."""

from analysis.conversation.call import MessageContext


def echoed(context: MessageContext) -> MessageContext | None:
    """Returns the client's message whose bytes come back as the body of its response, or None if there is none."""
    http, frame = context.http, context.message.frames[0]
    if http is None or frame.unit != "http_body" or context.message.sender != "server":
        return None
    return next((sent for sent in http.sent if sent.message.frames[0].raw == frame.raw), None)
