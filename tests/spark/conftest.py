"""One Spark for all tests in this folder: two executors, each a process of its own. Skips where Spark cannot run."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

JAVA = 17


def _missing() -> str | None:
    """What Spark needs and this machine lacks."""
    for name in ("pyspark", "pyarrow"):
        if find_spec(name) is None:
            return f"{name} is not installed; `make test-spark` installs it"
    java = shutil.which("java")
    if java is None:
        return f"there is no java; Spark needs {JAVA} or newer"
    told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
    version = re.search(r'version "(\d+)', told)
    if version is None or int(version[1]) < JAVA:
        return f"java is too old; Spark needs {JAVA} or newer"
    return None


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    missing = _missing()
    if missing is not None:
        pytest.skip(missing)
    from mcpproxy.spark import register
    from tests.spark.session import started

    with started("local-cluster[2,1,1024]") as session:
        register(session)
        yield session
