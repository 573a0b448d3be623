"""The version of the distribution: the library, the client and the server."""

__version__ = "0.1.0"
