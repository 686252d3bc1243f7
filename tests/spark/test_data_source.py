"""What Spark finds under the name `nsq`, as far as it can be seen without a session."""

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

import nsqlake.spark
import pyspark_nsq
from nsqlake.spark import NsqDataSource, build_session
from nsqlake.spark.errors import OptionError
from nsqlake.spark.options import COLUMNS
from nsqlake.spark.schema import arrow_schema, spark_schema
from nsqlake.spark.session import session_settings


def test_these_names_are_offered() -> None:
    assert nsqlake.spark.__all__ == ["NsqDataSource", "build_session"]
    assert pyspark_nsq.DefaultSource is NsqDataSource
    assert NsqDataSource.name() == "nsq"
    assert callable(build_session)


@pytest.mark.parametrize("columns", [COLUMNS, ("offset", "body"), ("timestamp",)])
def test_batches_have_exactly_the_schema_that_spark_expects(columns: tuple[str, ...]) -> None:
    """It compares types, names, order and nullability, and refuses batches that differ in anything."""
    expected = to_arrow_schema(spark_schema(columns), timezone="UTC")

    assert arrow_schema(columns).equals(expected)
    assert [field.nullable for field in arrow_schema(columns)] == [field.nullable for field in expected]


def test_options_are_checked_when_a_reader_is_made() -> None:
    source = NsqDataSource({"nsqd": "n", "topic": "t", "columns": "body"})

    assert source.reader(source.schema()) is not None
    assert source.streamReader(source.schema()) is not None
    with pytest.raises(OptionError, match="option columns 'x': is not known"):
        NsqDataSource({"columns": "x"}).schema()
    with pytest.raises(OptionError, match="option schema 'struct<value:string>'"):
        source.reader(StructType([StructField("value", StringType())]))


def test_a_session_on_this_machine_stays_on_it() -> None:
    for master in ("local[2]", "local", "spark://127.0.0.1:7077", "spark://localhost:7077"):
        assert session_settings(master)["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in session_settings("spark://cluster:7077")


def test_settings_of_the_caller_win() -> None:
    assert session_settings("local", {"spark.ui.enabled": "true"})["spark.ui.enabled"] == "true"
    assert session_settings("local")["spark.ui.enabled"] == "false"
