"""Lets Spark find `format("nsq")` without registration: it looks for `pyspark_*` modules."""

from nsqlake.spark.data_source import NsqDataSource as DefaultSource

__all__ = ["DefaultSource"]
