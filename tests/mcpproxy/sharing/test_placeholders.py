"""What stands where a secret belongs, and passwords that only sound like it."""

from mcpproxy.sharing.placeholders import is_placeholder


def test_placeholders() -> None:
    for value in (
        *(
            "YOUR_API_KEY",
            "your-api-key-here",
            "YOUR_ACCESS_TOKEN",
            "xoxb-your-token-here",
            "your_password",
            "sk-your-key",
        ),
        *(
            "<token>",
            "<your-key>",
            "${TOKEN}",
            "$TOKEN",
            "{{ vault.password }}",
            "${{ secrets.GITHUB_TOKEN }}",
            "%TOKEN%",
        ),
        *(
            "[REDACTED]",
            "redacted",
            "****",
            "xxxxxxxx",
            "sk-...",
            "sk-xxxx",
            "ghp_xxxxxxxxxxxx",
            "ghp_****",
            "…",
            "•••••",
        ),
        *("changeme", "CHANGE_ME", "replace-me", "INSERT_CLIENT_SECRET", "enter your password", "AKIAXXXXXXXXXXXXXXXX"),
        "x" * 5000,
    ):
        assert is_placeholder(value), value


def test_passwords_are_none() -> None:
    for value in (
        *("swordfish", "correct-horse-battery", "letmein", "change-the-locks-again", "my-secret-token", "Tr0ub4dor&3"),
        *("sk-abc123", "ghp_x1xxxxxxxxxx", "xXx9", "your-mother-was-a-hamster", "insert-coin", "a" * 200, "$ecret1"),
    ):
        assert not is_placeholder(value), value
