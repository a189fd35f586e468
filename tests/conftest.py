"""Fixtures that any test may ask for."""

from tests.server import start_server

__all__ = ["start_server"]
