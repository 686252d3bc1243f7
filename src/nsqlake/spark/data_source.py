"""The data source that Spark finds under the name `nsq`."""

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from nsqlake.spark.options import parse_columns, parse_read
from nsqlake.spark.schema import spark_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from nsqlake.spark.batch_reader import NsqBatchReader
    from nsqlake.spark.stream_reader import NsqStreamReader

__all__ = ["NsqDataSource"]


class NsqDataSource(DataSource):
    """Only hands the options on: Spark makes one for every query, in several processes."""

    options: MutableMapping[str, str]

    @classmethod
    def name(cls) -> str:
        return "nsq"

    def schema(self) -> "StructType":
        return spark_schema(parse_columns(self.options))

    def reader(self, schema: "StructType") -> "NsqBatchReader":
        from nsqlake.spark.batch_reader import NsqBatchReader

        return NsqBatchReader(parse_read(self.options, streaming=False))

    def streamReader(self, schema: "StructType") -> "NsqStreamReader":  # noqa: N802 - Spark's name
        from nsqlake.spark.stream_reader import NsqStreamReader

        return NsqStreamReader(parse_read(self.options, streaming=True))
