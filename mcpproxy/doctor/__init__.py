"""Finds out why a server does not work in a client: starts it as the client would, and names the first fault.

    client's files ─→ config_checks ─→ trust ─┬─→ process_attempt (a command, through the recorder) ─┬─→ Diagnosis
                                              └─→ http_attempt (a URL) ──────────────────────────────┘
    a URL, for a hosted client ─→ hosted_observation ─→ hosted_checks ─→ Diagnosis

It does not write to a client's files, and does not start a project's server that was neither approved nor named.
"""
