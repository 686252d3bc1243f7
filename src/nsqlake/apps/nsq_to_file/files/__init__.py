"""The files of a topic: their names, when the next one begins, how they are written and where they go."""
