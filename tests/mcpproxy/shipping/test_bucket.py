"""The messages for errors of an object store."""

import pytest

from mcpproxy.shipping.bucket import _NO_CREDENTIALS, _reason

PUT = "Error performing PUT https://a.example/x?sig=SECRET&se=1 in 2.1s"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            f"Generic S3 error: {PUT}, after 10 retries, max_retries: 10, retry_timeout: 180s  - HTTP error: reset",
            "no response after 10 retries: HTTP error: reset",
        ),
        (f"{PUT} - status 403: <Code>AccessDenied</Code><StringToSign>SECRET", "the store answered AccessDenied"),
        (f"{PUT} - non-2xx status code: 403 Forbidden: SECRET", "the store answered 403 Forbidden"),
        (f"{PUT} failed\nDebug: SECRET", "Error performing PUT https://a.example/x?… in 2.1s failed"),
        (f"{PUT} - PUT http://169.254.169.254/latest/api/token", _NO_CREDENTIALS),
    ],
)
def test_errors_say_what_happened_and_hold_no_signature(error: str, reason: str) -> None:
    assert _reason(OSError(error)) == reason
