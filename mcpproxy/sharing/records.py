"""Redacts the records of a capture that are not frames: the header, HTTP heads and addresses, everything else.

Their values are hashes already where the recorder met a secret (FORMAT.md, Privacy), but hashes by the user's lasting
key, with which two shares could be compared; so they are hashed again. Names of environment variables,
the directory and the parent processes are dropped; of the command, the launcher, the package and the names of options
stay.
"""

import re
from typing import Any, Final

from orjson import dumps, loads

from captures.addresses import clean_address
from captures.redact import PREFIX, package_index
from mcpproxy import __version__
from mcpproxy.recorder.header_redaction import FieldRedactor, clean_document
from mcpproxy.sharing.kingfisher import Secret
from mcpproxy.sharing.redaction import Redactor, Replacement
from mcpproxy.sharing.word_lists import LAUNCHERS

_MAX_RECORD_DEPTH: Final = 50
"""Levels of values in a record that are copied."""
_HASH: Final = re.compile(rf"{PREFIX}[0-9a-f]{{16}}")
_OPTION: Final = re.compile(r"--?[A-Za-z][A-Za-z0-9-]*")
_ODD_IN_ADDRESS: Final = re.compile(rb"[\x00-\x20\"<>{}\\^`|]").search
"""Characters that make an address invalid, and must stay."""
_IDS: Final = frozenset({"mcp-session-id", "last-event-id"})
"""They pair exchanges; a recorder has hashed the first already."""
_ADDRESS_MEMBERS: Final = frozenset({"upstream", "public", "via"})
_OAUTH_ADDRESSES: Final = frozenset({"error_uri", "resource", "iss", "as_server", "redirect_uri"})
_FIXED: Final = frozenset({"seq", "rec", "t_ns", "crc"})
KNOWN_TYPES: Final = frozenset(
    {"header", "frame", "part", "exchange", "stream", "eof", "stderr", "process", "signal", "stall", "gap", "close"}
)
"""The types of records that this version knows; a record of any other type can hold anything."""
REDACTIONS: Final = ("argv", "env", "cwd", "parents", "headers", "path", "query", "bodies", "stderr")


class RecordRedactor:
    """Redacts records for one share."""

    def __init__(self, redactor: Redactor, machine: tuple[str, bool] | None = None) -> None:
        """Create a redactor.

        Args:
            redactor: redacts texts.
            machine: the name for the machine in headers, and whether a user chose it; None if a chosen name stays and a
                host name is replaced.
        """
        self._redactor = redactor
        self._machine = machine
        self.keeps_bodies = redactor.bodies
        self._made: list[Replacement] = []
        self._heads = FieldRedactor(self._hash, self._clean)

    def members(self, values: dict[str, Any], made: list[Replacement]) -> dict[str, Any]:
        """The members of a record to share, without number, type, stamp and checksum."""
        self._made = made
        own = {name: value for name, value in values.items() if name not in _FIXED}
        if values["rec"] not in KNOWN_TYPES and not self.keeps_bodies:
            return {self._text(name): self._body(value) for name, value in own.items()}
        handle = {"header": self._header, "exchange": self._exchange}.get(values["rec"], self._other)
        return handle(own)

    def text(self, text: str, made: list[Replacement]) -> str:
        """A text of a record, such as the id of an event."""
        self._made = made
        return self._text(text)

    # --- pseudonyms

    def _hash(self, secret: bytes) -> str:
        text = secret.decode("utf-8", "surrogateescape")
        pseudonym = self._redactor.pseudonyms.tag(text)
        if not _HASH.fullmatch(text):
            self._made.append(Replacement("http", text, pseudonym, None))
        return pseudonym

    def _clean(self, address: bytes) -> str:
        """An address with its host, and everything that a recorder hashes, replaced."""
        cleaned = self._text(clean_address(address, self._hash))
        return cleaned + " " if _ODD_IN_ADDRESS(address) else cleaned

    def _text(self, text: str) -> str:
        """Any text: hashes are hashed again, secrets replaced."""
        renewed = _HASH.sub(lambda match: self._redactor.pseudonyms.tag(match[0]), text)
        return self._redactor.text(renewed, self._made)

    def _value(self, value: Any, depth: int = 0) -> Any:
        """Any value of a record."""
        if isinstance(value, str):
            return self._text(value)
        if depth > _MAX_RECORD_DEPTH:
            return None
        if isinstance(value, list):
            return [self._value(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {self._text(str(name)): self._value(item, depth + 1) for name, item in value.items()}
        return value

    def _body(self, value: Any, depth: int = 0) -> Any:
        """Any value with all texts and numbers in it replaced, regardless of what they look like."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._all("body", value)
        if depth > _MAX_RECORD_DEPTH:
            return None
        if isinstance(value, list):
            return [self._body(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {self._text(str(name)): self._body(item, depth + 1) for name, item in value.items()}
        self._made.append(Replacement("body", str(value), "0", None))
        return type(value)()

    # --- records

    def _header(self, own: dict[str, Any]) -> dict[str, Any]:
        make = self._redactor.pseudonyms
        changed: dict[str, Any] = {}
        for name, value in own.items():
            if (name == "capture" and isinstance(value, str)) or (name == "boot_id" and isinstance(value, str)):
                changed[name] = make.identifier(value)
            elif name == "argv" and isinstance(value, list):
                changed[name] = self._command([str(word) for word in value])
            elif name == "env" and isinstance(value, dict):
                changed[name] = {
                    self._all("environment", str(key)): self._hash(str(of).encode()) for key, of in value.items()
                }
            elif name == "cwd" and isinstance(value, str):
                changed[name] = self._all("directory", value)
            elif name == "parents" and isinstance(value, list):
                changed[name] = [self._parent(parent) for parent in value if isinstance(parent, dict)]
            elif name == "name" and isinstance(value, str):
                changed[name] = self._redactor.label(value, self._made)
            elif name in _ADDRESS_MEMBERS and isinstance(value, str):
                changed[name] = self._clean(value.encode("utf-8", "surrogateescape"))
            elif name == "machine" and isinstance(value, str):
                changed[name] = value if own.get("machine_chosen") is True else self._all("host", value)
            elif name in ("redactions", "opt_outs", "tool", "transport"):
                changed[name] = value
            else:
                changed[name] = self._value(value)
        if self._machine is not None:
            changed["machine"], is_chosen = self._machine
            changed |= {"machine_chosen": True} if is_chosen else {}
        known = changed.get("redactions")
        known = [str(word) for word in known if word != "key-not-kept"] if isinstance(known, list) else []
        changed["redactions"] = list(dict.fromkeys([*known, *REDACTIONS, "key-not-kept"]))
        changed["redacted_by"] = f"mcpproxy {__version__}"
        return changed

    def _all(self, kind: str, text: str) -> str:
        return self._redactor.replaced(text, [Secret(0, len(text), kind)], self._made)

    def _parent(self, parent: dict[str, Any]) -> dict[str, Any]:
        return {
            name: self._all("process", value) if isinstance(value, str) else value for name, value in parent.items()
        }

    def _command(self, argv: list[str]) -> list[str]:
        package = package_index([word.encode("utf-8", "surrogateescape") for word in argv])
        return [self._word(word, index, package) for index, word in enumerate(argv)]

    def _word(self, word: str, index: int, package: int | None) -> str:
        if _HASH.fullmatch(word):
            return self._redactor.pseudonyms.tag(word)
        if index == 0:
            name = word.replace("\\", "/").rpartition("/")[2]
            return name if re.sub(r"[0-9.]+$|\.exe$", "", name) in LAUNCHERS else self._all("command", word)
        is_path = "/" in word and not word.startswith("@")
        if package is not None and index <= package and not (index == package and (is_path or "\\" in word)):
            return word
        name, equals, _ = word.partition("=")
        if word in ("", "-", "--") or _OPTION.fullmatch(word):
            return word
        if equals and _OPTION.fullmatch(name):
            return f"{name}={self._all('command', word[len(name) + 1 :])}"
        return self._all("command", word)

    def _exchange(self, own: dict[str, Any]) -> dict[str, Any]:
        changed = dict(own)
        for side in ("request", "response"):
            if isinstance(own.get(side), dict):
                changed[side] = self._head(own[side])
        if isinstance(own.get("metadata"), str):
            changed["metadata"] = self._metadata(own["metadata"])
        if isinstance(own.get("endpoints"), list):
            changed["endpoints"] = [self._clean(str(address).encode()) for address in own["endpoints"]]
        if isinstance(own.get("rewritten"), dict):
            changed["rewritten"] = {
                self._text(str(place)): self._clean(str(address).encode("utf-8", "surrogateescape"))
                for place, address in own["rewritten"].items()
            }
        if isinstance(own.get("uri_key"), str):
            changed["uri_key"] = self._redactor.pseudonyms.tag(own["uri_key"])
        if isinstance(own.get("oauth"), dict):
            changed["oauth"] = self._oauth(own["oauth"])
        if isinstance(own.get("body_hash"), dict):
            # The original hash could be used to test guesses at a short body.
            changed["body_hash"] = {side: self._body_hash(value) for side, value in own["body_hash"].items()}
        # Members of an unexpected type are still unchanged.
        return {name: self._value(value) if value is own[name] else value for name, value in changed.items()}

    def _oauth(self, facts: dict[str, Any]) -> dict[str, Any]:
        """What is known of a leg of an authorization: its addresses are those of clients and servers."""
        return {
            self._text(str(name)): self._clean(value.encode("utf-8", "surrogateescape"))
            if isinstance(value, str) and (name in _OAUTH_ADDRESSES or "://" in value)
            else self._value(value)
            for name, value in facts.items()
        }

    def _body_hash(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return None
        make = self._redactor.pseudonyms
        return {name: make.identifier(of) if isinstance(of, str) else of for name, of in value.items()}

    def _head(self, head: dict[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        for name, value in head.items():
            if name == "target" and isinstance(value, str):
                changed[name] = self._clean(value.encode("utf-8", "surrogateescape"))
            elif name == "headers" and isinstance(value, list):
                changed[name] = self._fields(value)
            else:
                changed[name] = self._value(value)
        return changed

    def _fields(self, fields: list[Any]) -> list[Any]:
        pairs = [
            (str(field[0]).encode("utf-8", "surrogateescape"), str(field[1]).encode("utf-8", "surrogateescape"))
            for field in fields
            if isinstance(field, list) and len(field) == 2
        ]
        return [
            [name, self._field(name.lower(), value, before.decode("utf-8", "surrogateescape"))]
            for (name, value), (_, before) in zip(loads(self._heads(pairs)), pairs, strict=True)
        ]

    def _field(self, name: str, value: str, before: str) -> str:
        if name in _IDS:
            return self._text(before)
        if name == "host":
            return self._redactor.text(f"http://{value}", self._made).removeprefix("http://")
        return self._redactor.text(value, self._made)

    def _metadata(self, text: str) -> str:
        try:
            document = loads(text)
        except ValueError:
            return self._all("unparsed", text)
        cleaned = clean_document(document, self._clean)
        return dumps(self._value(cleaned)).decode()

    def _other(self, own: dict[str, Any]) -> dict[str, Any]:
        """A record whose texts are names and ids: only what is certainly a secret is replaced."""
        return {name if name.isidentifier() else self._text(name): self._value(value) for name, value in own.items()}
