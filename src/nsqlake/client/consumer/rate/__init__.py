"""How many messages may be in flight: RDY and backoff."""
