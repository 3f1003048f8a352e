"""Diagnosis, the gate, and sending dead letters back to work."""
