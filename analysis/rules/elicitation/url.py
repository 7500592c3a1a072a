"""Pages that a server sends the user to, and notifications that the user has finished there."""

from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from analysis.conversation.call import MessageContext
from analysis.facts import code_of
from analysis.protocol import features
from analysis.protocol.error_codes import URL_ELICITATION
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.elicitation.form import ELICITATION_CREATE, ELICITING_METHODS, is_url_mode
from analysis.rules.error.codes import data_of
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member
from analysis.rules.support.origins import is_local
from analysis.rules.support.questions import ServerQuestionRule

MAX_ELICITATIONS: Final = 10_000
"""The most elicitations of a session that are remembered."""
MAX_LISTED_ELICITATIONS: Final = 100
"""The most elicitations of one error that are checked."""

_COMPLETE: Final = "notifications/elicitation/complete"
_PAGE: Final = "2025-11-25 client/elicitation"
_SECRET_PARAMETERS: Final = frozenset({"token", "access_token", "api_key", "password", "secret", "session"})
_INVALID_CHARS: Final = frozenset(' "<>\\^`{|}')


class _UrlRule(ServerQuestionRule):
    """The base class of the rules about URLs."""

    about = ELICITATION_CREATE
    methods = ELICITING_METHODS
    versions = features.ELICITATION_MODES
    source = _PAGE

    def check_question(self, context: MessageContext, params: dict[str, Any], pointer: str) -> Iterator[Finding]:
        url = params.get("url")
        text = self.url_fault(_split_url(url)) if is_url_mode(context, params) and isinstance(url, str) else None
        if text is not None:
            yield self.finding(context, text, pointer=f"{pointer}/url")

    def url_fault(self, url: SplitResult | None) -> str | None:
        """Returns what is wrong with a URL, or None if nothing is; `url` is None if the text is not an absolute URL."""
        raise NotImplementedError


class UrlInvalid(_UrlRule):
    """The URL that a user is sent to is not a valid absolute URL.

    **Why it matters.** The client cannot open it.

    **On the wire.** `…"params":{"mode":"url","url":"/connect","message":"Sign in","elicitationId":"e1"}`

    **Instead.** `"url":"https://example.com/connect"`
    """

    id = "elicitation/url-invalid"
    replaces = ("schema/uri",)

    def url_fault(self, url: SplitResult | None) -> str | None:
        return "the URL of an elicitation is not absolute" if url is None else None


class UrlNotHttps(_UrlRule):
    """The URL that a user is sent to does not use https.

    **Why it matters.** Anyone on the network path can read what the user types into that page, or replace the page.

    **On the wire.** `…"url":"http://example.com/connect"`

    **Instead.** Serve the page over https; on the user's own machine http is fine.
    """

    id = "elicitation/url-not-https"
    level = WARNING
    impact = Impact.SECURITY

    def url_fault(self, url: SplitResult | None) -> str | None:
        if url is None or url.scheme.lower() == "https" or is_local(url.hostname or ""):
            return None
        return "the URL of an elicitation does not use https"


class UrlCredentials(_UrlRule):
    """The URL that a user is sent to contains a credential.

    **Why it matters.** Everyone who sees the link has the credential: the client, its logs, the browser's history.

    **On the wire.** `…"url":"https://example.com/connect?access_token=…"`

    **Instead.** Let the page itself determine who the user is.
    """

    id = "elicitation/url-credentials"
    level = WARNING
    impact = Impact.SECURITY

    def url_fault(self, url: SplitResult | None) -> str | None:
        if url is None:
            return None
        if "@" in url.netloc:
            return "the URL of an elicitation has user information"
        names = {pair.partition("=")[0].lower() for pair in url.query.split("&")[:MAX_LISTED_ELICITATIONS]}
        return "the URL of an elicitation has a credential among its parameters" if names & _SECRET_PARAMETERS else None


class _Elicitations:
    """The elicitations of a server in one session."""

    def __init__(self) -> None:
        self.by_id: dict[str, tuple[object, object, int]] = {}
        """The URL, the message and the record's number of each elicitation, by its id."""
        self.is_complete = True
        """Whether all elicitations are remembered."""


class _ElicitationIdRule(ServerQuestionRule):
    """The base class of the rules that remember elicitations, including those in errors."""

    about = ELICITATION_CREATE
    versions = features.ELICITATION_IDS
    source = _PAGE

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        if hook == "notification":
            return method == _COMPLETE and like.message.sender == "server"
        return hook == "error" or super().concerns(hook, method, like)

    def check_question(self, context: MessageContext, params: dict[str, Any], pointer: str) -> Iterator[Finding]:
        elicitation_id = params.get("elicitationId")
        if not isinstance(elicitation_id, str):
            return
        elicitations: _Elicitations = self.state_for(context.session, _Elicitations)
        earlier, content = elicitations.by_id.get(elicitation_id), (params.get("url"), params.get("message"))
        if earlier is not None and earlier[:2] != content:
            yield from self.duplicate_findings(context, earlier[2], pointer)
        elif earlier is None and len(elicitations.by_id) < MAX_ELICITATIONS:
            elicitations.by_id[elicitation_id] = (*content, context.message.seq)
        elif earlier is None:
            elicitations.is_complete = False

    def duplicate_findings(self, _context: MessageContext, _earlier_seq: int, _pointer: str) -> Iterable[Finding]:
        """Returns findings about an id that another elicitation already has."""
        return ()

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        if code_of(context.message) != URL_ELICITATION or context.message.sender != "server":
            return ()
        return self._check_error_data(context)

    def _check_error_data(self, context: MessageContext) -> Iterator[Finding]:
        elicitations = member(data_of(context), "elicitations")
        for index, elicitation in enumerate(
            elicitations[:MAX_LISTED_ELICITATIONS] if isinstance(elicitations, list) else ()
        ):
            if isinstance(elicitation, dict):
                yield from self.check_question(context, elicitation, f"/error/data/elicitations/{index}")


class DuplicateId(_ElicitationIdRule):
    """Two elicitations have the same id.

    **Why it matters.** When one of the two is complete, the client cannot tell which.

    **On the wire.** `…"elicitationId":"e1","url":"https://example.com/a"` and later
    `…"elicitationId":"e1","url":"https://example.com/b"`

    **Instead.** Use a new id for each; reuse an id only to ask the same question again.
    """

    id = "elicitation/duplicate-id"
    needs_session = True
    impact = Impact.WRONG
    source = "2025-11-25 schema ElicitRequestURLParams"

    def duplicate_findings(self, context: MessageContext, earlier_seq: int, pointer: str) -> Iterable[Finding]:
        text = "another elicitation already has this id"
        return [self.finding(context, text, pointer=f"{pointer}/elicitationId", related=(earlier_seq,))]


class CompleteUnknown(_ElicitationIdRule):
    """An elicitation that was never requested is reported as complete.

    **Why it matters.** The client drops the notification, and keeps waiting for the elicitation that the server meant.

    **On the wire.** `< {"method":"notifications/elicitation/complete","params":{"elicitationId":"e9"}}`

    **Instead.** Send the id of the elicitation, in the session in which it was requested.
    """

    id = "elicitation/complete-unknown"
    needs_session = True
    needs_start = True

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        elicitation_id, session = _completed_id(context), context.session
        elicitations: _Elicitations = self.state_for(session, _Elicitations)
        if (
            elicitation_id is None
            or elicitation_id in elicitations.by_id
            or not elicitations.is_complete
            or session.unjudged.get("server") is not None
        ):
            return ()
        text = "no elicitation has this id"
        return [self.finding(context, text, pointer="/params/elicitationId")]


class CompleteTwice(Rule):
    """An elicitation is reported as complete a second time.

    **Why it matters.** It does no harm: clients are required to ignore it.

    **On the wire.** `< {"method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}`, twice

    **Instead.** Send the notification once.
    """

    id = "elicitation/complete-twice"
    needs_session = True
    who = "server"
    versions = features.ELICITATION_IDS
    level = NOTE
    methods = frozenset({_COMPLETE})
    sender = "server"
    source = _PAGE

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        completion_seqs: dict[str, int] = self.state_for(context.session, dict)
        elicitation_id = _completed_id(context)
        if elicitation_id is None:
            return ()
        if elicitation_id in completion_seqs:
            text = "this elicitation was already complete"
            return [
                self.finding(context, text, pointer="/params/elicitationId", related=(completion_seqs[elicitation_id],))
            ]
        if len(completion_seqs) < MAX_ELICITATIONS:
            completion_seqs[elicitation_id] = context.message.seq
        return ()


# ---- shared by the rules


def _completed_id(context: MessageContext) -> str | None:
    elicitation_id = member(member(context.body, "params"), "elicitationId")
    return elicitation_id if isinstance(elicitation_id, str) else None


def _split_url(text: str) -> SplitResult | None:
    """Returns the parts of an absolute URL, or None if the text is not one."""
    if not text.isascii() or not _INVALID_CHARS.isdisjoint(text) or not text.isprintable():
        return None
    try:
        url = urlsplit(text)
        _ = url.hostname, url.port
    except ValueError:
        return None
    if not url.scheme or not (url.netloc or url.scheme.lower() not in ("http", "https")):
        return None
    return url
