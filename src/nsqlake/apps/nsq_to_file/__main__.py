"""`python -m nsqlake.apps.nsq_to_file`."""

import sys

from nsqlake.apps.nsq_to_file.command import main

if __name__ == "__main__":
    sys.exit(main())
