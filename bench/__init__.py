"""Measurements with bounds: `manage.py bench NAME` compares our code with a peer or limit of the same run."""
