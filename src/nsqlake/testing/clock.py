"""A clock that stands still until the test moves it."""

from nsqlake.runtime.clock import Clock

START_NS = 1_700_000_000_000_000_000


class ManualClock(Clock):
    """`Clock` over two hands that only the test moves."""

    def __init__(self, start_ns: int = START_NS) -> None:
        self._wall_hand_ns = start_ns
        self._steady_hand_ns = 0
        super().__init__(lambda: self._wall_hand_ns, lambda: self._steady_hand_ns)

    def advance_ns(self, elapsed_ns: int) -> None:
        """Let time pass."""
        self._wall_hand_ns += elapsed_ns
        self._steady_hand_ns += elapsed_ns

    def advance_ms(self, elapsed_ms: float) -> None:
        self.advance_ns(round(elapsed_ms * 1_000_000))

    def set_wall_forward_ms(self, step_ms: float) -> None:
        """Somebody sets the wall clock; no time passes. Negative steps set it back."""
        self._wall_hand_ns += round(step_ms * 1_000_000)
