"""The wording of findings in the previous version, so that the baselines that it wrote still accept them.

The text of a finding is part of its fingerprint. When the text of a rule changes, its old and new wordings belong here
until the next version is released. `--update-baseline` writes the new wording.
"""

from typing import Final

from analysis.rules.finding import GUESS_PREFIX

_VALUE: Final = "{}"

WORDING_CHANGES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "batch/answered-individually": (
        (
            "a request that came in an array is answered individually",
            "a request that was sent in a batch is answered individually",
        ),
    ),
    "batch/before-negotiation": (
        ("an array of messages before initialize was answered", "a batch before initialize was answered"),
    ),
    "batch/contains-initialize": (("initialize is in an array", "initialize is in a batch"),),
    "batch/empty": (("an array without messages", "a batch without messages"),),
    "batch/empty-response": (("an array of notifications is answered", "a batch of notifications is answered"),),
    "batch/item-not-object": (("an item of the array is not an object", "an item of the batch is not an object"),),
    "batch/mixed-kinds": (
        (
            "an array mixes responses with requests or notifications",
            "a batch mixes responses with requests or notifications",
        ),
    ),
    "batch/not-supported-version": (
        (
            "an array of messages, which this revision does not have",
            "a batch, which this revision does not support",
        ),
    ),
    "batch/receive-unsupported": (
        ("an array is refused, although it is valid", "a batch is refused, although it is valid"),
    ),
    "cancel/already-answered": (("request {} was answered {} s before", "request {} was answered {} s earlier"),),
    "cancel/by-disconnect": (
        (
            "the client left the stream before the response; that does not cancel",
            "the client closed the stream before the response; that does not cancel the request",
        ),
    ),
    "cancel/message-after-cancel": (
        (
            "request {} is answered although it was cancelled before",
            "request {} is answered although it was already cancelled",
        ),
        ("progress for a request that was cancelled before", "progress for a request that was already cancelled"),
    ),
    "cancel/response-after-cancel": (
        (
            "request {} is answered although it was cancelled before",
            "request {} is answered although it was already cancelled",
        ),
    ),
    "cancel/twice": (("request {} was cancelled before", "request {} was already cancelled"),),
    "capability/undeclared-roots-changed": (
        (
            "a change of the roots is announced, although roots.listChanged was not declared",
            "the client reports changed roots but did not declare roots.listChanged",
        ),
    ),
    "completion/unknown-reference": (("it has no argument {}", "the reference has no argument {}"),),
    "elicitation/content-unexpected": (
        ("an accepted page comes with content", "a response that accepts a page has content"),
        ("the answer {} comes with content", "a response with the action {} has content"),
    ),
    "elicitation/legacy-enum-names": (
        ("enumNames is how an older revision gave titles", "enumNames is an older revision's way to give titles"),
    ),
    "error/legacy-range": (("the code {} has no common meaning", "the code {} has no well-known meaning"),),
    "error/misused-mcp-code": (
        (
            "{} asks for capabilities that the client has declared",
            "{} reports capabilities as missing that the client declared",
        ),
    ),
    "error/parse-error-for-valid-json": (
        (
            "a parse error carries the id of a request, so the request must have been parsed",
            "a parse error has the id of a request, so the request must have been parsed",
        ),
    ),
    "error/ping-refused": (
        (
            "a ping is answered with error {}; the answer must be an empty result",
            "a ping is answered with error {}; the response must be an empty result",
        ),
    ),
    "ext-tasks/acknowledgement-not-empty": (("the answer to {} has {}", "the response to {} has {}"),),
    "framing/lone-surrogate": (
        (
            "a string holds half of a surrogate pair, which UTF-8 cannot represent",
            "a string contains half of a surrogate pair, which UTF-8 cannot represent",
        ),
    ),
    "framing/not-a-message": (
        (
            "a JSON value that is not an object, so not a message",
            "a JSON value that is not an object cannot be a message",
        ),
    ),
    "framing/stdin-not-json": (
        (
            "a line on {} is not JSON; it looks like a notice of a debugger",
            "a line on {} is not JSON; it looks like a debugger's notice",
        ),
    ),
    "framing/stdout-not-json": (
        (
            "a line on {} is not JSON; it looks like a notice of a debugger",
            "a line on {} is not JSON; it looks like a debugger's notice",
        ),
    ),
    "http/accepted-with-body": (("status 202 comes with {} bytes", "status 202 has a body of {} bytes"),),
    "http/answer-on-other-stream": (
        (
            "the answer to {} comes on the stream of another POST",
            "the response to {} is sent on the stream of another POST",
        ),
    ),
    "http/broadcast": (("{} comes on two streams of the session", "{} is sent on two streams of the session"),),
    "http/buffering-header": (
        (
            "a stream of events comes without X-Accel-Buffering: no",
            "an event stream is sent without X-Accel-Buffering: no",
        ),
    ),
    "http/call-refused": (
        (
            "{} is refused with {} by {}, to be tried again after {} s{}",
            "{} is refused with {} by {}, retry after {} s{}",
        ),
    ),
    "http/error-status": (
        ("the error {} comes with status {} instead of {}", "the error {} is sent with status {} instead of {}"),
    ),
    "http/header-encoding": (("{} does not hold base64 of UTF-8", "{} does not contain base64-encoded UTF-8"),),
    "http/header-mismatch-accepted": (
        (
            "a request with wrong headers (a request without Mcp-Method) is answered with {}",
            "a request with wrong headers (Mcp-Method is missing) is answered with {}",
        ),
        (
            "a request with wrong headers (a request without Mcp-Name) is answered with {}",
            "a request with wrong headers (Mcp-Name is missing) is answered with {}",
        ),
        (
            "a request with wrong headers ({} does not hold base64 of UTF-8) is answered with {}",
            "a request with wrong headers ({} does not contain base64-encoded UTF-8) is answered with {}",
        ),
    ),
    "http/initialize-with-session-id": (("initialize carries a session id{}", "initialize has a session id{}"),),
    "http/message-after-answer": (("{} comes after the answer", "{} is sent after the response"),),
    "http/message-refused": (
        (
            "{} is refused with {} by {}, to be tried again after {} s{}",
            "{} is refused with {} by {}, retry after {} s{}",
        ),
    ),
    "http/method-header": (("a request without Mcp-Method", "Mcp-Method is missing"),),
    "http/name-header": (("a request without Mcp-Name", "Mcp-Name is missing"),),
    "http/redirect-to-get": (
        ("{} is redirected with {}: clients go on with a GET", "{} is redirected with {}: clients continue with a GET"),
    ),
    "http/related-on-get-stream": (
        (
            "progress of a request comes on the stream opened by GET",
            "progress of a request is sent on the stream opened with GET",
        ),
    ),
    "http/response-on-get-stream": (
        (
            "a response comes on a stream that was opened by GET",
            "a response is sent on a stream that was opened with GET",
        ),
    ),
    "http/session-header-modern": (
        ("a request of the modern era carries a session id", "a request of the modern era has a session id"),
    ),
    "http/session-id-late": (
        (
            "a session id comes after the response to initialize, which had none",
            "a session id is first sent after the response to initialize",
        ),
    ),
    "http/session-reused-after-404": (
        ("the session id was answered with 404 {} s before", "the session id was answered with 404 {} s earlier"),
    ),
    "http/stream-kept-open": (
        (
            "the stream stays open for {} s after its last answer",
            "the stream stays open for {} s after its last response",
        ),
    ),
    "http/unknown-session-status": (
        (
            "a request without a session id is refused with an error and status {}, not 400",
            "a request without a session id is refused with an error and the status {}, not 400",
        ),
        (
            "a request with an unknown session id is refused with an error and status {}, not 404",
            "a request with an unknown session id is refused with an error and the status {}, not 404",
        ),
    ),
    "id/echoed-frame": (
        (
            "{} comes back unchanged: this is an echo, not an answer",
            "{} is sent back unchanged: this is an echo, not a response",
        ),
    ),
    "id/float-integer": (
        ("the id {} is written as a fraction", "the id {} is written with a decimal point or an exponent"),
    ),
    "jsonrpc/method-with-result": (
        (
            "method and {} are in one message: is it a request or a response?",
            "a message with both method and {} is neither a request nor a response",
        ),
    ),
    "jsonrpc/result-without-id": (
        ("a result without an id answers nothing", "a result without an id answers no request"),
    ),
    "legacy-sse/answer-in-post": (
        (
            "a message comes in the response to a POST instead of on the stream",
            "a message is sent in the response to a POST instead of on the stream",
        ),
    ),
    "legacy-sse/event-type": (
        (
            "a message of the server comes in an event whose type is not message",
            "a message from the server is sent in an event whose type is not message",
        ),
    ),
    "listen/acknowledged-less": (
        (
            "the acknowledgement grants less than was requested: {} is missing",
            "the acknowledgement grants less than was requested, without {}",
        ),
    ),
    "listen/after-end": (
        (
            "a message comes in a subscription that the client has ended",
            "a message is sent in a subscription that the client has ended",
        ),
        (
            "{} comes in a subscription that the server has ended",
            "{} is sent in a subscription that the server has ended",
        ),
    ),
    "listen/outside-subscription": (
        (
            "a change is announced, but the client does not listen",
            "a change is announced, but the client has no subscription",
        ),
    ),
    "listen/request-scoped-on-listen": (("{} comes in a subscription", "{} is sent in a subscription"),),
    "listen/unrequested-uri": (
        (
            "a change of a resource that this subscription did not name",
            "a change to a resource that this subscription did not name",
        ),
    ),
    "mrtr/in-handshake-era": (
        (
            "an interim result in a revision that does not have them",
            "the server sends an interim result in a revision that does not have them",
        ),
    ),
    "mrtr/invalid-input-response": (("the answer {} is not a result of {}", "the response {} is not a result of {}"),),
    "mrtr/responses-missing": (("{} input requests {} no answer: {}", "{} input requests {} no response: {}"),),
    "mrtr/unknown-response-key": (("the answer {} matches no question", "the response {} matches no input request"),),
    "progress/after-cancel": (
        (
            "progress for the token {}, whose request was cancelled before",
            "progress for the token {}, whose request was already cancelled",
        ),
    ),
    "progress/exceeds-total": (("the total of the progress is not positive", "the progress total is not positive"),),
    "progress/flood": (
        (
            "more than {} reports of progress for one token within a second",
            "more than {} progress notifications for one token within a second",
        ),
    ),
    "progress/total-changed": (
        ("the total of the progress differs from the previous one", "the progress total differs from the previous one"),
    ),
    "progress/wrong-stream": (
        (
            "progress for the token {} comes on the stream of another request",
            "progress for the token {} is sent on the stream of another request",
        ),
    ),
    "resource/contents-uri": (
        (
            "no content has the requested URI or a URI below it",
            "no item of contents has the requested URI or a URI below it",
        ),
    ),
    "sampling/tool-choice-without-tools": (("toolChoice without tools", "the request has toolChoice, but no tools"),),
    "shutdown/exit-status": (("the server ends by {}", "the server is ended by {}"),),
    "shutdown/server-died": (
        ("the server ends by {} before it has answered {}", "the server is ended by {} before answering {}"),
        ("the server {} before it has answered {}", "the server {} before answering {}"),
    ),
    "shutdown/server-left": (
        ("the server ends by {} before the client did", "the server is ended by {} before the client did"),
    ),
    "shutdown/server-lingers": (
        (
            "the server needs a signal to end, {} s after its stdin was closed",
            "the server ended only after a signal, {} s after its stdin was closed",
        ),
    ),
    "shutdown/write-after-close": (
        (
            "the message comes after the server's stdin was closed, and answers no open request",
            "the message is sent after the server's stdin was closed, and answers no open request",
        ),
    ),
    "tasks/related-task-missing": (
        (
            "the answer to {} does not name its task, although the request does",
            "the response to {} does not name its task, although the request does",
        ),
    ),
    "timeout/initialize-unanswered": (
        ("initialize has no answer after {}", "initialize is still unanswered after {}"),
    ),
    "timeout/ping-unanswered": (("{} has no answer after {}", "{} is still unanswered after {}"),),
    "timeout/unanswered": (("{} has no answer after {}", "{} is still unanswered after {}"),),
    "tool/repeated-call": (("{} bytes of answers", "{} bytes of responses"),),
    "tool/structured-without-schema": (
        (
            "structuredContent, but the tool has no outputSchema",
            "the result has structuredContent, but the tool has no outputSchema",
        ),
    ),
}
"""For each rule, the texts that changed since the previous version: old and new, with `{}` for each value."""


def current_wording(rule: str, message: str) -> str:
    """Returns the message of a finding as this version words it, in time linear in its length.

    Args:
        rule: the current id of the rule.
        message: the message as this version or the previous one words it; a guess may follow it.
    """
    text, guess, guess_text = message.partition(GUESS_PREFIX)
    # Text that this version wrote stays as it is: it may contain old words in values from the traffic.
    if any(_values_in(text, new) is not None for _, new in WORDING_CHANGES.get(rule, ())):
        return message
    for old, new in WORDING_CHANGES.get(rule, ()):
        values = _values_in(text, old)
        if values is not None:
            return new.format(*values) + guess + guess_text
    return message


def _values_in(text: str, template: str) -> list[str] | None:
    """Returns the values in a text, in the places that a template has for them, or None if the text does not fit it."""
    first, *literals = template.split(_VALUE)
    if not literals:
        return [] if text == template else None
    last = literals.pop()
    if not text.startswith(first):
        return None
    values = []
    position = len(first)
    for literal in literals:
        index = text.find(literal, position)
        if index < 0:
            return None
        values.append(text[position:index])
        position = index + len(literal)
    end = len(text) - len(last)
    if end < position or not text.endswith(last):
        return None
    return [*values, text[position:end]]
