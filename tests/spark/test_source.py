"""The data source yields the rows of `query`, whatever the captures are."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import analysis
from analysis.store.tables import NAMES
from captures.listing import find_captures
from tests.harness import ROOT
from tests.spark.compare import rows_of_duckdb, sorted_rows

CORPUS = ROOT / "tests/corpus/captures"


def table(spark: Any, name: str, place: object) -> Any:
    return spark.read.format("mcpcap").option("table", name).load(str(place))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Whole and damaged captures, files that are none, and a copy of one in a subfolder."""
    place = tmp_path_factory.mktemp("corpus")
    for path in find_captures(CORPUS):
        shutil.copy(path, place)
    (place / "below").mkdir()
    shutil.copy(place / "good.mcpcap", place / "below/again.mcpcap")
    return place


@pytest.mark.parametrize("name", NAMES)
def test_every_table_has_the_rows_of_query(spark: Any, corpus: Path, name: str) -> None:
    with pytest.warns(UserWarning, match="cannot read|hold"), analysis.open(corpus, findings=True) as connection:
        expected = sorted_rows(rows_of_duckdb(connection, name))
    assert sorted_rows(table(spark, name, corpus).drop("day", "server_name").collect()) == expected
    assert expected
