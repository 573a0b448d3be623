"""The Python client of the service."""
