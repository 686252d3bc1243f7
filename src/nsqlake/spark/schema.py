"""The columns of a topic, for Spark and for Arrow; both must agree exactly, nullability included."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["arrow_schema", "spark_schema"]

_ARROW = {
    "body": pa.binary(),
    "id": pa.string(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "topic": pa.string(),
    "node": pa.string(),
}


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, _ARROW[name]) for name in columns])


def spark_schema(columns: Sequence[str]) -> "StructType":
    from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

    types = {"body": BinaryType(), "offset": LongType(), "timestamp": TimestampType()}
    return StructType([StructField(name, types.get(name, StringType())) for name in columns])
