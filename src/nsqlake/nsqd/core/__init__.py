"""Topics and channels; no event loop, no clock, no logging."""
