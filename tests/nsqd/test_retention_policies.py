import pytest

from nsqlake.nsqd.options import NsqdOptions, validate
from nsqlake.nsqd.retention_policies import Kept, RetentionPolicies
from nsqlake.runtime.durations import HOUR_NS, SECOND_NS
from nsqlake.runtime.errors import ConfigurationError
from nsqlake.runtime.go_flags import parse_flags
from nsqlake.runtime.toml_options import resolve_options

DEFAULT = Kept(SECOND_NS, 7)


def kept(topic: str, *policies: str) -> Kept:
    return RetentionPolicies(DEFAULT, policies).of(topic)


def test_a_topic_without_a_policy_has_the_default() -> None:
    assert kept("orders") == kept("orders", "audit.*:time=1h") == DEFAULT


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("*:time=24h,bytes=10GiB", Kept(24 * HOUR_NS, 10 << 30)),
        ("orders:bytes=512", Kept(0, 512)),
        ("ord*:time=90m", Kept(90 * 60 * SECOND_NS, 0)),
        ("orders:bytes=3MiB, time=1s", Kept(SECOND_NS, 3 << 20)),
        ("[a-o]rders:bytes=2KiB", Kept(0, 2048)),
        ("orders:time=0", Kept()),
        ("?rders:bytes=1TiB", Kept(0, 1 << 40)),
    ],
)
def test_a_policy_is_for_the_names_it_matches(policy: str, expected: Kept) -> None:
    assert kept("orders", policy) == expected


def test_a_pattern_matches_the_whole_name_and_its_case() -> None:
    assert kept("orders.eu", "orders:time=1h") == DEFAULT
    assert kept("Orders", "orders:time=1h") == DEFAULT


def test_the_first_policy_that_matches_counts() -> None:
    assert kept("orders.eu", "orders.*:bytes=1", "*:bytes=2") == Kept(0, 1)
    assert kept("orders.eu", "*:bytes=2", "orders.*:bytes=1") == Kept(0, 2)


def test_time_is_counted_back_from_now() -> None:
    assert Kept(10, 0).after_ns(100) == 90
    assert Kept(0, 5).after_ns(100) is None


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("orders", "must be PATTERN:"),
        (":time=1h", "must be PATTERN:"),
        ("orders:", "must be PATTERN:"),
        ("orders:size=1", "'size=1' is not"),
        ("orders:time=1h,time=2h", "at most once"),
        ("orders:time=soon", 'time: invalid duration "soon"'),
        ("orders:time=-1h", "must not be negative"),
        ("orders:bytes=-1", "bytes=-1 must be a number"),
        ("orders:bytes=1GB", "bytes=1GB must be a number"),
        ("orders:bytes=", "bytes= must be a number"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_flag(policy: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        validate(NsqdOptions(retention_policies=(policy,)))

    assert str(caught.value).startswith(f"--retention-policy={policy}: ")
    assert said in str(caught.value)


@pytest.mark.parametrize("field", ["retention_time_ns", "retention_bytes", "max_attempts"])
def test_negative_numbers_are_refused(field: str) -> None:
    with pytest.raises(ConfigurationError, match="must not be negative"):
        validate(NsqdOptions(**{field: -1}))


def test_flags_and_config_file_give_the_same_policies() -> None:
    policies = ("audit.*:time=24h,bytes=1GiB", "*:bytes=5")
    flags = parse_flags(NsqdOptions, [f"--retention-policy={policy}" for policy in policies])

    assert resolve_options(NsqdOptions, flags.values, {}).retention_policies == policies
    assert (
        resolve_options(NsqdOptions, {}, {"retention_policy": list(policies)}).retention_policies == policies
    )
