"""Finds logins in the notations of programs: `.netrc`, Oracle's `user/password@`, and passwords in command options.

The time is linear in the text.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from mcpproxy.sharing.placeholders import is_placeholder
from mcpproxy.sharing.word_lists import PROSE_WORDS

_NETRC: Final = re.compile(
    r"(?<![\w.-])(?:machine\s{1,9}+(?P<host>[\w.:-]{1,255}+)|default)"
    r"(?P<words>(?:\s{1,9}+(?:login|account|password)\s{1,9}+[^\s\"'\x1f]{1,256}+){1,3}+)"
)
_NETRC_WORD: Final = re.compile(r"\s(?P<name>login|account|password)\s++(?P<value>\S++)")
_ORACLE: Final = re.compile(
    r"(?:jdbc:oracle:[a-z0-9]{2,8}:|(?<![\w.-])(?:sqlplus|sqlldr|expdp|impdp|rman)[ \t]{1,4}+"
    r"(?:-[A-Za-z]{1,8}[ \t]{1,4}+)?+)"
    r"(?:(?P<user>[^\s/@:\"'\\\x1f]{1,128}+)/(?:\\?\"(?P<quoted>[^\"\n\\]{1,128}+)\\?\"|(?P<bare>[^\s@\"'\\\x1f]{1,128}+))(?=@))?+"
    r"@(?://)?+(?P<host>[\w.-]{1,255}+)?+"
)
_SEPARATOR: Final = r"(?:\"?[ \t]{1,9}+|[\"'],[ \t]{0,4}+[\"']|\"\x1f\n(?:[^=\"\n]{0,60}+=\")?+)"
"""Separates the words of a command, which may also be items of a JSON list or values of a document."""
_WORD: Final = r"(?:'(?!,)[^'\n]{0,200}+'|\"(?!,)[^\"\n\x1f]{0,200}+\"|[^\s'\"|;&<>`\x1f]{1,300}+){1,4}+"
_COMMAND: Final = re.compile(
    r"(?<![\w.-])(?P<program>mysql(?:dump|admin|import|check|show|slap|binlog|pump|sh)?"
    r"|mariadb(?:-dump|-admin|-import|-check|-show|-slap|-binlog)?|mycli|sshpass|redis-cli|sqlcmd|mongosh|mongodump"
    rf"|mongorestore)(?:\.exe)?(?P<words>(?:{_SEPARATOR}{_WORD}){{1,40}}+)"
)
_VALUE: Final = (
    r"['\"]?(?P<value>(?<=')[^'\n]{1,200}+(?=')|(?<=\")[^\"\n\x1f]{1,200}+(?=\")|[^\s'\"|;&<>`\x1f]{1,200}+)"
)
_ATTACHED_PASSWORD: Final = re.compile(rf"(?<=[ \t\"'])-p{_VALUE}")
_SEPARATE_PASSWORD: Final = {
    "sshpass": re.compile(rf"(?<=[ \t\"'])-p(?:{_SEPARATOR})?+{_VALUE}"),
    "redis-cli": re.compile(rf"(?<=[ \t\"'])(?:-a|--pass){_SEPARATOR}{_VALUE}"),
    "sqlcmd": re.compile(rf"(?<=[ \t\"'])-P(?:{_SEPARATOR})?+{_VALUE}"),
    "mongo": re.compile(rf"(?<=[ \t\"'])(?:-p|--password){_SEPARATOR}{_VALUE}"),
}
"""The options of programs that accept a password as a separate word. All other programs have MySQL's options."""
_PORTS: Final = re.compile(r"[0-9.:]{1,40}(?:/tcp|/udp)?").fullmatch
"""Matches what follows `-p` if `mysql` is the name of a container: `-p3306:3306`."""


_COMMAND_MARKS: Final = ("mysql", "mariadb", "mycli", "sshpass", "redis-cli", "sqlcmd", "mongo")
_ORACLE_MARKS: Final = ("jdbc:oracle:", "sqlplus", "sqlldr", "expdp", "impdp", "rman ")


class LoginPart(NamedTuple):
    """A part of a login."""

    start: int
    end: int
    kind: str
    """`login` for a password, `login-user` or `host`."""


def login_parts(text: str) -> Iterator[LoginPart]:
    """Yields the parts of the logins in a text, and the hosts in Oracle addresses without a login."""
    if "password" in text and ("machine" in text or "default" in text):
        yield from _netrc_parts(text)
    if any(mark in text for mark in _ORACLE_MARKS):
        yield from _oracle_parts(text)
    if any(mark in text for mark in _COMMAND_MARKS):
        for command in _COMMAND.finditer(text):
            yield from _command_parts(command)


def _netrc_parts(text: str) -> Iterator[LoginPart]:
    for entry in _NETRC.finditer(text):
        words = {word["name"]: word for word in _NETRC_WORD.finditer(text, *entry.span("words"))}
        password, user = words.get("password"), words.get("login")
        is_prose = user is not None and user["value"] in PROSE_WORDS
        if password is None or is_prose or password["value"] in PROSE_WORDS or is_placeholder(password["value"]):
            continue
        yield LoginPart(*password.span("value"), "login")
        if user:
            yield LoginPart(*user.span("value"), "login-user")
        if entry["host"]:
            yield LoginPart(*entry.span("host"), "host")


def _oracle_parts(text: str) -> Iterator[LoginPart]:
    for match in _ORACLE.finditer(text):
        group = "quoted" if match["quoted"] else "bare"
        if match[group] and not is_placeholder(match[group]):
            yield LoginPart(*match.span(group), "login")
            yield LoginPart(*match.span("user"), "login-user")
        if match["host"]:
            yield LoginPart(*match.span("host"), "host")


def _command_parts(command: re.Match[str]) -> Iterator[LoginPart]:
    program = command["program"]
    pattern = _SEPARATE_PASSWORD.get("mongo" if program.startswith("mongo") else program, _ATTACHED_PASSWORD)
    for option in pattern.finditer(command.string, *command.span("words")):
        value = option["value"]
        if not is_placeholder(value) and value[0] not in "$%`\\" and not _PORTS(value):
            yield LoginPart(*option.span("value"), "login")
