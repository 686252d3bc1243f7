"""RDY distribution: sums, shares, lost connections, rotation; no clock and no sockets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.client.consumer.rate.flow import Change, Flow, Window

IDLE_S = 10.0
LOW_RDY_S = 30.0


def make_flow(max_in_flight: int, chance: float = 0.0) -> Flow:
    return Flow(max_in_flight, idle_timeout_s=IDLE_S, low_rdy_timeout_s=LOW_RDY_S, chance=lambda: chance)


def make_window(max_rdy: int = 2500, *, is_new: bool = False) -> Window:
    return Window(set(), max_rdy, is_new=is_new)


def flow_with(connections: int, max_in_flight: int, chance: float = 0.0) -> Flow:
    flow = make_flow(max_in_flight, chance)
    for _ in range(connections):
        flow.add(make_window(), 0.0)
    return flow


def rdys(flow: Flow) -> list[int]:
    return [window.rdy for window in flow.windows]


def hold(window: Window, count: int) -> None:
    window.in_flight.clear()  # type: ignore[attr-defined]
    window.in_flight.update(range(count))  # type: ignore[attr-defined]


def message_at(window: Window, now_s: float) -> None:
    window.last_message_s = now_s


# Shares -----------------------------------------------------------------------------------------------


def test_first_connection_gets_everything_at_once() -> None:
    window = make_window()

    assert make_flow(5).add(window, 0.0) == [(window, 5)]


def test_second_connection_gets_its_share_after_the_first_was_lowered() -> None:
    flow = flow_with(1, 10)
    first, second = flow.windows[0], make_window()

    changes = flow.add(second, 1.0)

    assert changes == [(first, 5), (second, 5)]


@pytest.mark.parametrize(
    ("limit", "connections", "expected"),
    [(10, 3, [3, 3, 4]), (4, 3, [1, 1, 2]), (3, 3, [1, 1, 1]), (2500, 7, [357] * 6 + [358])],
)
def test_remainder_is_handed_out(limit: int, connections: int, expected: list[int]) -> None:
    assert sorted(rdys(flow_with(connections, limit))) == expected


def test_no_connection_exceeds_its_servers_maximum_and_others_get_the_rest() -> None:
    flow = make_flow(100)
    for max_rdy in (10, 2500, 30):
        flow.add(make_window(max_rdy), 0.0)

    assert rdys(flow) == [10, 60, 30]


def test_lost_connection_leaves_its_share_to_the_survivors() -> None:
    flow = flow_with(2, 10)
    lost, survivor = flow.windows

    assert flow.remove(lost, 1.0) == [(survivor, 10)]


def test_unchanged_shares_are_not_written_again() -> None:
    flow = flow_with(2, 10)

    assert flow.set_max_in_flight(10, 1.0) == []


def test_new_connection_among_many_starts_with_one_until_its_first_message() -> None:
    flow = flow_with(1, 10)
    newcomer = make_window(is_new=True)

    assert flow.add(newcomer, 1.0) == [(flow.windows[0], 9), (newcomer, 1)]
    assert flow.first_message(newcomer, 2.0) == [(flow.windows[0], 5), (newcomer, 5)]


# Changing the limit, pausing --------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "after"), [(8, 12), (3, 12), (2, 3), (12, 8), (12, 3), (3, 2)])
def test_changed_limit_is_never_exceeded_and_is_reached(before: int, after: int) -> None:
    flow = flow_with(4, before)

    running = rdys(flow)
    for window, rdy in flow.set_max_in_flight(after, 1.0):
        running[flow.windows.index(window)] = rdy
        assert sum(running) <= max(before, after)

    assert sum(rdys(flow)) == after


def test_limit_zero_takes_everything_even_from_who_comes_meanwhile() -> None:
    flow = flow_with(3, 7)

    flow.set_max_in_flight(0, 1.0)
    flow.add(make_window(), 2.0)

    assert rdys(flow) == [0, 0, 0, 0]
    assert flow.rotate(100.0) == []
    flow.set_max_in_flight(7, 101.0)
    assert sum(rdys(flow)) == 7


# Backoff ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "expected"), [(10, 10), (4, 4)])
def test_sum_after_backoff_is_the_limit_again(limit: int, expected: int) -> None:
    flow = flow_with(5, limit)

    flow.close(1.0)
    assert rdys(flow) == [0] * 5
    flow.probe(3.0)
    assert sorted(rdys(flow)) == [0, 0, 0, 0, 1]
    flow.open(4.0)

    assert sum(rdys(flow)) == expected


def test_test_permit_goes_to_a_random_connection() -> None:
    flow = flow_with(4, 8, chance=0.6)
    flow.close(1.0)

    assert flow.probe(2.0) == [(flow.windows[2], 1)]


def test_test_permit_is_given_though_old_messages_are_unanswered() -> None:
    flow = flow_with(2, 8)
    for window in flow.windows:
        hold(window, 3)
    flow.close(1.0)

    flow.probe(2.0)

    assert sum(rdys(flow)) == 1


def test_connection_made_in_a_pause_gets_nothing_until_the_pause_ends() -> None:
    flow = flow_with(1, 5)
    flow.close(1.0)

    assert flow.add(make_window(), 2.0) == []
    flow.probe(3.0)
    assert sum(rdys(flow)) == 1


def test_test_permit_survives_the_loss_of_its_connection() -> None:
    flow = flow_with(2, 5)
    flow.close(1.0)
    ((holder, _),) = flow.probe(2.0)

    flow.remove(holder, 3.0)

    assert rdys(flow) == [1]


def test_test_permit_waits_for_a_connection_when_there_is_none() -> None:
    flow = flow_with(1, 5)
    flow.close(1.0)
    flow.remove(flow.windows[0], 2.0)
    assert flow.probe(3.0) == []

    newcomer = make_window()

    assert flow.add(newcomer, 4.0) == [(newcomer, 1)]
    assert flow.open(5.0) == [(newcomer, 5)]


def test_paused_consumer_gets_no_test_permit_until_it_is_resumed() -> None:
    flow = flow_with(2, 5)
    flow.close(1.0)
    flow.set_max_in_flight(0, 2.0)
    assert flow.probe(3.0) == []

    flow.set_max_in_flight(5, 4.0)

    assert sum(rdys(flow)) == 1


def test_idle_holder_of_the_test_permit_passes_it_on() -> None:
    flow = flow_with(2, 5)
    flow.close(0.0)
    flow.probe(1.0)

    assert flow.rotate(1.0 + IDLE_S) == []
    changes = flow.rotate(1.1 + IDLE_S)

    assert changes == [(flow.windows[0], 0), (flow.windows[1], 1)]


# More connections than permits ------------------------------------------------------------------------


def test_permits_stay_until_the_idle_timeout_and_then_move() -> None:
    flow = flow_with(3, 2)
    message_at(flow.windows[0], 9.0)
    assert rdys(flow) == [1, 1, 0]

    assert flow.rotate(IDLE_S) == []
    changes = flow.rotate(IDLE_S + 0.1)

    assert changes == [(flow.windows[1], 0), (flow.windows[2], 1)]


def test_busy_connections_do_not_keep_their_permits_for_ever() -> None:
    flow = flow_with(2, 1)
    message_at(flow.windows[0], LOW_RDY_S)

    assert flow.rotate(LOW_RDY_S) == []
    message_at(flow.windows[0], LOW_RDY_S + 0.1)

    assert flow.rotate(LOW_RDY_S + 0.1) == [(flow.windows[0], 0), (flow.windows[1], 1)]


def test_permits_are_not_given_while_unanswered_messages_occupy_them() -> None:
    flow = flow_with(2, 1)
    busy, waiting = flow.windows
    hold(busy, 1)

    assert flow.rotate(IDLE_S + 0.1) == [(busy, 0)]
    assert flow.rotate(IDLE_S + 5.0) == []
    hold(busy, 0)

    assert flow.answered(busy, IDLE_S + 6.0) == [(waiting, 1)]


def test_answer_hands_the_permit_to_who_waits() -> None:
    flow = flow_with(3, 1)
    first, second, third = flow.windows
    for now_s, window, heir in ((1.0, first, second), (2.0, second, third), (3.0, third, first)):
        message_at(window, now_s)

        assert flow.answered(window, now_s) == [(window, 0), (heir, 1)]


def test_answer_hands_nothing_to_a_connection_that_was_idle_lately() -> None:
    flow = flow_with(2, 1)
    idle, busy = flow.windows
    flow.rotate(IDLE_S + 1)
    assert rdys(flow) == [0, 1]

    message_at(busy, IDLE_S + 2)
    assert flow.answered(busy, IDLE_S + 2) == []

    message_at(busy, IDLE_S + LOW_RDY_S + 2)
    assert flow.answered(busy, IDLE_S + LOW_RDY_S + 2) == [(busy, 0), (idle, 1)]


def test_idle_connections_do_not_starve_between_two_busy_ones() -> None:
    flow = flow_with(3, 1)
    idle = flow.windows[0]
    now_s = IDLE_S + 1
    flow.rotate(now_s)
    assert idle.rdy == 0

    seen = False
    for _ in range(100):
        now_s += 1.0
        (holder,) = [window for window in flow.windows if window.rdy]
        seen = seen or holder is idle
        if holder is not idle:
            message_at(holder, now_s)
            flow.answered(holder, now_s)
        flow.rotate(now_s)

    assert seen


def test_permit_that_nobody_else_can_use_is_kept_without_a_write() -> None:
    flow = flow_with(3, 2)

    changes = flow.rotate(IDLE_S + 1)

    assert len(changes) == 2
    assert sum(rdys(flow)) == 2


def test_lost_permit_goes_to_who_waits_at_once() -> None:
    flow = flow_with(3, 2)
    waiting = flow.windows[2]

    assert flow.remove(flow.windows[0], 1.0) == [(waiting, 1)]


def test_limit_equal_to_connections_gives_one_each_after_a_loss() -> None:
    flow = flow_with(4, 3)

    flow.remove(flow.windows[0], 1.0)

    assert rdys(flow) == [1, 1, 1]
    assert not flow.is_rotating


# Starvation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rdy", "held", "starved"), [(10, 0, False), (10, 8, False), (10, 9, True), (1, 1, True), (1, 0, False)]
)
def test_starved_when_some_connection_holds_nearly_all_it_may(rdy: int, held: int, starved: bool) -> None:
    flow = flow_with(1, rdy)
    hold(flow.windows[0], held)

    assert flow.is_starved is starved


def test_messages_of_a_connection_without_rdy_mean_starved() -> None:
    flow = flow_with(1, 5)
    hold(flow.windows[0], 1)
    flow.close(1.0)

    assert flow.is_starved


# Anything ---------------------------------------------------------------------------------------------

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["add", "remove", "limit", "close", "probe", "open", "rotate", "answered", "message", "hold"]
        ),
        st.integers(0, 7),
    ),
    max_size=60,
)


@given(EVENTS, st.integers(0, 12), st.floats(0, 0.999))
def test_sum_and_single_counts_stay_within_limits_whatever_happens(
    events: list[tuple[str, int]], limit: int, chance: float
) -> None:
    flow, now_s = make_flow(limit, chance), 0.0
    written: dict[Window, int] = {}
    for event, number in events:
        now_s += number
        changes = happen(flow, event, number, now_s)
        written = {window: written.get(window, 0) for window in flow.windows}
        for window, rdy in changes:
            assert rdy != written[window]
            written[window] = rdy
        assert sum(written.values()) <= flow.limit
        assert all(written[window] == window.rdy <= window.max_rdy for window in flow.windows)
    flow.open(now_s)
    for window in flow.windows:
        hold(window, 0)
    flow.rotate(now_s + 100)
    assert sum(rdys(flow)) == min(flow.limit, sum(window.max_rdy for window in flow.windows))


def happen(flow: Flow, event: str, number: int, now_s: float) -> list[Change]:
    if event == "add":
        return flow.add(make_window(max_rdy=number + 1), now_s)
    if event == "limit":
        return flow.set_max_in_flight(number, now_s)
    if event in ("close", "probe", "open", "rotate"):
        return getattr(flow, event)(now_s)  # type: ignore[no-any-return]
    if not flow.windows:
        return []
    window = flow.windows[number % len(flow.windows)]
    if event == "remove":
        return flow.remove(window, now_s)
    if event == "hold":
        hold(window, number)
    elif event == "message":
        message_at(window, now_s)
    elif flow.is_rotating:
        return flow.answered(window, now_s)
    return []
