"""The owning team hears of its dead letters."""
