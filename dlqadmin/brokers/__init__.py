"""Adapters to the systems that carry messages. They know no domain."""
