import pytest

from nsqlake.client.silence import SilenceWatch
from tests.fakes.moved_timers import MovedTimers


class Peer:
    """Something that is heard now and then."""

    def __init__(self, timers: MovedTimers, limit_s: float = 60.0) -> None:
        self.timers = timers
        self.heard_s = timers.now_s()
        self.losses = 0
        self.watch = SilenceWatch(
            timers, limit_s, last_received_s=lambda: self.heard_s, on_silent=self._note_loss
        )

    def speak(self) -> None:
        self.heard_s = self.timers.now_s()

    def _note_loss(self) -> None:
        self.losses += 1


@pytest.fixture
def timers() -> MovedTimers:
    return MovedTimers()


def test_a_peer_that_says_nothing_is_lost_once(timers: MovedTimers) -> None:
    peer = Peer(timers)

    timers.advance(60.9)
    assert peer.losses == 0
    timers.advance(500.0)
    assert peer.losses == 1


def test_every_word_gives_it_the_whole_time_again(timers: MovedTimers) -> None:
    peer = Peer(timers)

    for _ in range(10):
        timers.advance(59.0)
        peer.speak()

    timers.advance(59.0)
    assert peer.losses == 0


def test_what_waited_in_the_socket_while_we_stood_still_counts(timers: MovedTimers) -> None:
    peer = Peer(timers)

    timers.advance(60.0)  # the watch looks, before the bytes are read
    peer.speak()
    timers.advance(59.9)

    assert peer.losses == 0
    timers.advance(2.0)
    assert peer.losses == 1


def test_a_cancelled_watch_never_calls(timers: MovedTimers) -> None:
    peer = Peer(timers)

    peer.watch.cancel()
    timers.advance(1000.0)

    assert peer.losses == 0
    assert timers.waiting_count == 0
