"""The catalogue: every rule of the protocol that can be checked on the wire, implemented or not, as data.

Its ids are the only numbering, and none is ever reused. An implemented rule defines the rest in its class
(analysis.rules); the rows of the others show what is still missing.
"""

from functools import cache
from typing import Final, NamedTuple


class Row(NamedTuple):
    """One rule of the catalogue."""

    id: str
    """`group/name`."""
    who: str
    """Who can break it: `client`, `server` or `either`."""
    versions: str
    """The revisions to which it applies, as `analysis.protocol.revisions.Span` writes them."""
    level: str
    """Its level, with exceptions: `error, warning ≤2025-03-26`."""
    marks: str
    """Letters of `MARKS`, such as `SO`; empty if it has none."""

    @property
    def group(self) -> str:
        """The first half of its id."""
        return self.id.partition("/")[0]

    def holds(self, revision: str) -> bool:
        """Whether it applies to a published revision."""
        words = self.versions.split(" ")
        if words[0] == "all":
            return words[-1] != revision
        first = words[0].lstrip("≤≥")
        # Dates in the same format: here, and only here, text order is the order of the revisions.
        if words[-1] == "only":
            return revision == first
        if words[0].startswith("≤"):
            return revision <= first
        return revision >= first and (len(words) == 1 or revision <= words[-1])

    def has_level(self, level: str) -> bool:
        """Whether it has a level in some revision."""
        return level in self.level.replace(",", "").split(" ")


MARKS: Final = {
    "S": "silent where the start of the session was not observed",
    "E": "decided when the session or the capture ends",
    "T": "needs the stamps of real time",
    "H": "holds over HTTP alone",
    "L": "needs a complete list that the server has sent",
    "O": "told the first time for each sender and session, then counted",
}
"""The meaning of each mark."""


RENAMED: Final = {"timeout/abandoned": "timeout/never-cancelled"}
"""Renamed rules: old id → current id. The old id still refers to the same rule."""


def today(rule: str) -> str:
    """The current id of a rule."""
    return RENAMED.get(rule, rule)


@cache
def catalogue() -> dict[str, Row]:
    """Every row, by its id, in the order of the groups."""
    found: dict[str, Row] = {}
    group = ""
    for line in _ROWS.strip().replace("\n      ", " ").split("\n"):
        if not line.startswith(" "):
            group = line
            continue
        who, versions, level, marks, names = (cell.strip() for cell in line.split("|"))
        for name in names.split():
            found[f"{group}/{name}"] = Row(f"{group}/{name}", who, versions, level, marks.strip("-"))
    return found


# A group, then its rules: who | versions | level | marks | names of all rules with these values.
_ROWS: Final = """
framing
  either | all | error | - | invalid-utf8 lsp-header embedded-newline several-messages-on-a-line not-a-message
      non-json-number
  either | all | warning | O | bom blank-line
  server | all | error | - | stdout-not-json
  client | all | error | - | stdin-not-json
  either | all | note | O | crlf
  either | all | error | E | truncated-message
  either | all | warning | E | missing-final-newline
  either | all | note | - | oversized-message
  either | all | warning | - | too-deep duplicate-key lone-surrogate
jsonrpc
  either | all | error | - | missing-version wrong-version unclassifiable method-not-string method-with-result
      result-and-error result-not-object result-without-id params-by-position params-not-object error-not-object
      error-code-not-integer error-message-missing notification-with-id request-without-id
  either | all | warning | - | reserved-method null-sibling error-without-id params-null
  either | all | note | O | null-error-id unknown-member
  either | all | note | - | error-message-verbose
  either | all | error | H | notification-answered
id
  either | all | error | - | null not-string-or-integer duplicate-in-flight type-changed duplicate-response
      self-answered echoed-frame
  either | all | note | - | float-integer
  either | all | warning | - | unsafe-integer
  either | ≤2025-11-25 | error | - | duplicate-request
  either | all | error | S | unknown-response
batch
  either | all except 2025-03-26 | error, warning 2024-11-05 | - | not-supported-version
  either | ≤2025-11-25 | error | S | before-negotiation
  client | 2025-03-26 only | error | - | contains-initialize
  either | all | error | - | empty
  either | 2025-03-26 only | error | - | item-not-object mixed-kinds empty-response receive-unsupported
  either | 2025-03-26 only | note | O | answered-individually
lifecycle
  client | ≤2025-11-25 | error | S | request-before-initialize early-initialized initialized-missing
      continued-after-failed-initialize
  client | ≤2025-11-25 | warning | S | notification-before-initialize request-before-initialize-result
  client | ≤2025-11-25 | warning | - | duplicate-initialized repeated-initialize
  server | ≤2025-11-25 | warning | S | server-request-before-initialized server-frame-before-initialize
  server | ≤2025-11-25 | note | - | initialize-failed
version
  either | all | note | O | unknown
  either | all | warning | - | malformed modern-in-handshake
  server | ≤2025-11-25 | note | - | server-chose-other
  server | ≤2025-11-25 | error | - | refused-though-supported
  server | ≥2026-07-28 | error | - | discover-missing unsupported-not-rejected supported-but-rejected
  client | ≥2026-07-28 | warning | - | fallback-despite-modern retry-unlisted
  client | ≥2026-07-28 | note | - | fallback
  server | ≥2026-07-28 | warning | - | initialize-refused-silently unsupported-requested-wrong
  client | ≥2026-07-28 | note | O | mixed-on-connection
  client | ≥2026-07-28 | note | SO | stdio-no-probe
  either | ≤2025-11-25 | note | O | newer-member
modern
  client | ≥2026-07-28 | error | - | missing-meta missing-protocol-version missing-client-capabilities client-response
  client | ≥2026-07-28 | warning | O | missing-client-info
  server | ≥2026-07-28 | error | - | incomplete-accepted incomplete-wrong-code missing-result-type unknown-result-type
      server-request missing-capability-error-shape
  server | ≥2026-07-28 | warning | O | missing-server-info
  either | ≥2026-07-28 | error | - | extension-id
meta
  either | all | error | - | not-object
  either | ≥2025-06-18 | error | - | invalid-key
  either | ≥2025-06-18 | warning | - | reserved-prefix annotation-time
  either | ≥2026-07-28 | error | - | trace-context
  server | ≥2025-11-25 | warning | - | icon-scheme
  either | ≥2025-11-25 | note | - | icon-size
  either | all | note | - | mime-type
  either | all | note | O | implementation-empty
capability
  either | all | error | - | not-an-object flag-not-boolean
  either | all | note | O | unknown
  client | all | error, warning ≤2025-03-26 and ≥2026-07-28 | - | undeclared-tools undeclared-resources
      undeclared-prompts
  client | ≤2025-11-25 | error, warning ≤2025-03-26 | - | undeclared-subscribe undeclared-logging
  client | ≥2025-03-26 | error, warning 2025-03-26 and ≥2026-07-28 | - | undeclared-completions
  server | all | error | - | served-undeclared undeclared-log-messages
  either | all | error, warning ≤2025-11-25 | - | declared-not-served
  server | all | warning | - | undeclared-list-changed undeclared-resource-updates
  server | all | error, warning ≤2025-03-26 | - | undeclared-roots
  client | ≤2025-11-25 | warning | - | undeclared-roots-changed
  server | ≤2025-11-25 | error, warning ≤2025-03-26 | - | undeclared-sampling
  server | 2025-11-25 only | error | - | undeclared-sampling-tools undeclared-elicitation-mode
  server | ≥2025-11-25 | warning | - | undeclared-sampling-context
  server | 2025-06-18 to 2025-11-25 | error | - | undeclared-elicitation
  client | ≥2025-11-25 | error | - | elicitation-without-mode
  client | ≤2025-11-25 | error | - | undeclared-accepted
  either | 2025-11-25 only | error | - | undeclared-task undeclared-tasks-method
  server | ≥2026-07-28 | warning | - | legacy-tasks
method
  either | all | error | - | unprefixed-notification wrong-direction
  either | all | note | - | unknown-request unknown-notification
  either | all | error, warning ≤2025-03-26 | - | not-in-version
schema
  either | all | error | - | invalid-params invalid-result invalid-notification lax-scalar base64 meta-progress-token
  either | all | warning | - | null-optional uri
  server | all | warning | - | text-and-blob
  either | ≤2025-11-25 | note | O | non-empty-result
  either | ≤2025-11-25 | error | - | ping-result-not-empty
  server | all | error | - | completion-values
error
  either | all | note | - | seen internal
  either | ≤2025-11-25 | error | - | ping-refused
  either | all | warning | - | unknown-method-code parse-error-for-valid-json reserved-code
  either | ≥2026-07-28 | error | - | undefined-mcp-code retired-code
  either | ≥2026-07-28 | note | - | legacy-range
  server | all | error | - | misused-mcp-code
  server | all | error, note ≤2025-11-25 | - | resource-not-found-code
  server | ≤2025-11-25 | note | - | unsupported-version-data
  server | ≥2026-07-28 | error | - | unsupported-version-shape
  server | 2025-11-25 only | error | - | url-elicitation-shape url-elicitation-unsupported
  server | ≥2025-11-25 | warning | L | tool-input-as-protocol-error
  server | all | note | L | unknown-tool-as-result
  server | all | warning, note ≤2025-11-25 | L | unknown-tool-code
  server | all | note | - | prompt-args-code
  client | 2025-11-25 only | note | - | sampling-code
  client | ≤2025-11-25 | warning | - | roots-unsupported-code
  client | 2025-11-25 only | error | - | elicitation-mode-code
progress
  either | all | error | - | duplicate-token after-completion not-increasing
  either | all | error | S | unknown-token
  either | all | note | - | after-cancel
  either | all | warning | - | exceeds-total
  either | all | note | O | total-changed
  either | all | note | TO | flood
  server | ≥2026-07-28 | error | H | wrong-stream
cancel
  either | all | error | S | unknown-request
  either | all | error | - | wrong-direction id-type-changed
  either | all | warning | T | already-answered
  client | ≤2025-11-25 | error | - | initialize
  either | all | note | - | twice
  either | ≤2025-11-25 | note | O | response-after-cancel
  server | ≥2026-07-28 | error | - | message-after-cancel by-server
  either | 2025-11-25 only | error | - | task
  client | ≥2026-07-28 | note | H | posted
  client | 2025-03-26 to 2025-11-25 | note | H | by-disconnect
timeout
  either | all | warning | E | unanswered
  server | ≤2025-11-25 | error | E | initialize-unanswered
  either | ≤2025-11-25 | warning | T | ping-unanswered
  either | all | note | T | slow
  either | ≥2025-03-26 | note | ET | never-cancelled
  either | all | note | T | abandoned-request
subscribe
  server | ≤2025-11-25 | warning | S | update-without-subscription
  server | ≤2025-11-25 | warning | - | update-after-unsubscribe
  client | ≤2025-11-25 | note | S | unsubscribe-unknown
  client | ≤2025-11-25 | note | - | duplicate
listen
  server | ≥2026-07-28 | error | - | not-acknowledged-first never-acknowledged acknowledged-more unrequested-type
      unrequested-uri missing-subscription-id outside-subscription request-scoped-on-listen after-end
      result-without-subscription-id
  server | ≥2026-07-28 | warning | - | duplicate-acknowledgement unacknowledged-type
  server | ≥2026-07-28 | note | - | acknowledged-less ended-by-cancel-only
  server | ≥2026-07-28 | error | S | unknown-subscription-id
  server | ≥2026-07-28 | warning | H | abrupt-end
  client | ≥2026-07-28 | note | - | empty-filter
tasks
  client | 2025-11-25 only | error | L | forbidden-tool required-tool
  server | 2025-11-25 only | error | - | required-not-refused
  either | 2025-11-25 only | warning | - | unsupported-method created-at-changed related-task-missing
      failed-without-message
  either | 2025-11-25 only | error | - | not-created created-unasked initial-status duplicate-id invalid-shape
      terminal-changed error-code cancel-of-terminal-accepted cancel-not-cancelled result-too-early result-shape
      result-without-related-task progress-after-terminal missing-from-list status-from-requestor
  either | 2025-11-25 only | note | - | unknown-task
  either | 2025-11-25 only | warning | S | related-task-unknown
  either | 2025-11-25 only | warning | O | related-task-redundant
  either | 2025-11-25 only | warning | TO | poll-too-fast
  server | 2025-11-25 only | warning | - | error-not-failed
ext-tasks
  server | ≥2026-07-28 | error | - | undeclared unsupported-method undeclared-served result-type invalid-shape
      terminal-changed key-reused unlistened-notification not-found-code
  client | ≥2026-07-28 | error | - | client-undeclared
  server | ≥2026-07-28 | warning | - | acknowledgement-not-empty
  client | ≥2026-07-28 | note | - | unknown-key
  client | ≥2026-07-28 | warning | TO | poll-too-fast
mrtr
  server | ≥2026-07-28 | error | - | unsupported-method empty invalid-input-request undeclared-capability
      wrong-result-type
  server | ≤2025-11-25 | error | - | in-handshake-era
  server | ≥2026-07-28 | note | O | envelope-in-input-request
  client | ≥2026-07-28 | error | - | same-id state-not-echoed state-invented state-on-other-request responses-missing
      invalid-input-response
  client | ≥2026-07-28 | warning | - | unknown-response-key params-changed
  client | ≥2026-07-28 | note | S | unsolicited
  client | ≥2026-07-28 | note | E | not-retried
  server | ≥2026-07-28 | note | - | many-rounds
page
  client | all | error, note ≥2026-07-28 | S | unknown-cursor
  client | all | error | - | foreign-cursor
  server | all | warning | - | loop bad-cursor-code
  server | all | note | - | duplicate-item empty-cursor next-cursor-elsewhere
cache
  server | ≥2026-07-28 | error | - | missing-hints invalid-hints scope-differs-between-pages
  server | ≥2026-07-28 | warning | - | hints-on-interim
  server | all | note | O | hints-elsewhere
  server | ≥2026-07-28 | note | HO | public-with-authorization
  server | ≥2026-07-28 | note | T | changed-while-fresh
  client | ≥2026-07-28 | note | TO | refetched-while-fresh
tool
  server | all | warning | - | duplicate-name
  server | all | warning, note ≤2025-06-18 | - | name
  server | all | error | - | input-schema-not-object
  server | all | error, warning ≤2025-06-18 | - | schema-invalid
  server | ≥2025-11-25 | note | - | schema-dialect
  server | ≥2026-07-28 | warning | - | schema-external-ref header-annotation-sensitive
  server | 2025-06-18 to 2025-11-25 | error | - | output-schema-not-object structured-not-object
  client | all | warning | L | unlisted arguments-invalid
  server | ≥2025-06-18 | error | L | structured-missing structured-invalid
  server | ≥2025-06-18 | warning | O | structured-not-mirrored resource-without-capability
  server | ≥2025-06-18 | note | LO | structured-without-schema
  server | all | note | - | failed
  client | all | note | E | repeated-call
  server | ≥2026-07-28 | warning | O | list-order
  server | ≥2026-07-28 | error | - | header-annotation
  client | ≥2026-07-28 | error | HL | header-annotation-called
resource
  server | all | warning | - | duplicate-uri template size
  server | all | note | - | contents-uri
  server | all | warning, note ≤2025-11-25 | - | empty-contents
prompt
  server | all | warning | - | duplicate-name
  client | all | warning | L | unlisted missing-argument
  server | all | note | - | missing-argument-accepted
  client | all | note | L | unknown-argument
  server | all | error | - | incomplete-resource
completion
  server | all | warning | - | counts
  client | all | note | L | unknown-reference
logging
  server | ≤2025-11-25 | warning | - | below-level
  server | ≥2026-07-28 | error | - | not-requested
  server | ≥2026-07-28 | warning | - | below-requested
  server | all | warning | - | secret invalid-level-accepted
  server | all | note | TO | flood
sampling
  server | ≥2025-11-25 | error | - | tool-result-mixed tool-use-unanswered tool-result-unmatched
  either | ≥2025-11-25 | warning | - | tool-block-role
  client | ≥2025-11-25 | warning | - | unrequested-tool-use
  server | ≥2025-11-25 | warning | - | tool-choice-without-tools
  client | all | warning | - | result-role
  server | all | warning | - | max-tokens
  server | all | note | - | no-messages
  client | all | note | - | rejected
roots
  client | all | error | - | not-file
  client | all | note | - | duplicate
  client | ≤2025-11-25 | error | - | changed-silently
elicitation
  server | ≥2025-06-18 | error | - | schema-not-flat
  server | ≥2025-06-18 | warning | - | required-unknown sensitive
  server | ≥2025-11-25 | warning | - | clickable-url url-not-https url-credentials
  server | ≥2025-11-25 | error | - | url-invalid
  server | 2025-11-25 only | error | - | duplicate-id
  server | 2025-11-25 only | error | S | complete-unknown
  server | 2025-11-25 only | note | - | complete-twice
  client | ≥2025-06-18 | warning | - | accept-without-content content-mismatch
  client | ≥2025-06-18 | warning, note 2025-06-18 | - | content-unexpected
  server | ≥2025-11-25 | note | - | legacy-enum-names
  server | ≥2026-07-28 | note | - | id-in-modern
deprecated
  either | ≥2026-07-28 | note | O | feature
  server | ≥2025-11-25 | note | O | include-context
  either | ≥2025-03-26 | note | O | http-sse
http
  client | ≥2025-03-26 | error | - | message-not-posted
  client | ≥2025-03-26 | error | O | post-accept
  client | 2025-03-26 to 2025-11-25 | error | O | get-accept
  client | ≥2025-03-26 | warning | O | request-content-type
  server | ≥2025-03-26 | error | - | notification-status accepted-with-body request-not-answered response-content-type
      json-not-single response-id-mismatch
  server | ≥2025-03-26 | warning | E | stream-ended-unanswered
  server | ≥2025-03-26 | warning | TO | stream-kept-open
  server | ≥2025-03-26 | warning | - | message-after-answer unrelated-on-post-stream answer-on-other-stream
  server | 2025-03-26 to 2025-11-25 | error | - | response-on-get-stream broadcast get-answer session-id-characters
      session-id-changed dead-session-served
  server | 2025-03-26 to 2025-11-25 | note | O | related-on-get-stream
  server | 2025-03-26 to 2025-11-25 | warning | - | session-id-weak session-id-late missing-session-not-400
  client | 2025-03-26 to 2025-11-25 | error | S | missing-session-header
  client | 2025-03-26 to 2025-11-25 | warning | S | unknown-session-id
  client | 2025-03-26 to 2025-11-25 | error | - | initialize-with-session-id session-reused-after-404
      delete-without-session
  client | 2025-03-26 to 2025-11-25 | note | E | session-not-deleted
  client | ≥2025-06-18 | error | - | missing-protocol-version-header
  client | ≥2025-06-18 | error, warning ≤2025-11-25 | - | protocol-version-mismatch
  server | ≥2025-06-18 | error | - | bad-version-accepted
  client | ≥2026-07-28 | error | - | method-header name-header header-encoding
  client | ≥2026-07-28 | error | L | param-header
  server | ≥2026-07-28 | error | - | header-mismatch-accepted error-status
  server | ≥2026-07-28 | warning | - | not-found-without-error
  either | ≥2026-07-28 | warning | - | session-header-modern get-or-delete-modern
  server | ≥2026-07-28 | warning | O | buffering-header
  server | ≥2025-03-26 | warning | O | origin-accepted
  server | ≥2025-11-25 | error | - | origin-status
  server | all | note | - | redirected
sse
  server | ≥2025-03-26 | error | - | data-not-json
  server | ≥2025-03-26 | warning | O | event-type
  server | ≥2025-03-26 | warning | - | unterminated-event
  server | 2025-03-26 to 2025-11-25 | error | - | duplicate-event-id replay-from-other-stream
  server | 2025-03-26 to 2025-11-25 | warning | - | replay-without-request
  server | 2025-03-26 to 2025-11-25 | note | - | replay-of-seen
  client | 2025-03-26 to 2025-11-25 | warning | S | unknown-last-event-id
  client | 2025-03-26 to 2025-11-25 | warning | - | resume-not-get
  server | 2025-11-25 only | note | O | no-priming-event
  server | 2025-11-25 only | warning | - | closed-without-retry
  client | 2025-11-25 only | error | T | retry-ignored
  either | ≥2026-07-28 | note | O | resumption-in-modern
legacy-sse
  server | all | error | - | no-endpoint-first endpoint-invalid
  server | all | warning | - | endpoint-again event-type answer-in-post
  client | all | error | - | wrong-post-uri
  client | all | warning | - | post-after-close
  client | ≥2025-06-18 | note | O | no-version-header
auth
  server | ≥2025-06-18 | error, note ≥2025-11-25 | H | challenge-missing
  server | ≥2025-06-18 | error, note ≥2025-11-25 | - | resource-metadata-missing
  server | ≥2025-11-25 | warning | O | scope-missing
  server | ≥2026-07-28 | warning | - | offline-access
  server | ≥2025-11-25 | warning | - | insufficient-scope-shape
  client | ≥2025-03-26 | error | - | token-in-query dropped oauth-request
  client | ≥2025-03-26 | note | O | not-bearer
  client | ≥2025-11-25 | warning | - | retry-loop
  server | ≥2025-06-18 | error | - | metadata-document
  client | 2025-03-26 only | note | - | metadata-path
  either | ≥2025-03-26 | warning | O | plain-http
shutdown
  server | all | error | - | server-died
  server | all | note | - | server-left exit-status write-after-close
  server | all | warning, note ≤2025-11-25 | T | server-lingers
  client | all | warning | - | killed-first
  client | all | note | E | request-while-closing
"""
