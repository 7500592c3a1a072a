"""Why a server does not work in a client: it is started as the client would start it, and the first fault is named.

    client's files ─→ config_checks ─→ trust ─┬─→ process_attempt (a command, through the recorder) ─┬─→ Diagnosis
                                              └─→ http_attempt (a URL) ──────────────────────────────┘

It writes to no file of a client, and does not start a project's server that was neither approved nor named.
"""
