"""NSQ in Python: a durable, replayable log per topic, with Apache Spark as its data plane."""

__all__ = ["NSQ_VERSION", "__version__"]

__version__ = "0.1.0"
NSQ_VERSION = "1.3.0"  # the NSQ release whose behaviour we present on the wire
