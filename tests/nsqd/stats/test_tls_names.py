"""NSQ's names of cipher suites."""

from nsqlake.nsqd.stats.tls_names import suite_name


def test_old_suites_have_names_and_new_ones_numbers() -> None:
    assert suite_name(0xC02F) == "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    assert suite_name(0x1301) == "Unknown 4865"
    assert suite_name(0xC030) == "Unknown 49200"
