"""Topics as DataFrames and DataFrames as topics, through PySpark's Python data source API."""

from nsqlake.spark.data_source import NsqDataSource
from nsqlake.spark.session import build_session

__all__ = ["NsqDataSource", "build_session"]
