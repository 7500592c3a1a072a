"""Impact: what a violation breaks for the users of client and server, as data.

It ranks findings of different rules, so that a lost connection comes before a missing hint. A level only says how
clearly something is forbidden; it orders findings of the same impact.
"""

from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from typing import Final

from analysis.rules.finding import Level


class Impact(IntEnum):
    """What breaks; impacts can be compared."""

    HINT = 1
    """Nothing immediate: a peer or user gets less information than would help."""
    COST = 2
    """A peer or user waits, or pays, for nothing."""
    WRONG = 3
    """Something false is shown, believed or acted on."""
    MESSAGE = 4
    """A message or an answer is lost, or refused."""
    SECURITY = 5
    """Someone gains access to data or actions that are not theirs."""
    CONNECTION = 6
    """Client and server cannot connect, or lose their connection."""

    def __str__(self) -> str:
        """In lower case, as JSON writes it."""
        return self.name.lower()


def impact(rule: str, level: Level) -> Impact:
    """The impact of a finding, by the id of its rule and its level; the lowest for an unknown rule."""
    own = _by_rule().get(rule)
    if own is not None:
        return own
    # What would break as an error is legal as a note: peers have to cope with it.
    return Impact.HINT if level == Level.NOTE else _by_group().get(rule.partition("/")[0], Impact.HINT)


@cache
def _by_group() -> dict[str, Impact]:
    return {group: one for one, groups in _GROUPS.items() for group in groups.split()}


@cache
def _by_rule() -> dict[str, Impact]:
    return {rule: one for one, lines in _RULES.items() for rule in _ids(lines)}


def _ids(lines: str) -> Iterator[str]:
    for line in lines.strip().replace("\n      ", " ").split("\n"):
        group, *names = line.split()
        yield from (f"{group}/{name}" for name in names)


_GROUPS: Final[dict[Impact, str]] = {
    Impact.CONNECTION: "auth version",
    Impact.MESSAGE: "framing jsonrpc id batch lifecycle modern capability method schema timeout listen ext-tasks mrtr"
    " page tool prompt sampling elicitation http sse legacy-sse",
    Impact.WRONG: "error progress tasks resource completion roots",
    Impact.COST: "cancel subscribe logging shutdown",
    Impact.HINT: "meta cache deprecated",
}
"""The impact of a group's errors and warnings, unless their rule is listed below. Notes alone break nothing."""

# A group, then those of its rules that have this impact at any level, instead of the group's.
_RULES: Final[dict[Impact, str]] = {
    Impact.CONNECTION: """
framing lsp-header stdin-not-json stdout-not-json too-deep
id echoed-frame
lifecycle initialize-failed initialized-missing server-frame-before-initialize
capability not-an-object
error ping-refused unsupported-version-data unsupported-version-shape
cancel initialize
timeout initialize-unanswered ping-unanswered
http initialize-with-session-id missing-session-not-400 not-found-without-error origin-status session-id-changed
      session-id-characters session-id-late session-reused-after-404 unknown-session-id
legacy-sse endpoint-invalid no-endpoint-first
shutdown server-died server-left
""",
    Impact.SECURITY: """
meta icon-scheme
mrtr state-on-other-request
cache public-with-authorization scope-differs-between-pages
tool header-annotation-sensitive schema-external-ref
logging secret
roots changed-silently
elicitation clickable-url content-unexpected sensitive url-credentials url-not-https
http header-mismatch-accepted origin-accepted session-id-weak
auth oauth-request plain-http token-in-query
""",
    Impact.MESSAGE: """
framing oversized-message
meta not-object
error internal url-elicitation-shape url-elicitation-unsupported
progress unknown-token wrong-stream
cancel by-server
tasks created-unasked forbidden-tool invalid-shape missing-from-list not-created related-task-unknown required-tool
      result-shape unsupported-method
resource template
timeout abandoned-request
http redirected
auth dropped insufficient-scope-shape
shutdown killed-first
""",
    Impact.WRONG: """
framing duplicate-key
jsonrpc error-code-not-integer error-message-missing result-and-error
id duplicate-in-flight duplicate-request duplicate-response
lifecycle duplicate-initialized repeated-initialize
version malformed modern-in-handshake unsupported-not-rejected unsupported-requested-wrong
modern incomplete-accepted incomplete-wrong-code missing-capability-error-shape
meta annotation-time
capability elicitation-without-mode flag-not-boolean served-undeclared undeclared-accepted undeclared-list-changed
      undeclared-roots-changed undeclared-sampling-context undeclared-sampling-tools
schema base64 completion-values lax-scalar text-and-blob uri
cancel message-after-cancel
listen acknowledged-more after-end duplicate-acknowledgement unacknowledged-type unrequested-type unrequested-uri
ext-tasks acknowledgement-not-empty key-reused not-found-code terminal-changed undeclared-served
      unlistened-notification
mrtr params-changed state-invented
page bad-cursor-code duplicate-item empty-cursor foreign-cursor next-cursor-elsewhere
cache changed-while-fresh hints-on-interim
tool schema-invalid structured-invalid structured-not-mirrored
prompt incomplete-resource missing-argument-accepted unknown-argument
logging invalid-level-accepted
sampling result-role
elicitation duplicate-id
http bad-version-accepted broadcast dead-session-served error-status missing-protocol-version-header
      protocol-version-mismatch session-header-modern unrelated-on-post-stream
sse duplicate-event-id replay-from-other-stream replay-of-seen replay-without-request
auth offline-access scope-missing
""",
    Impact.COST: """
jsonrpc notification-answered
batch empty-response
capability undeclared-completions
progress after-cancel flood
cancel by-disconnect response-after-cancel
timeout never-cancelled slow
subscribe unsubscribe-unknown
listen abrupt-end empty-filter
tasks poll-too-fast
ext-tasks poll-too-fast
mrtr many-rounds responses-missing state-not-echoed
page loop
cache invalid-hints refetched-while-fresh
tool list-order repeated-call
logging flood
roots duplicate
http buffering-header delete-without-session session-not-deleted stream-kept-open
sse closed-without-retry retry-ignored
auth retry-loop
shutdown request-while-closing
""",
    Impact.HINT: """
framing blank-line
modern missing-client-info missing-server-info
capability legacy-tasks
schema ping-result-not-empty
tasks failed-without-message related-task-redundant result-without-related-task
tool resource-without-capability
""",
}
