"""`python -m nsqlake.apps.nsq_to_http`."""

import sys

from nsqlake.apps.nsq_to_http.command import main

if __name__ == "__main__":
    sys.exit(main())
