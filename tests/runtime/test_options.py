from typing import Annotated

import msgspec
import pytest

from nsqlake.runtime.errors import ConfigurationError
from nsqlake.runtime.option_kinds import INT
from nsqlake.runtime.options import Option, check_limits, config_text, option_fields
from tests.runtime.sample_options import SampleOptions


def test_fields_come_in_the_order_of_their_declaration_with_their_defaults() -> None:
    fields = option_fields(SampleOptions)

    assert [field.name for field in fields][:3] == ["count", "old", "wait_ns"]
    assert [field.default for field in fields][:3] == [3, False, 1_000_000_000]


def test_the_config_key_follows_from_the_flag_unless_given() -> None:
    keys = {field.name: field.option.config_key for field in option_fields(SampleOptions)}

    assert keys["count"] == "counted"
    assert keys["wait_ns"] == "wait"


def test_the_name_of_gos_field_follows_from_the_key_unless_given() -> None:
    names = {field.name: field.option.field_name_in_go for field in option_fields(SampleOptions)}

    assert names["tcp_hosts"] == "TCPHosts"
    assert names["on"] == "OnEnabled"


def test_a_default_may_come_from_a_factory() -> None:
    class Made(msgspec.Struct, frozen=True):
        size: Annotated[int, Option("size", INT, "size")] = msgspec.field(default_factory=lambda: 7)

    assert option_fields(Made)[0].default == 7


def test_a_field_without_an_option_is_a_mistake_of_the_programmer() -> None:
    class Bare(msgspec.Struct, frozen=True):
        size: int = 0

    with pytest.raises(TypeError, match="field size carries no Option"):
        option_fields(Bare)


def test_the_first_value_outside_its_limit_is_named() -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_limits(SampleOptions(count=-1, wait_ns=0))

    assert str(caught.value) == "--count must not be negative"
    assert (caught.value.option, caught.value.value) == ("count", -1)


def test_only_the_named_fields_are_checked_when_some_are_named() -> None:
    check_limits(SampleOptions(count=-1), "wait_ns")

    with pytest.raises(ConfigurationError, match="--wait must be greater than 0"):
        check_limits(SampleOptions(count=-1, wait_ns=0), "wait_ns")


def test_config_values_are_shown_raw_for_strings_and_as_json_otherwise() -> None:
    options = SampleOptions(tcp_hosts=("a:1",), shares=(0.5,))

    assert config_text(options, "name") == "me"
    assert config_text(options, "wait") == "1000000000"
    assert config_text(options, "on") == "true"
    assert config_text(options, "tcp_hosts") == '["a:1"]'
    assert config_text(options, "shares") == "[0.5]"


def test_flags_that_are_no_config_keys_are_not_shown() -> None:
    assert config_text(SampleOptions(), "old") is None
    assert config_text(SampleOptions(), "count") is None
    assert config_text(SampleOptions(), "") is None
