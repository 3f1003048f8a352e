"""The published figures, from the real code paths: publish, consume, capture, diagnose, redrive."""
