"""nsqd's side of nsqlookupd: what this node announces, and what it asks."""
