import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest

pytest_plugins = ["nsqlake.testing.pytest_plugin"]


def test_messages_are_due_when_the_clock_says_so(nsqd):
    nsqd.create_channel("t", "c")
    nsqd.publish("t", b"x", delay_s=60)
    nsqd.blocking.advance(60)
    assert nsqd.channel("t", "c").depth == 1


class TestOptions:
    @pytest.fixture
    def nsqd_options(self):
        return {"node_id": 7}

    def test_options_are_those_of_the_fixture(self, nsqd):
        assert nsqd.options.node_id == 7
        assert nsqd.bodies("t") == []
"""


def test_a_project_that_lists_the_plugin_has_an_nsqd_for_each_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)

    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:randomly")

    result.assert_outcomes(passed=2)
