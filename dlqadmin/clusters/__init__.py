"""Error text in, root cause out: one cluster for the dead letters of one queue that share a cause."""
