"""A load generator for any nsqd: worker processes, bulk bytes, blocking sockets."""
