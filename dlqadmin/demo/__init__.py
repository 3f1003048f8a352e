"""A small lending library that publishes, fails and can be mended: the demo, and an example of handlers."""
