"""What can go wrong while a load runs."""


class LoadError(Exception):
    """The broker answered something a load cannot go on from, so its figures would mean nothing."""
