"""Event-loop plumbing shared by the daemons."""
