"""The data source that Spark finds under the name `nsq`."""

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from nsqlake.spark.errors import OptionError
from nsqlake.spark.options import (
    EXACTLY_ONCE,
    ReadOptions,
    WriteOptions,
    parse_columns,
    parse_read,
    parse_write,
)
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

        return NsqBatchReader(self._read_options(schema, streaming=False))

    def streamReader(self, schema: "StructType") -> "NsqStreamReader":  # noqa: N802 - Spark's name
        from nsqlake.spark.stream_reader import NsqStreamReader

        return NsqStreamReader(self._read_options(schema, streaming=True))

    def _read_options(self, schema: "StructType", *, streaming: bool) -> ReadOptions:
        if schema != self.schema():
            reason = f"the columns are {self.schema().simpleString()}; choose among them with option columns"
            raise OptionError("schema", schema.simpleString(), reason)
        options = parse_read(self.options, streaming=streaming)
        if options.mode != "log":
            raise OptionError("mode", options.mode, "is not there yet")
        return options

    def writer(self, schema: "StructType", overwrite: bool) -> "NsqBatchWriter":
        from nsqlake.spark.batch_writer import NsqBatchWriter
        from nsqlake.spark.nodes import find_nodes

        if overwrite:
            raise OptionError("mode", "overwrite", "a topic can only be appended to: use append")
        options = parse_write(self.options, streaming=False)
        _check_columns(schema, options)
        return NsqBatchWriter(options, find_nodes(options.access))

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "NsqStreamWriter":  # noqa: N802
        from nsqlake.spark.decisions import DecisionFile
        from nsqlake.spark.nodes import find_nodes
        from nsqlake.spark.stream_writer import NsqStreamWriter

        if overwrite:
            raise OptionError("outputMode", "complete", "a topic can only be appended to: use append")
        options = parse_write(self.options, streaming=True)
        _check_columns(schema, options)
        decided = ""
        if options.delivery == EXACTLY_ONCE:
            file = DecisionFile(options.checkpoint)
            file.check()
            decision = file.read()
            decided = "" if decision is None else decision.txn
        return NsqStreamWriter(options, find_nodes(options.access), decided)


def _check_columns(schema: "StructType", options: WriteOptions) -> None:
    from nsqlake.spark.encode import check_columns

    check_columns([(field.name, field.dataType.typeName()) for field in schema.fields], options.topic)
