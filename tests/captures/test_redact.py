"""Possible secrets are replaced, equal secrets stay equal, and the key stays with its user."""

import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.redact import KEY_BYTES, Redactor, load_key, package_index, server_name
from tests.captures.samples import STRANGER, give_to_strangers
from tests.examples import examples

CANARY = "s3cret-c4nary"
HASH = r"hmac:[0-9a-f]{16}"


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def ignored(folder: Path, why: str) -> str:
    """The warning about a key that is not used."""
    return (
        f"ignoring the redaction key {folder}/key: it {why}; this capture uses a temporary key; "
        "delete that file to create a new permanent one"
    )


class TestKey:
    """Each user has one permanent key that only that user can read."""

    @pytest.mark.usefixtures("no_umask")
    def test_it_is_made_once_and_private_with_all_its_directories(self, tmp_path: Path) -> None:
        folder = tmp_path / "config/mcpproxy"
        key = load_key(folder)
        assert key is not None
        assert len(key) == KEY_BYTES
        assert load_key(folder) == key
        assert [path.name for path in folder.iterdir()] == ["key"]
        assert [mode(path) for path in (folder.parent, folder, folder / "key")] == [0o700, 0o700, 0o600]

    def test_it_is_synced_before_it_gets_its_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """After a power cut, half a key would be no key for ever."""
        synced_sizes: list[int] = []

        def sync(fd: int) -> None:
            assert not (tmp_path / "key").exists()
            synced_sizes.append(os.fstat(fd).st_size)

        monkeypatch.setattr(os, "fsync", sync)
        assert load_key(tmp_path) is not None
        assert synced_sizes == [KEY_BYTES]

    def test_two_first_starts_agree(self, tmp_path: Path) -> None:
        for number in range(30):
            keys: list[bytes | None] = []
            start = threading.Barrier(8)

            def load(folder: Path, keys: list[bytes | None], start: threading.Barrier) -> None:
                start.wait()
                keys.append(load_key(folder))

            arguments = (tmp_path / f"{number}", keys, start)
            threads = [threading.Thread(target=load, args=arguments) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(set(keys)) == 1
            assert keys[0] is not None
            assert [path.name for path in (tmp_path / f"{number}").iterdir()] == ["key"]

    def test_where_none_can_be_kept_there_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        assert load_key(None) is None
        assert load_key(tmp_path / "file/mcpproxy") is None

    @pytest.mark.parametrize("content", [b"", b"short", b"x" * (KEY_BYTES + 1)])
    def test_what_is_no_key_is_neither_used_nor_replaced(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "key").write_bytes(content)
        (tmp_path / "key").chmod(0o600)
        said: list[str] = []
        assert load_key(tmp_path, said.append) is None
        assert (tmp_path / "key").read_bytes() == content
        assert said == [ignored(tmp_path, f"is not {KEY_BYTES} bytes long")]

    @pytest.mark.parametrize("make", [lambda path: os.mkfifo(path, 0o600), lambda path: path.mkdir(0o700)])
    def test_what_is_no_file_is_told_and_not_waited_for(self, tmp_path: Path, make: Callable[[Path], None]) -> None:
        make(tmp_path / "key")
        said: list[str] = []
        opened = len(os.listdir("/dev/fd"))
        assert load_key(tmp_path, said.append) is None
        assert len(os.listdir("/dev/fd")) == opened
        assert said == [ignored(tmp_path, "is not a regular file")]

    def test_a_key_that_cannot_be_opened_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "key").symlink_to("key")
        said: list[str] = []
        assert load_key(tmp_path, said.append) is None
        assert said == [ignored(tmp_path, "cannot be read (Too many levels of symbolic links)")]

    def test_a_link_that_leads_nowhere_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "key").symlink_to("nowhere")
        said: list[str] = []
        assert load_key(tmp_path, said.append) is None
        assert said == [ignored(tmp_path, "is a link to a file that does not exist")]
        assert [path.name for path in tmp_path.iterdir()] == ["key"]

    def test_a_link_to_a_key_of_ones_own_is_followed(self, tmp_path: Path) -> None:
        folder = tmp_path / "config"
        folder.mkdir()
        (tmp_path / "elsewhere").write_bytes(b"x" * KEY_BYTES)
        (tmp_path / "elsewhere").chmod(0o600)
        (folder / "key").symlink_to(tmp_path / "elsewhere")
        assert load_key(folder, pytest.fail) == b"x" * KEY_BYTES

    @pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
    @pytest.mark.parametrize("name", ["key", "elsewhere"], ids=["itself", "by a link"])
    def test_a_key_of_another_user_is_not_used(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(b"x" * KEY_BYTES)
        (tmp_path / name).chmod(0o600)
        os.chown(tmp_path / name, STRANGER, -1)
        if name != "key":
            (tmp_path / "key").symlink_to(tmp_path / name)
        said: list[str] = []
        assert load_key(tmp_path, said.append) is None
        why = f"the redaction key {tmp_path}/key: it belongs to user {STRANGER}"
        hint = "this capture uses a temporary key; delete that file to create a new permanent one"
        assert said == [f"ignoring {why}; {hint}"]

    @pytest.mark.parametrize("others", [0o002, 0o020, 0o022])
    def test_a_key_that_others_can_write_is_not_used(self, tmp_path: Path, others: int) -> None:
        (tmp_path / "key").write_bytes(b"x" * KEY_BYTES)
        give_to_strangers(tmp_path / "key", 0o600 | others)
        said: list[str] = []
        assert load_key(tmp_path, said.append) is None
        assert f"is writable by others (mode {0o600 | others:o})" in "".join(said)

    def test_a_key_that_others_can_read_is_used_with_a_warning(self, tmp_path: Path) -> None:
        (tmp_path / "key").write_bytes(b"x" * KEY_BYTES)
        (tmp_path / "key").chmod(0o604)
        said: list[str] = []
        assert load_key(tmp_path, said.append) == b"x" * KEY_BYTES
        key = f"{tmp_path}/key"
        assert said == [
            f"others can read the redaction key {key} and guess what it hides; to prevent that: chmod 600 {key}"
        ]

    def test_without_a_lasting_key_nothing_can_be_compared(self) -> None:
        one, two = Redactor(None), Redactor(None)
        assert not one.is_key_permanent
        assert one.hash_secret(b"x") == one.hash_secret(b"x") != two.hash_secret(b"x")
        assert Redactor(b"k" * 32).hash_secret(b"x") == Redactor(b"k" * 32).hash_secret(b"x")


class TestEnvironment:
    """Environment: names stay, all values are removed."""

    @given(st.dictionaries(st.binary(min_size=1), st.binary()))
    def test_no_value_is_left(self, variables: dict[bytes, bytes]) -> None:
        found = Redactor(b"k" * 32).redact_environment(variables)
        assert all(re.fullmatch(HASH, value) for value in found.values())
        assert len(found) <= len(variables)

    def test_equal_values_stay_equal(self) -> None:
        found = Redactor(b"k" * 32).redact_environment({b"A": b"1", b"B": b"1", b"C": b"2"})
        assert found["A"] == found["B"] != found["C"]


class TestCommand:
    """argv[0], option names, existing paths and the package that is run stay; everything else is removed."""

    @pytest.mark.parametrize(
        ("command", "kept"),
        [
            ("server --token SECRET", "server --token #"),
            ("server --token=SECRET", "server --token=#"),
            ("server -tSECRET -t SECRET", "server -t# -t #"),
            ("server KEY=SECRET key:SECRET", "server KEY=# #"),
            ("server https://u:SECRET@h/?k=SECRET", "server https://#@h/?k=#"),
            ("server -- - -v --verbose --no-color", "server -- - -v --verbose --no-color"),
            ("server --a=b=SECRET ==SECRET", "server --a=# #"),
            ("server -1SECRET ---SECRET --9SECRET", "server # # #"),
            ("server / --root=/ ROOT=/ -C/", "server / --root=/ ROOT=/ -C#"),
            ("npx -y @scope/files@1.2 SECRET", "npx -y @scope/files@1.2 #"),
            ("npx mcp-remote https://h/SECRET --header Authorization:SECRET", "npx mcp-remote https://h/# --header #"),
            ("npx --call SECRET files", "npx --call # #"),
            ("uvx --from git+https://SECRET@h/r files", "uvx --from # #"),
            ("uvx files[cli]==1.0 SECRET", "uvx files[cli]==1.0 #"),
            ("uvx https://SECRET@h/files.whl", "uvx https://#@h/#"),
            ("server --url=https://h/s/SECRET/mcp URL=wss://h/sse", "server --url=https://h/#/#/mcp URL=wss://h/sse"),
            ("server postgres://u:SECRET@h/db", "server #"),
            ("/usr/bin/python3.12 -u -m files.server SECRET", "/usr/bin/python3.12 -u -m files.server #"),
            ("python -c SECRET", "python -c #"),
            ("docker run -i --rm -e TOKEN=SECRET mcp/files", "docker # -i --rm -e TOKEN=# #"),
            ("docker run -i --rm mcp/files:1 SECRET", "docker run -i --rm mcp/files:1 #"),
            ("env TOKEN=SECRET server SECRET", "env TOKEN=# # #"),
        ],
    )
    def test_examples(self, command: str, kept: str) -> None:
        words = [word.replace("SECRET", CANARY).encode() for word in command.split()]
        found = Redactor(b"k" * 32).redact_command(words)
        assert [re.sub(HASH, "#", word) for word in found] == kept.split()

    @given(
        st.sampled_from(["server", "npx", "uvx", "python", "node", "docker", "env", "sh"]),
        st.lists(
            st.sampled_from(["-y", "-m", "-e", "--header", "-c", "--from", "files", "run", "--", "-p", "--k=v"]),
            max_size=4,
        ),
        st.sampled_from(
            ["{}", "--token={}", "-p{}", "KEY={}", "https://u:{}@h/", "Bearer {}", '{{"k":"{}"}}', "\n{}", "é{}"]
        ),
        st.lists(st.sampled_from(["files", "--x", "/"]), max_size=2),
    )
    @examples(40)
    def test_no_canary_survives(self, command: str, before: list[str], shape: str, after: list[str]) -> None:
        """The word `first` comes before the canary, as the first bare word after a known launcher stays."""
        argv = [os.fsencode(word) for word in (command, "first", *before, shape.format(CANARY), *after)]
        assert CANARY not in " ".join(Redactor(b"k" * 32).redact_command(argv))

    @given(st.lists(st.binary(min_size=1).filter(lambda word: b"\0" not in word), min_size=1))
    def test_any_words_are_text_afterwards(self, argv: list[bytes]) -> None:
        assert [word.encode() for word in Redactor(None).redact_command(argv)]
        assert server_name(argv)

    def test_equal_words_stay_equal(self) -> None:
        _, one, two, three = Redactor(b"k" * 32).redact_command([b"server", b"a-word", b"a-word", b"b-word"])
        assert one == two != three


@pytest.mark.parametrize(
    ("command", "index"),
    [
        ("npx files", 1),
        ("npx -y -q files", 3),
        ("npx --package x files", None),
        ("python3 -m files", 2),
        ("python -c x", None),
        ("node", None),
        ("server files", None),
        ("docker.exe run -i image", 3),
    ],
)
def test_the_package_is_known_only_where_it_is_certain(command: str, index: int | None) -> None:
    assert package_index([word.encode() for word in command.split()]) == index
