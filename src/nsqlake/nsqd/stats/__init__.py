"""The figures of a running nsqd: `/stats`, `/info`, statsd, Prometheus."""
