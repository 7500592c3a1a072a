"""The group `auth`: credentials, as seen in requests and challenges, and logins."""

MODULES = (
    "challenges",
    "documents",
    "tokens",
    "resource_metadata",
    "server_metadata",
    "registration",
    "token_responses",
    "login_requests",
    "login_outcomes",
    "dpop",
)
