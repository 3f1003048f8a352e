"""dlqadmin: the console in which a company operates its dead-letter queues."""
