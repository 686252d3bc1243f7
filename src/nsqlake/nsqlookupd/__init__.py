"""The discovery daemon."""
