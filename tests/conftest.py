"""Settings that every test shares."""

import os

from hypothesis import HealthCheck, settings

# Machines that run the tests are slow and shared: how long one example takes says nothing.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", parent=settings.get_profile("default"), max_examples=5_000)
settings.load_profile(os.environ.get("NSQLAKE_HYPOTHESIS", "default"))
