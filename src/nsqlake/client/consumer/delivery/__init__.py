"""From frames to messages, from answers to commands."""
