"""Redacts the records of a capture that are not frames: the header, HTTP heads and addresses, everything else.

The recorder has already hashed the secrets in them (FORMAT.md, Privacy), but with the user's lasting key, so that two
shares could be compared. So these hashes are hashed again. The directory, the parent processes and the names of
environment variables are replaced, except variables by which a client names its conversation. Of the command, the
launcher, the package and the names of options stay.
"""

import re
from typing import Any, Final

from orjson import dumps, loads

from analysis.conversation.client_ids import SESSION_VARIABLES
from captures.addresses import clean_address
from captures.redact import PREFIX, package_index
from mcpproxy import __version__
from mcpproxy.recorder.header_redaction import FieldRedactor, clean_document
from mcpproxy.sharing.kingfisher import Secret
from mcpproxy.sharing.redaction import Redactor, Replacement
from mcpproxy.sharing.word_lists import LAUNCHERS

_MAX_RECORD_DEPTH: Final = 50
"""Levels of nesting in a record that are copied."""
_HASH: Final = re.compile(rf"{PREFIX}[0-9a-f]{{16}}")
_OPTION: Final = re.compile(r"--?[A-Za-z][A-Za-z0-9-]*")
_INVALID_IN_ADDRESS: Final = re.compile(rb"[\x00-\x20\"<>{}\\^`|]").search
"""Matches characters that make an address invalid. The address in the copy must be invalid, too."""
_ID_HEADERS: Final = frozenset({"mcp-session-id", "last-event-id"})
"""Headers that pair exchanges. A recorder has hashed the first one already."""
_HOST_HEADERS: Final = frozenset({"host", "x-forwarded-host"})
_ADDRESS_MEMBERS: Final = frozenset({"upstream", "public", "via"})
_OAUTH_ADDRESSES: Final = frozenset({"error_uri", "resource", "iss", "as_server", "redirect_uri"})
_UNREDACTED_MEMBERS: Final = frozenset({"seq", "rec", "t_ns", "crc"})
KNOWN_TYPES: Final = frozenset(
    {"header", "frame", "part", "exchange", "stream", "eof", "stderr", "process", "signal", "stall", "gap", "close"}
)
"""The record types that this version knows. A record of any other type can contain anything."""
REDACTIONS: Final = ("argv", "env", "cwd", "parents", "headers", "path", "query", "bodies", "stderr")


class RecordRedactor:
    """Redacts records for one share."""

    def __init__(self, redactor: Redactor, machine: tuple[str, bool] | None = None) -> None:
        """Create a redactor.

        Args:
            redactor: redacts texts.
            machine: the machine name for headers, and whether a user chose it. None keeps a chosen name and replaces a
                host name.
        """
        self._redactor = redactor
        self._machine = machine
        self.keeps_bodies = redactor.keeps_bodies
        self._replacements: list[Replacement] = []
        self._field_redactor = FieldRedactor(self._hash_secret, self._redact_address)

    def redact_members(self, values: dict[str, Any], replacements: list[Replacement]) -> dict[str, Any]:
        """Returns the redacted members of a record, without number, type, stamp and checksum."""
        self._replacements = replacements
        redactable_values = {name: value for name, value in values.items() if name not in _UNREDACTED_MEMBERS}
        if values["rec"] not in KNOWN_TYPES and not self.keeps_bodies:
            return {self._redact_text(name): self._replace_body(value) for name, value in redactable_values.items()}
        redact = {"header": self._redact_header, "exchange": self._redact_exchange}.get(
            values["rec"], self._redact_other
        )
        return redact(redactable_values)

    def redact_text(self, text: str, replacements: list[Replacement]) -> str:
        """Redact a text of a record, such as the id of an event."""
        self._replacements = replacements
        return self._redact_text(text)

    # --- pseudonyms

    def _hash_secret(self, secret: bytes) -> str:
        text = secret.decode("utf-8", "surrogateescape")
        pseudonym = self._redactor.pseudonyms.tag(text, "hash")
        if not _HASH.fullmatch(text):
            self._replacements.append(Replacement("http", text, pseudonym, None))
        return pseudonym

    def _redact_address(self, address: bytes) -> str:
        """Redact an address: replaces its host, and everything that a recorder hashes."""
        redacted_address = self._redact_text(clean_address(address, self._hash_secret))
        return redacted_address + " " if _INVALID_IN_ADDRESS(address) else redacted_address

    def _redact_text(self, text: str) -> str:
        """Redact any text: hash the hashes again, and replace secrets."""
        rehashed_text = _HASH.sub(lambda match: self._redactor.pseudonyms.tag(match[0]), text)
        return self._redactor.redact_text(rehashed_text, self._replacements)

    def _redact_value(self, value: Any, depth: int = 0) -> Any:
        """Redact any value of a record."""
        if isinstance(value, str):
            return self._redact_text(value)
        if depth > _MAX_RECORD_DEPTH:
            return None
        if isinstance(value, list):
            return [self._redact_value(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {self._redact_text(str(name)): self._redact_value(item, depth + 1) for name, item in value.items()}
        return value

    def _replace_body(self, value: Any, depth: int = 0) -> Any:
        """Replace all texts and numbers in a value, whether or not they look like secrets."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._replace_whole("body", value)
        if depth > _MAX_RECORD_DEPTH:
            return None
        if isinstance(value, list):
            return [self._replace_body(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {self._redact_text(str(name)): self._replace_body(item, depth + 1) for name, item in value.items()}
        self._replacements.append(Replacement("body", str(value), "0", None))
        return type(value)()

    # --- records

    def _redact_variable(self, name: str) -> str:
        """Returns the name of an environment variable, if clients are known by it, or else its pseudonym."""
        return name if name in SESSION_VARIABLES else self._replace_whole("environment", name)

    def _redact_header(self, values: dict[str, Any]) -> dict[str, Any]:
        pseudonyms = self._redactor.pseudonyms
        redacted_values: dict[str, Any] = {}
        for name, value in values.items():
            if (name == "capture" and isinstance(value, str)) or (name == "boot_id" and isinstance(value, str)):
                redacted_values[name] = pseudonyms.identifier(value)
            elif name == "argv" and isinstance(value, list):
                redacted_values[name] = self._redact_command([str(word) for word in value])
            elif name == "env" and isinstance(value, dict):
                redacted_values[name] = {
                    self._redact_variable(str(key)): self._hash_secret(str(env_value).encode())
                    for key, env_value in value.items()
                }
            elif name == "cwd" and isinstance(value, str):
                redacted_values[name] = self._replace_whole("directory", value)
            elif name == "parents" and isinstance(value, list):
                redacted_values[name] = [self._redact_parent(parent) for parent in value if isinstance(parent, dict)]
            elif name == "name" and isinstance(value, str):
                redacted_values[name] = self._redactor.redact_label(value, self._replacements)
            elif name in _ADDRESS_MEMBERS and isinstance(value, str):
                redacted_values[name] = self._redact_address(value.encode("utf-8", "surrogateescape"))
            elif name == "machine" and isinstance(value, str):
                redacted_values[name] = (
                    value if values.get("machine_chosen") is True else self._replace_whole("host", value)
                )
            elif name in ("redactions", "opt_outs", "tool", "transport"):
                redacted_values[name] = value
            else:
                redacted_values[name] = self._redact_value(value)
        if self._machine is not None:
            redacted_values["machine"], is_chosen = self._machine
            redacted_values |= {"machine_chosen": True} if is_chosen else {}
        redactions = redacted_values.get("redactions")
        redactions = (
            [str(word) for word in redactions if word != "key-not-kept"] if isinstance(redactions, list) else []
        )
        redacted_values["redactions"] = list(dict.fromkeys([*redactions, *REDACTIONS, "key-not-kept"]))
        redacted_values["redacted_by"] = f"mcpproxy {__version__}"
        return redacted_values

    def _replace_whole(self, kind: str, text: str) -> str:
        return self._redactor.replace_secrets(text, [Secret(0, len(text), kind)], self._replacements)

    def _redact_parent(self, parent: dict[str, Any]) -> dict[str, Any]:
        return {
            name: self._replace_whole("process", value) if isinstance(value, str) else value
            for name, value in parent.items()
        }

    def _redact_command(self, argv: list[str]) -> list[str]:
        package = package_index([word.encode("utf-8", "surrogateescape") for word in argv])
        return [self._redact_word(word, index, package) for index, word in enumerate(argv)]

    def _redact_word(self, word: str, index: int, package: int | None) -> str:
        if _HASH.fullmatch(word):
            return self._redactor.pseudonyms.tag(word)
        if index == 0:
            name = word.replace("\\", "/").rpartition("/")[2]
            return name if re.sub(r"[0-9.]+$|\.exe$", "", name) in LAUNCHERS else self._replace_whole("command", word)
        is_path = "/" in word and not word.startswith("@")
        if package is not None and index <= package and not (index == package and (is_path or "\\" in word)):
            return word
        name, equals, _ = word.partition("=")
        if word in ("", "-", "--") or _OPTION.fullmatch(word):
            return word
        if equals and _OPTION.fullmatch(name):
            return f"{name}={self._replace_whole('command', word[len(name) + 1 :])}"
        return self._replace_whole("command", word)

    def _redact_exchange(self, values: dict[str, Any]) -> dict[str, Any]:
        redacted_values = dict(values)
        for side in ("request", "response"):
            if isinstance(values.get(side), dict):
                redacted_values[side] = self._redact_head(values[side])
        if isinstance(values.get("metadata"), str):
            redacted_values["metadata"] = self._redact_metadata(values["metadata"])
        if isinstance(values.get("endpoints"), list):
            redacted_values["endpoints"] = [
                self._redact_address(str(address).encode()) for address in values["endpoints"]
            ]
        if isinstance(values.get("rewritten"), dict):
            redacted_values["rewritten"] = {
                self._redact_text(str(place)): self._redact_address(str(address).encode("utf-8", "surrogateescape"))
                for place, address in values["rewritten"].items()
            }
        if isinstance(values.get("uri_key"), str):
            redacted_values["uri_key"] = self._redactor.pseudonyms.tag(values["uri_key"], "hash")
        if isinstance(values.get("oauth"), dict):
            redacted_values["oauth"] = self._redact_oauth(values["oauth"])
        if isinstance(values.get("body_hash"), dict):
            # The original hash could be used to test guesses at a short body.
            redacted_values["body_hash"] = {
                side: self._redact_body_hash(value) for side, value in values["body_hash"].items()
            }
        # Members of an unexpected type are unchanged so far.
        return {
            name: self._redact_value(value) if value is values[name] else value
            for name, value in redacted_values.items()
        }

    def _redact_oauth(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Redact what is known of a leg of an authorization, in which addresses are those of clients and servers."""
        return {
            self._redact_text(str(name)): self._redact_address(value.encode("utf-8", "surrogateescape"))
            if isinstance(value, str) and (name in _OAUTH_ADDRESSES or "://" in value)
            else self._redact_value(value)
            for name, value in facts.items()
        }

    def _redact_body_hash(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return None
        pseudonyms = self._redactor.pseudonyms
        return {
            name: pseudonyms.identifier(digest) if isinstance(digest, str) else digest for name, digest in value.items()
        }

    def _redact_head(self, head: dict[str, Any]) -> dict[str, Any]:
        redacted_values: dict[str, Any] = {}
        for name, value in head.items():
            if name == "target" and isinstance(value, str):
                redacted_values[name] = self._redact_address(value.encode("utf-8", "surrogateescape"))
            elif name == "headers" and isinstance(value, list):
                redacted_values[name] = self._redact_fields(value)
            else:
                redacted_values[name] = self._redact_value(value)
        return redacted_values

    def _redact_fields(self, fields: list[Any]) -> list[Any]:
        pairs = [
            (str(field[0]).encode("utf-8", "surrogateescape"), str(field[1]).encode("utf-8", "surrogateescape"))
            for field in fields
            if isinstance(field, list) and len(field) == 2
        ]
        return [
            [name, self._redact_field(name.lower(), value, raw_value.decode("utf-8", "surrogateescape"))]
            for (name, value), (_, raw_value) in zip(loads(self._field_redactor(pairs)), pairs, strict=True)
        ]

    def _redact_field(self, name: str, value: str, original: str) -> str:
        if name in _ID_HEADERS:
            return self._redact_text(original)
        if name in _HOST_HEADERS:
            return self._redactor.redact_text(f"http://{value}", self._replacements).removeprefix("http://")
        return self._redactor.redact_text(value, self._replacements)

    def _redact_metadata(self, text: str) -> str:
        try:
            document = loads(text)
        except ValueError:
            return self._replace_whole("unparsed", text)
        redacted_document = clean_document(document, self._redact_address)
        return dumps(self._redact_value(redacted_document)).decode()

    def _redact_other(self, values: dict[str, Any]) -> dict[str, Any]:
        """Redact a record whose texts are names and ids: replace only certain secrets."""
        return {
            name if name.isidentifier() else self._redact_text(name): self._redact_value(value)
            for name, value in values.items()
        }
