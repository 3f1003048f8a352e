"""Messages that left their queue for good, kept whole."""
