"""Pages that a server sends the user to, and whether it says when they are done."""

from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from analysis.conversation.session import Seen
from analysis.protocol.revisions import only, since
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.elicitation.form import Asked, is_url
from analysis.rules.error.codes import URL_ELICITATION, code_of, data_of
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member
from analysis.rules.support.origins import is_local

KEPT: Final = 10_000
"""Elicitations of a session that are remembered."""
LISTED: Final = 100
"""Elicitations of one error that are looked at."""

_COMPLETE: Final = "notifications/elicitation/complete"
_PAGE: Final = "2025-11-25 client/elicitation"
_SECRET: Final = frozenset({"token", "access_token", "api_key", "password", "secret", "session"})
_WRONG: Final = frozenset(' "<>\\^`{|}')


class _Url(Asked):
    """What the rules about URLs have in common."""

    versions = since("2025-11-25")
    source = _PAGE

    def check_question(self, seen: Seen, params: dict[str, Any], pointer: str) -> Iterator[Finding]:
        url = params.get("url")
        text = self.fault(_split(url)) if is_url(seen, params) and isinstance(url, str) else None
        if text is not None:
            yield self.finding(seen, text, pointer=f"{pointer}/url")

    def fault(self, url: SplitResult | None) -> str | None:
        """What is wrong with a URL, which is None where it is none; None for nothing."""
        raise NotImplementedError


class UrlInvalid(_Url):
    """The URL that a user is sent to is not a valid absolute URL.

    **Why it matters.** There is nothing to open.

    **On the wire.** `…"params":{"mode":"url","url":"/connect","message":"Sign in","elicitationId":"e1"}`

    **Instead.** `"url":"https://example.com/connect"`
    """

    id = "elicitation/url-invalid"
    replaces = ("schema/uri",)

    def fault(self, url: SplitResult | None) -> str | None:
        return "the URL of an elicitation is not absolute" if url is None else None


class UrlNotHttps(_Url):
    """The URL that a user is sent to does not use https.

    **Why it matters.** Others on the way can read what is typed into that page, or replace the page.

    **On the wire.** `…"url":"http://example.com/connect"`

    **Instead.** Serve it over https; on the user's own machine http is fine.
    """

    id = "elicitation/url-not-https"
    level = WARNING
    impact = Impact.SECURITY

    def fault(self, url: SplitResult | None) -> str | None:
        if url is None or url.scheme.lower() == "https" or is_local(url.hostname or ""):
            return None
        return "the URL of an elicitation does not use https"


class UrlCredentials(_Url):
    """The URL that a user is sent to contains a credential.

    **Why it matters.** Everyone who sees the link has the credential: the client, its logs, the history of the browser.

    **On the wire.** `…"url":"https://example.com/connect?access_token=…"`

    **Instead.** Have the page itself determine who the user is.
    """

    id = "elicitation/url-credentials"
    level = WARNING
    impact = Impact.SECURITY

    def fault(self, url: SplitResult | None) -> str | None:
        if url is None:
            return None
        if "@" in url.netloc:
            return "the URL of an elicitation has user information"
        names = {pair.partition("=")[0].lower() for pair in url.query.split("&")[:LISTED]}
        return "the URL of an elicitation has a credential among its parameters" if names & _SECRET else None


class _Ids:
    """The elicitations of a server by their ids."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[object, object, int]] = {}
        self.is_all = True
        """Whether none had to be left out."""


class _Identified(Asked):
    """What the rules have in common that remember elicitations, those of errors among them."""

    versions = only("2025-11-25")
    methods = None
    source = _PAGE

    def concerns(self, hook: str, method: str, like: Seen) -> bool:
        if hook == "notification":
            return method == _COMPLETE and like.message.sender == "server"
        return hook == "error" or super().concerns(hook, method, like)

    def check_question(self, seen: Seen, params: dict[str, Any], pointer: str) -> Iterator[Finding]:
        ident = params.get("elicitationId")
        if not isinstance(ident, str):
            return
        kept: _Ids = self.memory(seen.session, _Ids)
        before, content = kept.known.get(ident), (params.get("url"), params.get("message"))
        if before is not None and before[:2] != content:
            yield from self.other(seen, before[2], pointer)
        elif before is None and len(kept.known) < KEPT:
            kept.known[ident] = (*content, seen.message.seq)
        elif before is None:
            kept.is_all = False

    def other(self, _seen: Seen, _before: int, _pointer: str) -> Iterable[Finding]:
        """An id is that of another elicitation."""
        return ()

    def on_error(self, seen: Seen) -> Iterable[Finding]:
        if code_of(seen) != URL_ELICITATION or seen.message.sender != "server":
            return ()
        return self._in_error(seen)

    def _in_error(self, seen: Seen) -> Iterator[Finding]:
        elicitations = member(data_of(seen), "elicitations")
        for index, one in enumerate(elicitations[:LISTED] if isinstance(elicitations, list) else ()):
            if isinstance(one, dict):
                yield from self.check_question(seen, one, f"/error/data/elicitations/{index}")


class DuplicateId(_Identified):
    """Two elicitations have the same id.

    **Why it matters.** When one of them is complete, the client mistakes it for the other.

    **On the wire.** `…"elicitationId":"e1","url":"https://example.com/a"` and later
    `…"elicitationId":"e1","url":"https://example.com/b"`

    **Instead.** Use a new id for each; reuse an id only to ask the same question again.
    """

    id = "elicitation/duplicate-id"
    impact = Impact.WRONG
    source = "2025-11-25 schema ElicitRequestURLParams"

    def other(self, seen: Seen, before: int, pointer: str) -> Iterable[Finding]:
        text = "the id of an elicitation is that of another one"
        return [self.finding(seen, text, pointer=f"{pointer}/elicitationId", related=(before,))]


class CompleteUnknown(_Identified):
    """An elicitation that was never requested is reported complete.

    **Why it matters.** The client drops the notification, and keeps waiting for the elicitation that was meant.

    **On the wire.** `< {"method":"notifications/elicitation/complete","params":{"elicitationId":"e9"}}`

    **Instead.** Send the id of the elicitation, in the session in which it was requested.
    """

    id = "elicitation/complete-unknown"
    needs_start = True

    def on_notification(self, seen: Seen) -> Iterable[Finding]:
        ident, session = _completed(seen), seen.session
        kept: _Ids = self.memory(session, _Ids)
        if ident is None or ident in kept.known or not kept.is_all or session.unjudged.get("server") is not None:
            return ()
        text = "no elicitation had this id"
        return [self.finding(seen, text, pointer="/params/elicitationId")]


class CompleteTwice(Rule):
    """An elicitation is reported complete a second time.

    **Why it matters.** It does no harm: clients are required to ignore it.

    **On the wire.** `< {"method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}`, twice

    **Instead.** Once is enough.
    """

    id = "elicitation/complete-twice"
    who = "server"
    versions = only("2025-11-25")
    level = NOTE
    methods = frozenset({_COMPLETE})
    sender = "server"
    source = _PAGE

    def on_notification(self, seen: Seen) -> Iterable[Finding]:
        kept: dict[str, int] = self.memory(seen.session, dict)
        ident = _completed(seen)
        if ident is None:
            return ()
        if ident in kept:
            text = "this elicitation was already complete"
            return [self.finding(seen, text, pointer="/params/elicitationId", related=(kept[ident],))]
        if len(kept) < KEPT:
            kept[ident] = seen.message.seq
        return ()


# ---- what the rules ask


def _completed(seen: Seen) -> str | None:
    ident = member(member(seen.body, "params"), "elicitationId")
    return ident if isinstance(ident, str) else None


def _split(text: str) -> SplitResult | None:
    """An absolute URL; None where it is none."""
    if not text.isascii() or not _WRONG.isdisjoint(text) or not text.isprintable():
        return None
    try:
        url = urlsplit(text)
        _ = url.hostname, url.port
    except ValueError:
        return None
    if not url.scheme or not (url.netloc or url.scheme.lower() not in ("http", "https")):
        return None
    return url
