"""`python -m nsqlake.apps.to_nsq`."""

import sys

from nsqlake.apps.to_nsq.command import main

if __name__ == "__main__":
    sys.exit(main())
