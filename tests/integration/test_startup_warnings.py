import pytest

from nsqlake.testing.nsqd import running_nsqd


def test_an_unknown_experiment_is_named_at_the_start_with_the_known_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running_nsqd(enable_experiment=("topology-aware-consumption", "zzz")):
        warnings = [record.getMessage() for record in caplog.records if "experiment" in record.getMessage()]

    assert warnings == ["ignored --enable-experiment=zzz: the known ones are topology-aware-consumption"]
