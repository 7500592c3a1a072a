"""Why a server does not come up in a client: it is started as the client would, and the first fault is named.

    client's files ─→ config_checks ─┬─→ process_attempt (a command, through the recorder) ─┬─→ Diagnosis
                                     └─→ http_attempt (a URL) ──────────────────────────────┘

It writes to no file of a client.
"""
