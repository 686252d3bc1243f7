"""The command `nsq_tail`: messages of topics, written to standard output."""

from nsqlake.apps.nsq_tail.command import main

__all__ = ["main"]
