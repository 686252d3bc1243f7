"""`python -m nsqlake.apps.nsq_tail`."""

import sys

from nsqlake.apps.nsq_tail.command import main

if __name__ == "__main__":
    sys.exit(main())
