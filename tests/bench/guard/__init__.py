"""Measures what the suite notices: reintroduced bugs, and small random changes.

    python -m tests.bench.guard.history     reverts past commits that fixed a bug; a test must fail for each
    python -m tests.bench.guard.covering    which test executes which line, and how long each takes
    python -m tests.bench.guard.mutants     changes one place of a module at a time; counts the changes that fail a test

A suite that was made smaller or faster is compared with the previous one, and must notice at least as much.
"""
