import pytest

from nsqlake.apps.tool_support.client_configs import consumer_config, producer_config
from nsqlake.apps.tool_support.client_options import parse_client_option
from nsqlake.client.errors import InvalidArgumentError
from nsqlake.runtime.errors import ConfigurationError


def parsed(*texts: str) -> tuple[tuple[str, object], ...]:
    return tuple(parse_client_option(text) for text in texts)


def test_options_reach_the_configuration_and_the_last_of_a_name_wins() -> None:
    options = parsed("msg-timeout,5s", "msg_timeout,7s", "skip_lookupd_authorization,false", "snappy")

    config = consumer_config(options, tool_name="nsq_tail", max_in_flight=3)

    assert (config.msg_timeout, config.lookupd_authorization, config.snappy) == (7.0, False, True)


def test_the_tool_decides_max_in_flight_and_user_agent() -> None:
    options = parsed("max_in_flight,9", "user_agent,mine")

    config = consumer_config(options, tool_name="nsq_tail", max_in_flight=3)

    assert config.max_in_flight == 3
    assert config.user_agent.startswith("nsq_tail/1.3.0 nsqlake/")


def test_negative_durations_that_switch_off_are_understood() -> None:
    config = producer_config(
        parsed("heartbeat_interval,-1s", "output_buffer_timeout,-5ms"), tool_name="to_nsq"
    )

    assert (config.heartbeat_interval, config.output_buffer_timeout) == (-1, -1)


def test_the_oldest_floor_for_tls_is_the_oldest_that_there_is() -> None:
    config = producer_config(parsed("tls_min_version,ssl3.0"), tool_name="to_nsq")

    assert config.tls_min_version == "tls1.0"


def test_a_heartbeat_slower_than_the_read_timeout_is_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        producer_config(parsed("heartbeat_interval,90s"), tool_name="to_nsq")

    assert str(caught.value) == "HeartbeatInterval 1m30s must be less than ReadTimeout 1m0s"


def test_options_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(InvalidArgumentError):
        producer_config(parsed("snappy", "deflate"), tool_name="to_nsq")


def test_a_negative_max_in_flight_is_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        consumer_config((), tool_name="nsq_tail", max_in_flight=-1)

    assert str(caught.value) == "invalid MaxInFlight ! -1 < 0"
