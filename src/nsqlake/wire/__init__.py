"""The NSQ protocol as bytes and values; no I/O."""
