"""The command `to_nsq`: standard input, cut at a delimiter, published to a topic."""

from nsqlake.apps.to_nsq.command import main

__all__ = ["main"]
