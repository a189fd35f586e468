"""Fixtures that any test may ask for, and what all processes of the tests have in common."""

import os

from tests.server import start_server

# Several servers share the cores here: BLAS threads that wait for each other would only lose.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__all__ = ["start_server"]
