from nsqlake.apps.nsq_to_file.options import NsqToFileOptions
from nsqlake.apps.nsq_to_file.running import archive_config


def test_messages_are_touched_and_never_given_up() -> None:
    """The Go tool finishes a message unseen at its sixth delivery."""
    config = archive_config(NsqToFileOptions(max_in_flight=7))

    assert (config.auto_touch, config.max_attempts, config.max_in_flight) == (True, 0, 7)
    assert config.user_agent.startswith("nsq_to_file/1.3.0 ")


def test_who_wants_messages_to_be_given_up_can_have_it() -> None:
    config = archive_config(NsqToFileOptions(consumer_opt=(("max_attempts", 3), ("msg_timeout", 5.0))))

    assert (config.max_attempts, config.msg_timeout) == (3, 5.0)
