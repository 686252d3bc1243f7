"""`nsqlake log`: looking into the files of a data path without an nsqd, and without changing a byte."""
