"""The HTTP API. Empty until its issue; the layer has its place."""
