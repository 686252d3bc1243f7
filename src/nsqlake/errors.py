"""The root of every exception that nsqlake raises on purpose."""


class NsqlakeError(Exception):
    """Base class; `retriable` says whether the same call may succeed later."""

    retriable = False
