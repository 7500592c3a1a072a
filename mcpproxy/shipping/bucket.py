"""An object store as a destination: S3 and stores with the same protocol, Google Cloud Storage, Azure.

`obstore`, bindings of Rust's object_store, handles requests, retries and the search for credentials. Large files are
sent in parts, so memory does not grow with them. A put appears whole or not at all; the parts of a killed put stay
invisible in the store until its lifecycle rule deletes them.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mcpproxy.shipping.destination import (
    MAX_SMALL_FILE_BYTES,
    CannotShip,
    StoredContent,
    StoredObject,
    unusable_file_error,
)

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PART_BYTES: Final = 8 << 20
"""The size of a part, in bytes. S3 accepts 10,000 parts, so a file can be 80 GB large."""
MAX_PARTS_IN_FLIGHT: Final = 3
"""The maximum number of parts that are in flight, and so in memory."""
REQUEST_TIMEOUT: Final = timedelta(minutes=5)
"""The time limit of a request: enough for a part of 8 MiB at 30 kB/s."""
_RETRY_TIMEOUT: Final = timedelta(minutes=3)
_CHUNK_BYTES: Final = 1 << 20
_METADATA_ADDRESS: Final = "http://169.254.169.254"
"""The address from which machines of a cloud get credentials; it is tried last."""
_NO_CREDENTIALS: Final = "no credentials were found, neither in the environment nor in files; set them and try again"
_QUERY: Final = re.compile(r"\?[^\s\"')>]+")
_RETRY_PREFIX: Final = re.compile(r"^Generic .{1,20} error: .* after ([0-9]+) retries, .*? - ")
_CODE: Final = re.compile(r"<Code>([A-Za-z0-9]{1,64})</Code>")
_STATUS: Final = re.compile(r"status(?: code)?:? ([45][0-9]{2}[A-Za-z \t]{0,40})")
_CREDENTIAL_VARIABLES: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)


class MissingLibrary(CannotShip):
    """The extra `ship` is not installed."""


class Bucket:
    """A prefix of an object store."""

    def __init__(self, url: str) -> None:
        """Open the store, without a request.

        Raises:
            NoLibrary: `obstore` is not installed.
            CannotShip: the URL, or a setting of the environment, cannot be used.
        """
        try:
            import obstore
            from obstore import exceptions, store
        except ImportError as error:
            raise MissingLibrary(
                "an object store needs obstore, which is not installed; in your clone of mcpproxy, run: "
                "pip install '.[ship]'"
            ) from error
        self.display_name = url
        self._obstore = obstore
        self._exceptions = exceptions
        with self._translated_errors("use", ""):
            from_url: Any = store.from_url  # its overloads know no options that depend on the URL
            self._store: ObjectStore = from_url(
                url,
                client_options=_client_options(url),
                retry_config={"retry_timeout": _RETRY_TIMEOUT},
                **_credentials(url),
            )

    def close(self) -> None:
        """Do nothing: no connection stays open."""

    def put(self, name: str, file: Path) -> None:
        """Put a local file under a name, in parts if it is large."""
        with self._translated_errors("write", name):
            self._obstore.put(self._store, name, file, chunk_size=PART_BYTES, max_concurrency=MAX_PARTS_IN_FLIGHT)

    def write(self, name: str, data: bytes) -> None:
        """Put a small file under a name, in place of the file that has it."""
        with self._translated_errors("write", name):
            self._obstore.put(self._store, name, data, use_multipart=False)

    def replace(self, name: str, data: bytes, expected: StoredContent | None) -> bool:
        """Put a small file by a conditional request, if the name still has this content; returns whether it was put."""
        mode: Any = "create" if expected is None else expected.version
        with self._translated_errors("write", name):
            try:
                self._obstore.put(self._store, name, data, mode=mode, use_multipart=False)
            except (self._exceptions.AlreadyExistsError, self._exceptions.PreconditionError):
                # The response to an earlier attempt may have been lost.
                current = self.read(name)
                return current is not None and current.data == data
            return True

    def read(self, name: str) -> StoredContent | None:
        """Returns a small file, or None if there is no file of this name."""
        with self._translated_errors("read", name):
            try:
                response = self._obstore.get(self._store, name)
                if response.meta["size"] > MAX_SMALL_FILE_BYTES:
                    raise unusable_file_error(f"{self.display_name}/{name}", "larger than any manifest")
                version_fields = {"e_tag": response.meta["e_tag"], "version": response.meta["version"]}
                version = {name: value for name, value in version_fields.items() if value is not None}
                return StoredContent(bytes(response.bytes()), version)
            except (self._exceptions.NotFoundError, FileNotFoundError):
                return None

    def fetch(self, name: str, file: Path, size: int | None = None) -> bool:
        """Copy a file to a new local one, piece by piece; returns whether there is a file of this name and size.

        Args:
            name: the name of the file.
            file: the new local one.
            size: the size that it must have, in bytes; None for any size.
        """
        with self._translated_errors("read", name), file.open("wb") as target:
            try:
                response = self._obstore.get(self._store, name)
            except (self._exceptions.NotFoundError, FileNotFoundError):
                return False
            if size not in (None, response.meta["size"]):
                return False
            for chunk in response.stream(min_chunk_size=_CHUNK_BYTES):
                target.write(chunk)
            return True

    def read_start(self, name: str, count: int) -> bytes | None:
        """The first bytes of a file, by a range request, or None if there is no file of this name."""
        with self._translated_errors("read", name):
            try:
                return bytes(self._obstore.get_range(self._store, name, start=0, length=count))
            except (self._exceptions.NotFoundError, FileNotFoundError):
                return None

    def size(self, name: str) -> int | None:
        """The size of a file in bytes, or None if there is no file of this name."""
        with self._translated_errors("read", name):
            try:
                return self._obstore.head(self._store, name)["size"]
            except (self._exceptions.NotFoundError, FileNotFoundError):
                return None

    def entries(self, folder: str) -> Iterator[StoredObject]:
        """The files below a folder."""
        with self._translated_errors("list", folder):
            for page in self._obstore.list(self._store, folder, chunk_size=1000):
                for meta in page:
                    yield StoredObject(meta["path"], meta["size"], meta["last_modified"].timestamp(), meta["e_tag"])

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        with self._translated_errors("delete", name):
            try:
                self._obstore.delete(self._store, name)
            except (self._exceptions.NotFoundError, FileNotFoundError):
                return

    @contextmanager
    def _translated_errors(self, what: str, name: str) -> Iterator[None]:
        try:
            yield
        except (self._exceptions.BaseError, OSError, ValueError) as error:
            location = f"{self.display_name}/{name}" if name else self.display_name
            raise CannotShip(f"cannot {what} {location}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """What went wrong, in one line, without signed addresses and response bodies."""
    text = str(error)
    if _METADATA_ADDRESS in text:
        return _NO_CREDENTIALS
    if code := _CODE.search(text):
        return f"the store answered {code[1]}"
    if status := _STATUS.search(text):
        return f"the store answered {status[1]}"
    first_line = _RETRY_PREFIX.sub(r"no answer after \1 retries: ", text.partition("\n")[0]).removesuffix(":").strip()
    return _QUERY.sub("?…", first_line)[:300] or type(error).__name__


def _client_options(url: str) -> dict[str, Any]:
    options: dict[str, Any] = {"timeout": REQUEST_TIMEOUT}
    # An endpoint without TLS is named on purpose: a store on the same machine, or in a test.
    endpoints = [os.environ.get(name, "") for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")]
    if url.startswith("s3:") and next(filter(None, endpoints), "").startswith("http://"):
        options["allow_http"] = True
    return options


def _credentials(url: str) -> dict[str, Any]:
    """Returns options for boto3's search for credentials, which supports profiles and SSO.

    Returns no options if the environment has credentials, or boto3 is not installed.
    """
    if not url.startswith("s3:") or any(os.environ.get(name) for name in _CREDENTIAL_VARIABLES):
        return {}
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        if profile := os.environ.get("AWS_PROFILE"):
            raise CannotShip(
                f"cannot use the AWS profile {profile}: boto3 reads profiles, and is not installed: pip install boto3"
            ) from None
        return {}
    exceptions: Any = import_module("botocore.exceptions")
    try:
        return {"credential_provider": Boto3CredentialProvider()}
    except ValueError:
        raise CannotShip(f"cannot use {url}: {_NO_CREDENTIALS}") from None
    except exceptions.BotoCoreError as error:
        raise CannotShip(f"cannot use {url}: {error}") from None
