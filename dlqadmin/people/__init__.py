"""Owners, members, roles, the one question `may()`, and the audit trail."""
