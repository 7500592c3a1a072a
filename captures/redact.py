"""Redacts command-line words and environment values that could be secrets.

A redacted value becomes `hmac:` and 16 hexadecimal digits, a BLAKE2b hash under a key of this user. Equal secrets have
equal hashes in all captures of one user. The hashes mean nothing without the key, which is stored in the user's
configuration directory (0600) and never in a capture.

Only a few kinds of words are kept: argv[0], names of options, existing paths, the package that a known launcher runs,
and the parts of URLs that `captures.addresses` keeps. All others are redacted, as any word could be a password.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping

from captures.addresses import clean_address, escaped_text, is_web_address
from captures.file import make_directory
from captures.ownership import is_readable_by_others, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from captures.paths import PathLike

try:
    # hashlib would load OpenSSL for a hash that is built into CPython, which takes 4 ms of every start.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

KEY_BYTES: Final = 32
PREFIX: Final = "hmac:"

_LAUNCHERS: Final = {
    "npx": frozenset({"-y", "--yes", "-q", "--quiet"}),
    "bunx": frozenset(),
    "uvx": frozenset({"-q", "--quiet", "--isolated"}),
    "pipx": frozenset({"run", "-q", "--quiet"}),
    "pnpm": frozenset({"dlx", "exec"}),
    "yarn": frozenset({"dlx"}),
    "uv": frozenset({"run", "tool", "-q", "--quiet"}),
    "python": frozenset({"-m", "-u", "-P", "-I", "-E", "-s", "-B"}),
    "node": frozenset(),
    "bun": frozenset({"run"}),
    "deno": frozenset({"run", "-A"}),
    "docker": frozenset({"run", "-i", "--rm", "--init"}),
    "podman": frozenset({"run", "-i", "--rm", "--init"}),
}
"""Launcher → the options and subcommands, without values, that may precede the package."""

_GENERIC_NAMES: Final = frozenset({"server", "main", "index", "app", "__main__", "dist", "build", "src", "bin", "lib"})
"""Names of files and directories that do not identify a server, unlike their parent directory."""

_SCOPE_START_CHARS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_PACKAGE_CHARS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_EXTENSIONS: Final = (".py", ".js", ".mjs", ".cjs", ".ts")

# Regular expressions would be shorter, but add 6 ms to every start, as nothing else here loads `re`.


def _is_long_option(word: str) -> bool:
    name = word[2:]
    return word.startswith("--") and name[:1].isalpha() and _is_variable(name.replace("-", "_"))


def _is_variable(word: str) -> bool:
    return word.isascii() and word.isidentifier()


def _is_package(word: str) -> bool:
    """Whether a word is `name`, `@scope/name` or `image/name`, perhaps with extras and a version or tag."""
    scope, slash, remainder = word[1:].partition("/") if word.startswith("@") else ("a", "/", word)
    for mark in ("==", "@", ":"):
        name, separator, version = remainder.partition(mark)
        if separator:
            if not version or not _PACKAGE_CHARS.issuperset(version):
                return False
            remainder = name
            break
    if remainder.endswith("]"):
        remainder, _, extras = remainder[:-1].partition("[")
        if not extras or not (_PACKAGE_CHARS | {","}).issuperset(extras):
            return False
    parts = remainder.split("/")
    return (
        slash == "/"
        and scope[:1] in _SCOPE_START_CHARS
        and all(part and _PACKAGE_CHARS.issuperset(part) for part in (scope, *parts))
        and parts[0][0] not in "_.-"
    )


def load_key(directory: PathLike | None, warn: Callable[[str], None] = lambda _: None) -> bytes | None:
    """Returns this user's redaction key, created at first use, or None if it cannot be stored or must not be used.

    The key file is written under another name and then linked, so it is never incomplete, and two simultaneous first
    starts agree on one key. `warn` is called if the key is damaged, cannot be read, or may be known to or chosen by
    other users; of these keys, only a key that others may know is still used.
    """
    if directory is None:
        return None
    path = os.path.join(directory, "key")
    try:
        return _read_key(path, warn) or _create_key(path, warn)
    except _UnusableKeyError as error:
        warn(
            f"ignoring the redaction key {path}: it {error}; this capture uses a temporary key; "
            "delete that file to create a new permanent one"
        )
        return None
    except OSError:
        return None


class _UnusableKeyError(Exception):
    """The key is not used; the text is the reason, as the end of a sentence about the key."""


def _read_key(path: str, warn: Callable[[str], None]) -> bytes | None:
    try:
        # Links are followed, as the owner of the target decides.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:  # for example, a key that root created in this user's home
        raise _UnusableKeyError(f"cannot be read ({error.strerror})") from error
    try:
        status = os.fstat(fd)
        reason = refusal(status) or (None if stat.S_ISREG(status.st_mode) else "is not a regular file")
        if reason is not None:
            raise _UnusableKeyError(reason)
        key = os.read(fd, KEY_BYTES + 1)
    finally:
        os.close(fd)
    if len(key) != KEY_BYTES:
        raise _UnusableKeyError(f"is not {KEY_BYTES} bytes long")
    if is_readable_by_others(status):
        warn(f"others can read the redaction key {path} and guess what it hides; to prevent that: chmod 600 {path}")
    return key


def _create_key(path: str, warn: Callable[[str], None]) -> bytes | None:
    folder = os.path.dirname(path)
    _make_directory(folder)
    temporary_path = os.path.join(folder, f".key-{os.urandom(6).hex()}")
    fd = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(os.urandom(KEY_BYTES))
            file.flush()
            os.fsync(fd)  # a key truncated by a power cut would never become usable
        try:  # noqa: SIM105 - contextlib would have to be loaded
            os.link(temporary_path, path)
        except FileExistsError:
            pass
    finally:
        os.unlink(temporary_path)
    key = _read_key(path, warn)
    if key is None and os.path.islink(path):
        raise _UnusableKeyError("is a link to a file that does not exist")
    return key


def _make_directory(path: str) -> None:
    """Create a directory and its missing parents, all private: `os.makedirs` leaves the parents to the umask."""
    if not os.path.isdir(path):
        _make_directory(os.path.dirname(path))
        make_directory(path)


class Redactor:
    """Replaces possible secrets with keyed hashes; without a `key`, it uses a key for this start only.

    Hashes under such a key cannot be compared with any others.
    """

    def __init__(self, key: bytes | None, keep_path: Iterable[str] = ()) -> None:
        """Create a redactor; `keep_path` contains URL path segments that stay in plain text."""
        self._keep_path = frozenset(os.fsencode(segment) for segment in keep_path)
        self.is_key_permanent = key is not None
        self._key = key or os.urandom(KEY_BYTES)

    def hash_secret(self, secret: bytes) -> str:
        """Returns `hmac:` and the first 64 bits of the keyed hash of `secret`, in hexadecimal."""
        return PREFIX + blake2b(secret, key=self._key, digest_size=8).hexdigest()

    def redact_environment(self, variables: Mapping[bytes, bytes]) -> dict[str, str]:
        """Returns the names of all variables, with hashes of their values."""
        return {escaped_text(name): self.hash_secret(value) for name, value in variables.items()}

    def redact_command(self, argv: Iterable[bytes]) -> list[str]:
        """Returns the words of a command line, with possible secrets replaced."""
        words = list(argv)
        package = package_index(words)
        launcher_words = package or 0
        return [
            word if index <= launcher_words else self._redact_word(word)
            for index, word in enumerate(map(escaped_text, words))
        ]

    def _redact_word(self, word: str) -> str:
        raw = word.encode("utf-8", "surrogateescape")
        if word in ("", "-", "--") or _is_long_option(word) or (len(word) == 2 and word[0] == "-"):
            return word
        name, equals_sign, value = word.partition("=")
        if equals_sign and (_is_long_option(name) or _is_variable(name)):
            return f"{name}={self._redact_value(value)}"
        if word.startswith("-") and not word.startswith("--") and word[1].isalpha():
            return word[:2] + self.hash_secret(raw[2:])
        return self._redact_value(word)

    def _redact_value(self, value: str) -> str:
        if not value or os.path.lexists(value):
            return value
        raw = value.encode("utf-8", "surrogateescape")
        return clean_address(raw, self.hash_secret, self._keep_path) if is_web_address(raw) else self.hash_secret(raw)


def package_index(argv: list[bytes]) -> int | None:
    """Returns the index of the word that names the package, module, script or image that a known launcher runs.

    Returns None if that is uncertain.
    """
    launcher = os.path.basename(escaped_text(argv[0])).removesuffix(".exe") if argv else ""
    if launcher.startswith("python") and not launcher[6:].strip("0123456789."):
        launcher = "python"
    skipped_words = _LAUNCHERS.get(launcher)
    if skipped_words is None:
        return None
    for index, word in enumerate(map(escaped_text, argv[1:]), start=1):
        if word not in skipped_words:
            return index if _is_package(word) or os.path.lexists(word) else None
    return None


def server_name(argv: list[bytes]) -> str:
    """Returns a name for the server, guessed from words that are not secret: the package, the script or the command."""
    index = package_index(argv)
    words = [word for word in escaped_text(argv[index if index is not None else 0]).split("/") if word not in ("", ".")]
    while words:
        name = _without_version(words.pop())
        name = next((name.removesuffix(end) for end in _EXTENSIONS if name.endswith(end)), name)
        if name not in _GENERIC_NAMES or not words or words[-1] == "..":
            return name or "server"
    return "server"


def _without_version(name: str) -> str:
    """Returns a name up to the first `@`, `:` or `=` after its first character."""
    positions = [position for mark in "@:=" if (position := name.find(mark, 1)) > 0]
    return name[: min(positions, default=len(name))]
