"""`python -m nsqlake.apps.nsq_to_nsq`."""

import sys

from nsqlake.apps.nsq_to_nsq.command import main

if __name__ == "__main__":
    sys.exit(main())
