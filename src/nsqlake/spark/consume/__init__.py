"""`mode=consume`: topics of an nsqd without a log to read, taken from a channel message by message."""
