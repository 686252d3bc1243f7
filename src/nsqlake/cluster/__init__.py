"""Typed HTTP calls to nsqd and nsqlookupd, and the merging of their answers."""
