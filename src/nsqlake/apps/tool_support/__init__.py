"""What the tools share: flags, client options, log lines, signals, progress."""
