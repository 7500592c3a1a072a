"""The names that other tools use for the functions of mcpproxy's commands, each with the advice to print for it."""

from typing import Final

_FOLLOW: Final = "to see a session while it is recorded: mcpproxy show --follow, or mcpproxy tui"
_LOOK: Final = "to see what was recorded: mcpproxy tui, or mcpproxy show"
_RECORD: Final = (
    "to record the servers of your clients: mcpproxy install; to record a single server: mcpproxy run -- COMMAND, or "
    "mcpproxy serve URL"
)
_DELETE: Final = (
    "to delete old captures: mcpproxy prune; to undo what install did: mcpproxy uninstall; to remove everything: "
    "mcpproxy uninstall --purge"
)
_CHECK: Final = "to find violations of the protocol: mcpproxy check"
_BEGIN: Final = "to route the servers of your clients through mcpproxy: mcpproxy install"
_CONVERT: Final = "to write captures in another format: mcpproxy export; to read another format: mcpproxy import"
_HIDE: Final = "to write a copy without secrets: mcpproxy share; to list likely secrets: mcpproxy scan"
_SERVER: Final = "to see which servers are routed: mcpproxy status; to find out why one fails: mcpproxy doctor"

ADVICE_FOR_WORD: Final = {
    **dict.fromkeys(("watch", "tail", "follow", "monitor", "live", "attach"), _FOLLOW),
    **dict.fromkeys(("inspect", "inspector", "view", "open", "ui", "browse", "log", "logs", "cat", "dump"), _LOOK),
    **dict.fromkeys(("record", "capture", "proxy", "wrap", "start", "exec", "trace", "tee"), _RECORD),
    **dict.fromkeys(("init", "setup", "add", "configure", "config"), _BEGIN),
    **dict.fromkeys(("delete", "remove", "rm", "clean", "clear", "purge"), _DELETE),
    **dict.fromkeys(("lint", "validate", "test", "analyze", "analyse"), _CHECK),
    **dict.fromkeys(("convert", "har", "otlp"), _CONVERT),
    **dict.fromkeys(("redact", "anonymize", "anonymise", "sanitize", "sanitise", "secrets"), _HIDE),
    **dict.fromkeys(("debug", "diagnose", "ping", "servers"), _SERVER),
    **dict.fromkeys(
        ("diff", "breaking", "changes", "drift"),
        "to see what changed between two captures: mcpproxy compare; to see only findings that are new: mcpproxy check "
        "--baseline F",
    ),
    **dict.fromkeys(
        ("resend", "curl"),
        "to print a command that sends a message again: mcpproxy show --frame N --as shell, or --as curl; to send all "
        "of a client's messages again: mcpproxy replay",
    ),
    **dict.fromkeys(("fake", "stub", "simulate"), "to serve a capture in the place of its server: mcpproxy mock"),
    **dict.fromkeys(("cassette", "vcr"), "to write a capture for version control: mcpproxy share --cassette"),
    **dict.fromkeys(("list", "captures", "history", "sessions"), "to list captures: mcpproxy ls"),
    **dict.fromkeys(
        ("search", "find", "grep", "filter"),
        "to see only some messages: mcpproxy show --filter EXPR; to search in tui: /; in SQL: mcpproxy query",
    ),
    **dict.fromkeys(
        ("stop", "kill"),
        "a recording ends with its client or server; to stop recording for good: mcpproxy uninstall",
    ),
    "machines": 'to see where each capture was recorded: mcpproxy query --all "select machine, capture from captures"',
    "merge": "every command takes several captures, and --all; to put them into one data set: mcpproxy ship",
    "sql": "to query captures in SQL: mcpproxy query",
    "html": "to write an HTML report: mcpproxy report",
    "explain": "to explain a rule: mcpproxy rule; to explain a command: mcpproxy help COMMAND",
    "upload": "to copy captures to a directory or object store: mcpproxy ship",
    "push": "to copy captures to a directory or object store: mcpproxy ship",
    "version": "to see the version: mcpproxy --version",
}
"""For each word that is not a command, the advice: what the user may want to do, and the command that does it."""
