"""The command `nsq_to_nsq`: messages of topics, published to other nsqds."""

from nsqlake.apps.nsq_to_nsq.command import main

__all__ = ["main"]
