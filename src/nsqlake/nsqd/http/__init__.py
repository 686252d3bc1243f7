"""nsqd's HTTP API: one table of endpoints, from which routes, permissions and OpenAPI are derived."""
