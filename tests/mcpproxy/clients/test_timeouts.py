"""Work that takes too long is abandoned, and exceptions that it raises reach the caller."""

import threading

import pytest

from mcpproxy.clients.timeouts import run_with_timeout


def test_a_result_or_an_error_in_time() -> None:
    assert run_with_timeout(60.0, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        run_with_timeout(60.0, lambda: 1 // 0)


def test_what_takes_too_long_is_given_up() -> None:
    gate = threading.Event()
    with pytest.raises(TimeoutError):
        run_with_timeout(0.1, gate.wait)
    given_up = threading.Event()
    given_up.set()
    with pytest.raises(TimeoutError):
        run_with_timeout(1000.0, gate.wait, given_up)
    gate.set()
