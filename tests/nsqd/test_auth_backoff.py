"""Time is an argument."""

from nsqlake.nsqd.auth_backoff import FREE_FAILURES, MAX_SOURCES, AuthBackoff

SECOND_NS = 1_000_000_000
NOW_NS = 1_700_000_000 * SECOND_NS


def failing(times: int, remote_ip: str = "10.0.0.7") -> AuthBackoff:
    backoff = AuthBackoff()
    for _ in range(times):
        backoff.add_failure(remote_ip, NOW_NS)
    return backoff


def test_the_first_failures_are_free():
    backoff = failing(FREE_FAILURES - 1)

    assert backoff.wait_ns("10.0.0.7", NOW_NS) == 0


def test_the_wait_doubles_with_each_failure_up_to_a_minute():
    waits = [failing(FREE_FAILURES + more).wait_ns("10.0.0.7", NOW_NS) for more in (0, 1, 2, 5, 6, 100)]

    assert [wait_ns // SECOND_NS for wait_ns in waits] == [1, 2, 4, 32, 60, 60]


def test_the_wait_passes():
    backoff = failing(FREE_FAILURES + 2)

    assert backoff.wait_ns("10.0.0.7", NOW_NS + 3 * SECOND_NS) == SECOND_NS
    assert backoff.wait_ns("10.0.0.7", NOW_NS + 4 * SECOND_NS) == 0


def test_others_need_not_wait():
    backoff = failing(50)

    assert backoff.wait_ns("10.0.0.8", NOW_NS) == 0


def test_success_ends_the_wait():
    backoff = failing(50)

    backoff.add_success("10.0.0.7")
    backoff.add_success("10.0.0.8")

    assert backoff.wait_ns("10.0.0.7", NOW_NS) == 0


def test_old_failures_are_forgotten():
    backoff = failing(50)
    later_ns = NOW_NS + 601 * SECOND_NS

    assert backoff.wait_ns("10.0.0.7", later_ns) == 0
    backoff.add_failure("10.0.0.7", later_ns)

    assert backoff.wait_ns("10.0.0.7", later_ns) == 0


def test_addresses_of_one_ipv6_network_are_one_source():
    backoff = failing(50, "2001:db8::1%eth0")

    assert backoff.wait_ns("2001:db8::ffff", NOW_NS) > 0
    assert backoff.wait_ns("2001:db8:0:1::1", NOW_NS) == 0


def test_unix_sockets_share_no_fate():
    assert failing(50, "").wait_ns("", NOW_NS) == 0


def test_the_table_is_bounded_and_the_longest_silent_source_goes_first():
    backoff = failing(50)

    for number in range(MAX_SOURCES):
        backoff.add_failure(f"host-{number}", NOW_NS)

    assert backoff.wait_ns("10.0.0.7", NOW_NS) == 0
    assert len(backoff._failures) == MAX_SOURCES
