"""Topics as DataFrames and DataFrames as topics, through PySpark's Python data source API."""
