"""Where nsq_to_http sends to has to be a URL."""

import pytest

from nsqlake.apps.nsq_to_http.options import NsqToHttpOptions, check
from nsqlake.runtime.errors import ConfigurationError


@pytest.mark.parametrize(
    ("flag", "address"), [("post", "notaurl"), ("post", "http://"), ("get", "ftp://x/%s")]
)
def test_an_address_that_is_no_url_is_refused_by_its_flag(flag: str, address: str) -> None:
    options = NsqToHttpOptions(topic="orders", nsqd_tcp_addresses=("127.0.0.1:4150",), **{flag: (address,)})

    with pytest.raises(ConfigurationError, match=f"--{flag}"):
        check(options)
