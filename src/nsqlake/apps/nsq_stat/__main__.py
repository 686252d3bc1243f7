"""`python -m nsqlake.apps.nsq_stat`."""

import sys

from nsqlake.apps.nsq_stat.command import main

if __name__ == "__main__":
    sys.exit(main())
