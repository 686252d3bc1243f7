"""Consuming: connections, RDY, handlers, backoff, stopping."""
