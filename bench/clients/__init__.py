"""How many messages one process of a client library publishes and consumes, side by side with others."""
