"""Secrets of many kinds, made at random: valid by their form, and never real.

A form is a text with fields: `{h32}` stands for 32 characters of the alphabet `h`, `{card}` for a value of `VALUES`.
`«»` enclose what must not be left of it; without them, that is all of it. No token is in this file itself, which a
scanner of repositories would report.
"""

import base64
import json
import re
import string
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple
from uuid import UUID
from zlib import crc32

from mcpproxy.sharing.pseudonyms import passes_luhn

ALPHABETS: Final = {
    "d": string.digits,
    "n": "123456789",
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "l": string.ascii_lowercase,
    "u": string.ascii_uppercase,
    "a": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "2": string.ascii_uppercase + "234567",
    "w": string.ascii_letters + string.digits,
    "s": string.ascii_letters + string.digits + "_-",
    "B": string.ascii_letters + string.digits + "+/",
    "q": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "z": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
}

OWN: Final = {
    # By the forms in mcpproxy/sharing/patterns.py.
    "AWS key id": "AKIA{216}",
    "GitHub token": "{github}",
    "GitHub fine-grained token": "github_pat_{w22}_{w59}",
    "GitLab token": "glpat-{s20}",
    "OpenAI key": "sk-proj-{w58}T3BlbkFJ{w58}",
    "Anthropic key": "sk-ant-api03-{s93}AA",
    "Stripe key": "sk_live_{w24}",
    "webhook secret": "whsec_{w32}",
    "Slack token": "xoxb-{n1}{d11}-{n1}{d12}-{w24}",
    "Slack app token": "xapp-1-A{U10}-{n1}{d12}-{h64}",
    "Google key": "AIza{s35}",
    "Google token": "ya29.a0{s120}",
    "Google refresh token": "1//0{d1}{s60}",
    "Google client secret": "GOCSPX-{s28}",
    "Hugging Face token": "hf_{w34}",
    "npm token": "{npm}",
    "PyPI token": "pypi-AgEIcHlwaS5vcmc{s120}",
    "SendGrid key": "SG.{s22}.{s43}",
    "Mailgun key": "key-{h32}",
    "Twilio key": "SK{h32}",
    "Notion token": "ntn_{n1}{d10}{w35}",
    "Tavily key": "tvly-dev-{w32}",
    "Firecrawl key": "fc-{h32}",
    "Telegram token": "{n1}{d8}:AA{s33}",
    "Discord token": "{discord}",
    "JWT": "{jwt}",
    "private key": "-----BEGIN PRIVATE KEY-----\n«{B64}\n{B44}»\n-----END PRIVATE KEY-----",
    "PuTTY key": (
        "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: work\nPublic-Lines: 1\n{B64}\n"
        "Private-Lines: 1\n«{B47}»=\nPrivate-MAC: {h64}"
    ),
    "Artifactory": "AKCp{w69}",
    "Azure AD": "{w3}8Q~{s34}",
    "LangSmith": "lsv2_pt_{h32}_{h10}",
    "Vault": "hvs.{s92}",
    "Supabase secret": "sb_secret_{s31}",
    "Salesforce session": "00D{w12}!A{s95}",
    # By what precedes them.
    "bearer": "Authorization: Bearer «{w39}{d1}»",
    "basic": "Authorization: Basic «{basic}»",
    "assigned password": "password=«{w11}{d1}»",
    "password of words": "passphrase: «{l6}-{l7}-{l5}»",
    "assigned API key": "api_key: «{w31}{d1}»",
    "password in a setting": '{"password": "«{w11}{d1}»"}',
    "cookie": "Cookie: theme=dark; sid=«{w31}{d1}»",
    "password in a URL": "postgres://svc:«{w11}{d1}»@db.example.com:5432/x",
    "parameter of a URL": "https://api.example.com/v1?access_token=«{w19}{d1}»",
    "user and password of JDBC": "jdbc:oracle:thin:scott/«{w11}{d1}»@//db.example.com:1521/orcl",
    "netrc": "machine ftp.example.com login anon password «{w11}{d1}»",
    "mysql -p": "mysql -u root -p«{w11}{d1}» shop",
    "sig=": "se=2027-01-01T00:00:00Z&sp=r&sig=«{B43}»=",
    "Azure account key": "AccountName=x;AccountKey=«{B86}»==;EndpointSuffix=core.example.com",
    "Algolia, after its name": "algolia: «{a32}»",
    "Datadog, after its name": "datadog_app = '«{h40}»'",
    "option of a command": "deploy --user x --password «{w11}{d1}» now",
    "environment variable": "export ACME_KEY=«{w31}{d1}»",
    "curl -u": "curl -u admin:«{w11}{d1}» https://example.com/x",
    "header with a key": "X-Api-Key: «{w31}{d1}»",
    "connection string": "Server=db.example.com;User Id=sa;Password=«{w11}{d1}»;",
    "SQL": "CREATE USER x IDENTIFIED BY '«{w11}{d1}»'",
    ".pgpass": "db.example.com:5432:shop:svc:«{w11}{d1}»",
    "AWS secret key": "aws_secret_access_key = «{B39}{d1}»",
    "key in a kubeconfig": "client-key-data: «{B199}{d1}»",
    "password in a URL without a user": "redis://:«{w11}{d1}»@cache.example.com:6379",
    "seed of one-time passwords": "otpauth://totp/x?secret=«{232}»&issuer=x",
    "XML element": "<password>«{w11}{d1}»</password>",
    "XML attribute": '<add key="Password" value="«{w11}{d1}»" />',
    "YAML": "db:\n  host: x\n  password: «{w11}{d1}»\n  pool: 5",
    "Slack webhook": "https://hooks.slack.com/services/«T{U8}/B{U8}/{w24}»",
    "Discord webhook": "https://discord.com/api/webhooks/«{n1}{d17}/{s68}»",
    "Teams webhook": "https://x.webhook.office.com/webhookb2/«{uuid}@{uuid}/IncomingWebhook/{h32}/{uuid}»",
    "Sentry DSN": "https://«{h32}»@o123456.ingest.sentry.io/42",
    "OpenSSH key": "-----BEGIN OPENSSH PRIVATE KEY-----\n«{B70}\n{B44}»\n-----END OPENSSH PRIVATE KEY-----",
    "password hash": "$2b$12$«{w53}»",
    # People and places.
    "e-mail with an umlaut": "{l6}ü{l3}@{l8}.de",
    "home directory under WSL": "/mnt/c/Users/«w{l8}»/x",
    "home directory in a URI": "file:///home/«f{l8}»/x",
    "UNC path": "\\\\«{l9}.corp»\\share",
    "IPv4 address with a port": "«{ipv4}»:8080",
    "e-mail": "{l8}@{l8}.io",
    "home directory": "/home/«u{l8}»/projects/x",
    "home directory on macOS": "/Users/«m{l8}»/notes.txt",
    "home directory on Windows": "C:\\Users\\«w{l8}»\\x",
    "internal host": "{l9}.internal",
    "host in a URL": "https://«{l7}.{l9}.io»/status",
    "IPv4 address": "{ipv4}",
    "IPv6 address": "{ipv6}",
    "IPv6 address, compressed": "2a{h2}:{h4}:{h3}f::{n1}{h3}",
    "IPv6 address with a port": "[{ipv6}]:8443",
    "IPv6 address with a zone": "«fe80::{n1}{h3}:{n1}{h3}:{n1}{h3}:{n1}{h3}»%eth0",
    "card": "{card}",
    "card with blanks": "{card: }",
    "card with hyphens": "{card:-}",
    "card with dots": "{card:.}",
    "card with no-break spaces": "{card:\u00a0}",
}
"""Forms that we recognise ourselves."""

SERVICES: Final = {
    # A sample of those rules of the catalogue that need no name before the token.
    "1Password": "A3-{U6}-{U11}-{U5}-{U5}-{U5}",
    "Adobe": "p8e-{a32}",
    "age": "AGE-SECRET-KEY-1{q58}",
    "Airtable": "pat{w14}.{h64}",
    "Atlassian": "ATATT3xFfGF0{s180}",
    "Brave Search": "BSA{s28}",
    "CircleCI": "CCIPAT_{w22}_{h40}",
    "Cloudflare": "cfut_{w40}{h8}",
    "Databricks": "dapi{h32}",
    "Doppler": "dp.pt.{w43}",
    "Dynatrace": "dt0c01.{U24}.{U64}",
    "Fly.io": "FlyV1 fm2_{B120}",
    "Grafana": "glsa_{w32}_{h8}",
    "MaxMind": "{w6}_{w29}_mmk",
    "OpenShift": "sha256~{s43}",
    "Pinecone": "pcsk_{w6}_{w63}",
    "Resend": "re_{z8}_{z24}",
    "Tailscale": "tskey-api-{w24}",
    "Terraform": "{w14}.atlasv1.{w64}",
    # Rules that need a name.
    "Deepgram, after its name": "deepgram: «{h40}»",
    "Netlify, after its name": "netlify: «{s43}»",
}
"""Tokens of services whose form only the catalogue knows."""

PERSONAL: Final = {
    "phone number": "+49 30 {n1}{d3} {n1}{d3}",
    "phone number without blanks": "+4915{d1}{n1}{d7}",
    "IBAN": "{iban}",
    "IBAN with blanks": "{iban: }",
    "MAC address": "{n1}{h1}:{h2}:{h2}:{h2}:{h2}:{n1}{h1}",
}
"""What only `--personal` replaces."""

HARD: Final = {
    "password in a sentence": "the password is «{l6}{d2}»",
    "host without a scheme": "«{l8}.{l7}.io»",
    "host without a scheme, with a port": "cannot reach «{l8}.{l7}.io»:8443",
    "home directory after ~": "~«u{l8}»/projects",
    "directory outside of home directories": "/srv/«{l9}»/projects",
    "social security number": "{n1}{d2}-{n1}{d1}-{d4}",
    "passport": "C{U8}",
    "wallet": "0x{h40}",
    "coordinates": "52.{n1}{d6}, 13.{n1}{d6}",
    "token directly after a letter": "keydapi{h32}",
}
"""What a reader recognises, and `share` does not."""

FORMS: Final = {**OWN, **SERVICES}

_FIELD: Final = re.compile(
    r"\{(?:(?P<alphabet>[a-zA-Z2])(?P<count>[0-9]+)|(?P<value>[a-z]+[46]?)(?::(?P<between>.))?)\}"
)
_GITHUB: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase


class Planted(NamedTuple):
    """A text with a secret in it."""

    kind: str
    text: str
    secret: str
    """The part that must not be left."""


def fresh(random: Random, forms: dict[str, str] = FORMS) -> list[Planted]:
    """One secret of each form, all new."""
    return [planted(random, kind, form) for kind, form in forms.items()]


def planted(random: Random, kind: str, form: str) -> Planted:
    """A new secret of a form."""
    text = _FIELD.sub(lambda field: _filled(random, field), form)
    before, _, rest = text.partition("«")
    secret, _, after = rest.partition("»")
    return Planted(kind, before + secret + after, secret) if rest else Planted(kind, text, text)


def some(random: Random, alphabet: str, count: int) -> str:
    """Random characters of an alphabet."""
    return "".join(random.choices(ALPHABETS[alphabet], k=count))


def _filled(random: Random, field: re.Match[str]) -> str:
    if field["alphabet"]:
        return some(random, field["alphabet"], int(field["count"]))
    value = VALUES[field["value"]](random)
    between = field["between"]
    return between.join(value[at : at + 4] for at in range(0, len(value), 4)) if between else value


def _with_checksum(random: Random, prefix: str) -> str:
    """A token of GitHub or npm: its last six characters are a checksum of those before."""
    body = some(random, "w", 30)
    rest, digits = crc32(body.encode()), ""
    for _ in range(6):
        rest, digit = divmod(rest, 62)
        digits = _GITHUB[digit] + digits
    return prefix + body + digits


def _unpadded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _jwt(random: Random) -> str:
    claims = {"sub": some(random, "d", 10), "name": some(random, "l", 9), "exp": 1_900_000_000}
    head, body = (_unpadded(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
    return f"{head}.{body}.{some(random, 's', 43)}"


def _discord(random: Random) -> str:
    user = some(random, "n", 1) + some(random, "d", 17)
    return f"{_unpadded(user.encode())}.G{some(random, 's', 5)}.{some(random, 's', 38)}"


def _card(random: Random) -> str:
    digits = "4" + some(random, "n", 14)
    return next(digits + last for last in string.digits if passes_luhn(digits + last))


def _iban(random: Random) -> str:
    account = some(random, "n", 18)
    check = 98 - int(account + "131400") % 97  # D, E and two zeros
    return f"DE{check:02}{account}"


VALUES: Final[dict[str, Callable[[Random], str]]] = {
    "github": lambda random: _with_checksum(random, "ghp_"),
    "npm": lambda random: _with_checksum(random, "npm_"),
    "jwt": _jwt,
    "discord": _discord,
    "basic": lambda random: base64.b64encode(f"{some(random, 'l', 8)}:{some(random, 'w', 13)}".encode()).decode(),
    "card": _card,
    "iban": _iban,
    "uuid": lambda random: str(UUID(int=random.getrandbits(128), version=4)),
    "ipv4": lambda random: ".".join(
        str(random.randint(*span)) for span in ((150, 199), (100, 199), (100, 249), (100, 249))
    ),
    "ipv6": lambda random: ":".join(["2a01", *(some(random, "n", 1) + some(random, "h", 3) for _ in range(7))]),
}
"""Values with an inner structure."""
