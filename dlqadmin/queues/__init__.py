"""Source queues, their policies, and their books."""
