"""The command `nsq_to_http`: messages of a topic, sent to HTTP servers."""

from nsqlake.apps.nsq_to_http.command import main

__all__ = ["main"]
