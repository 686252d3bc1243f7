import ast
import csv
import ipaddress
import random

from nsqlake.apps.demo.query_log import make_line

FIELDS = 14


def test_lines_have_the_fields_of_a_query_log() -> None:
    lines = [make_line(random.Random(seed), 1_641_437_917).decode() for seed in range(200)]

    rows = list(csv.reader(lines))

    assert {len(row) for row in rows} == {FIELDS}
    for _user, _client, qtime, client_ip, _view, domain, rtype, rdata, rcode, *_ in rows:
        assert (qtime, int(rtype) in (1, 5, 28), "." in domain) == ("1641437917", True, True)
        assert ipaddress.ip_address(client_ip).is_private
        assert (ast.literal_eval(rdata) == []) == (rcode == "3")


def test_one_seed_gives_one_line() -> None:
    assert make_line(random.Random(7), 0) == make_line(random.Random(7), 0)
