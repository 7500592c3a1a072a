"""One Spark for all tests in this folder, with its executor in a separate process. Skips if Spark cannot run."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.harness import DEADLINE_S
from tests.mcpproxy.shipping import s3

JAVA = 17
QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Without these options, Java's second compiler takes half the time of a short run."""


def _missing() -> str | None:
    """What Spark needs and this machine lacks; None if nothing is missing."""
    for name in ("pyspark", "pyarrow"):
        if find_spec(name) is None:
            return f"{name} is not installed; `make test-spark` installs it"
    java = shutil.which("java")
    if java is None:
        return f"there is no java; Spark needs {JAVA} or newer"
    told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=DEADLINE_S).stderr
    version = re.search(r'version "(\d+)', told)
    if version is None or int(version[1]) < JAVA:
        return f"java is too old; Spark needs {JAVA} or newer"
    return None


@pytest.fixture(scope="session")
def able() -> None:
    """Skip the tests if Spark cannot run."""
    missing = _missing()
    if missing is not None:
        pytest.skip(missing)


@pytest.fixture(scope="session")
def store(able: None) -> Iterator[int | None]:
    """The port of an S3 server that every Spark process can reach; None if none is installed."""
    if not s3.PROGRAM.exists():
        yield None
        return
    with s3.server() as port:
        os.environ.update(s3.environment(port))
        try:
            yield port
        finally:
            for name in s3.environment(port):
                del os.environ[name]


@pytest.fixture(scope="session")
def scratch(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder for the temporary files of all Spark processes."""
    folder, before = tmp_path_factory.mktemp("scratch"), os.environ.get("TMPDIR")
    os.environ["TMPDIR"], tempfile.tempdir = str(folder), None
    try:
        yield folder
    finally:
        os.environ.pop("TMPDIR")
        if before is not None:
            os.environ["TMPDIR"] = before
        tempfile.tempdir = None


@pytest.fixture(scope="session")
def spark(store: int | None, scratch: Path) -> Iterator[Any]:
    from mcpproxy.spark import register
    from tests.spark.session import started

    # Compiling and planning a query takes longer than running it on a few rows; tests.bench.spark does both.
    plain = {"spark_sql_codegen_wholeStage": "false", "spark_sql_codegen_factoryMode": "NO_CODEGEN"}
    plain |= {"spark_sql_adaptive_enabled": "false", "spark_driver_extraJavaOptions": QUICK_JAVA}
    plain |= {"spark_executor_extraJavaOptions": QUICK_JAVA, "spark_python_daemon_module": "tests.spark.daemon"}
    with started("local-cluster[1,2,1024]", **plain) as session:
        register(session)
        yield session
