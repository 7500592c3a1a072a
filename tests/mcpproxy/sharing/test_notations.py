"""Secrets that a notation reveals, and texts in the same notation that hold none."""

from mcpproxy.sharing.notations import notation_secrets

HASH = "aB3dE5gH7jK9mN1pQ3sT5u" + "vX7zB9dF1hJ3lN5pQ7rS9tU1wY3aC5e"

SECRETS = {
    "deploy --user x --password hunter22 now": "hunter22",
    "deploy --db-password 'hunter22'": "hunter22",
    "curl -s -u admin:hunter22 https://example.com/x": "hunter22",
    "curl https://example.com/x --user=admin:hunter22": "hunter22",
    "export ACME_KEY=4fd0c9b1a2e3": "4fd0c9b1a2e3",
    'ACME_DSN = "acme7://4fd0c9b1a2e3"': "acme7://4fd0c9b1a2e3",
    "<password>hunter22</password>": "hunter22",
    "<wsse:Password>hunter22</wsse:Password>": "hunter22",
    '<add key="DbPassword" value="correct horse" />': "correct horse",
    "CREATE USER shop IDENTIFIED BY 'hunter22'": "hunter22",
    "alter role shop with password 'hunter22';": "hunter22",
    "db.acme.io:5432:shop:anna:hunter22": "hunter22",
    "*:*:*:anna:hunter22": "hunter22",
    f"anna $2b$12${HASH[:53]}": f"$2b$12${HASH[:53]}",
    f"anna:$6$aB3dE5gH${HASH}:19000:0": f"$6$aB3dE5gH${HASH}",
    f"https://discord.com/api/webhooks/123456789012345678/{HASH}": f"123456789012345678/{HASH}",
    f"https://acme.webhook.office.com/webhookb2/{HASH}@{HASH}/IncomingWebhook/{HASH}": (
        f"{HASH}@{HASH}/IncomingWebhook/{HASH}"
    ),
}

HARMLESS = (
    "deploy --user x --password --verbose",
    "deploy --password PASSWORD --token <token>",
    "  --token string   The token of the bot",
    "curl -u admin https://example.com/x:1",
    "curl -u user:password https://example.com/x",
    "PRIMARY_KEY = 'id' SORT_KEY=created_at S3_SSE_KEY = 'fs.s3.sse.enabled' REGISTRY_KEY=HKEY_LOCAL_MACHINE",
    "<password>string</password> <passwordHint>hunter22</passwordHint> <td>hunter22</td>",
    '<add key="Timeout" value="30s22222" />',
    "CREATE USER shop IDENTIFIED BY 'password', the password 'must be set'",
    "src/app.py:10:5:E501:line22 12:30:45:10:20abc",
    "it costs $2 or $5$ and $6$ more; $1$2",
    "https://example.com/webhooks/1234/events and /webhooks/123456789012345678/",
)


def test_secrets_in_each_notation_are_found() -> None:
    for text, secret in SECRETS.items():
        for given in (text, f"Look: {text}"):
            assert [given[found.start : found.end] for found in notation_secrets(given)] == [secret], given


def test_what_holds_no_secret_stays() -> None:
    for text in HARMLESS:
        assert list(notation_secrets(text)) == [], text
