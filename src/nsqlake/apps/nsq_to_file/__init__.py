"""`nsq_to_file`: archives the messages of topics in files."""

from nsqlake.apps.nsq_to_file.command import main

__all__ = ["main"]
