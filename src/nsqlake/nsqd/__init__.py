"""The broker daemon."""
