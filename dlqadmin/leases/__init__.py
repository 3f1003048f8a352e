"""Who may act alone, until when, and under which number. Knows no domain."""
