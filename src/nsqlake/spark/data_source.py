"""The data source that Spark finds under the name `nsq`."""

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from nsqlake.spark.errors import OptionError
from nsqlake.spark.options import EXACTLY_ONCE, parse_columns, parse_read, parse_write
from nsqlake.spark.schema import spark_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from nsqlake.spark.batch_reader import NsqBatchReader
    from nsqlake.spark.batch_writer import NsqBatchWriter
    from nsqlake.spark.stream_reader import NsqStreamReader
    from nsqlake.spark.stream_writer import NsqStreamWriter

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

    def writer(self, schema: "StructType", overwrite: bool) -> "NsqBatchWriter":
        from nsqlake.spark.batch_writer import NsqBatchWriter
        from nsqlake.spark.logs import find_nodes

        if overwrite:
            raise OptionError("mode", "overwrite", "a topic can only be appended to: use mode append")
        options = parse_write(self.options)
        return NsqBatchWriter(options, find_nodes(options.access))

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "NsqStreamWriter":  # noqa: N802
        from nsqlake.spark.logs import find_nodes
        from nsqlake.spark.sink_nodes import fixed_nodes
        from nsqlake.spark.stream_writer import NsqStreamWriter

        if overwrite:
            raise OptionError("outputMode", "complete", "a topic can only be appended to: use append")
        options = parse_write(self.options)
        if options.delivery == EXACTLY_ONCE:
            return NsqStreamWriter(options, fixed_nodes(options.checkpoint, options.access))
        return NsqStreamWriter(options, find_nodes(options.access))
