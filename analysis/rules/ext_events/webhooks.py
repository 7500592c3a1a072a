"""Webhook subscriptions: callback URL, secret, and how long they last. Captures lack what is sent to the callback."""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable
from typing import Final

from analysis.conversation.call import MessageContext
from analysis.facts import code_of
from analysis.protocol.error_codes import CALLBACK_ENDPOINT_ERROR, SKETCH_CODES
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member
from analysis.rules.support.event_messages import SUBSCRIBE, EventsRule
from captures.redact import PREFIX as HASH_PREFIX

_KEY_PREFIX: Final = "whsec_"
_KEY_BYTES: Final = range(24, 65)
_MAX_KEY_CHARS: Final = 256
_CATEGORIES: Final = frozenset(
    {"connection_refused", "timeout", "tls_error", "http_4xx", "http_5xx", "challenge_failed"}
)
_CALLBACK_CODES: Final = frozenset({CALLBACK_ENDPOINT_ERROR, SKETCH_CODES[CALLBACK_ENDPOINT_ERROR]})
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class _SubscribeRule(EventsRule):
    """A rule about requests for a webhook subscription, and their results."""

    methods = frozenset({SUBSCRIBE})

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - the same for all methods
        return (like.message.sender == "client") == (hook == "request")


class WebhookSecret(_SubscribeRule):
    """A client requests a webhook subscription without a secret of the required form.

    **Why it matters.** The server must refuse it. The secret signs what is sent to the callback; if it is short, others
    could guess it and forge events.

    **On the wire.** `> {"id":3,"method":"events/subscribe","params":{…,"delivery":{…,"secret":"hunter2"}}}`

    **Instead.** `whsec_` and the base64 of 24 to 64 random bytes.
    """

    id = "ext-events/webhook-secret"
    who = "client"
    impact = Impact.SECURITY

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        delivery = member(context.body.get("params"), "delivery")
        secret = member(delivery, "secret")
        if _is_secret(secret):
            return ()
        text = f"the secret is not {_KEY_PREFIX} and base64 of 24 to 64 bytes"
        if not isinstance(secret, str):
            text = "the subscription has no secret"
        return [self.finding(context, text, pointer="/params/delivery/secret")]


class WebhookAddress(_SubscribeRule):
    """A client requests a webhook subscription with a callback URL that does not use `https`.

    **Why it matters.** The server must refuse it: anyone on the network path could read the events.

    **On the wire.** `> {"id":3,"method":"events/subscribe","params":{…,"delivery":{"url":"http://example.com/hook",…}}}`

    **Instead.** Use an `https` URL.
    """

    id = "ext-events/webhook-address"
    who = "client"
    impact = Impact.SECURITY

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        url = member(member(context.body.get("params"), "delivery"), "url")
        scheme = _SCHEME.match(url) if isinstance(url, str) else None
        if scheme is None or scheme[0].lower() == "https:":
            return ()  # an address without a scheme may have been replaced in a redacted copy
        return [self.finding(context, "the URL of the callback does not use https", pointer="/params/delivery/url")]


class UnrequestedNoExpiry(_SubscribeRule):
    """A server grants a subscription that never expires, although the client did not ask for that.

    **Why it matters.** The client no longer refreshes it, and may be long gone while the server still sends events to
    its callback.

    **On the wire.** `> {"id":3,"method":"events/subscribe","params":{…,"ttlMs":3600000}}`
    `< {"id":3,"result":{"id":"s1","refreshBefore":null,…}}`

    **Instead.** Send a time in `refreshBefore`, unless the request has `"ttlMs":null`.
    """

    id = "ext-events/unrequested-no-expiry"
    who = "server"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        result, request = context.body.get("result"), context.request
        if not isinstance(result, dict) or request is None or "refreshBefore" not in result:
            return ()
        params = request.params if isinstance(request.params, dict) else {}
        if result["refreshBefore"] is not None or ("ttlMs" in params and params["ttlMs"] is None):
            return ()
        text = "the subscription never expires, although the client did not ask for that"
        return [self.finding(context, text, pointer="/result/refreshBefore", related=(request.seq,))]


class LastErrorText(_SubscribeRule):
    """A server reports a failed callback in words of its own instead of a category.

    **Why it matters.** If the words come from the response of the callback, a client could read responses from
    addresses that only the server can reach.

    **On the wire.** `< {"id":3,"result":{…,"deliveryStatus":{"active":false,"lastError":"500 <html>…"}}}` or
    `< {"id":3,"error":{"code":-32027,…,"data":{"reason":"500 <html>…"}}}`

    **Instead.** One of `connection_refused`, `timeout`, `tls_error`, `http_4xx`, `http_5xx` and `challenge_failed`, or
    null.
    """

    id = "ext-events/last-error-text"
    who = "server"
    impact = Impact.SECURITY
    once = True

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        status = member(context.body.get("result"), "deliveryStatus")
        error = member(status, "lastError")
        if error is None or (isinstance(error, str) and error in _CATEGORIES):
            return ()
        text = "lastError is not one of the categories that the draft defines"
        return [self.finding(context, text, pointer="/result/deliveryStatus/lastError")]

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        reason = member(member(context.body.get("error"), "data"), "reason")
        if code_of(context.message) not in _CALLBACK_CODES or reason is None:
            return ()
        if isinstance(reason, str) and reason in _CATEGORIES:
            return ()
        text = "the reason is not one of the categories that the draft has"
        return [self.finding(context, text, pointer="/error/data/reason")]


# ---- shared by the rules


def _is_secret(secret: object) -> bool:
    """Whether a value has the form of a secret, or may have replaced one in a redacted copy."""
    if isinstance(secret, str) and secret.startswith(HASH_PREFIX):
        return True
    if not isinstance(secret, str) or not secret.startswith(_KEY_PREFIX) or len(secret) > _MAX_KEY_CHARS:
        return False
    text = secret.removeprefix(_KEY_PREFIX)
    try:
        return len(b64decode(text + "=" * (-len(text) % 4), validate=True)) in _KEY_BYTES
    except (Base64Error, ValueError):
        return False
