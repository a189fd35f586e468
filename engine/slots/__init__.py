"""Slots: each serves one request at a time, keeps what it evaluated, and goes to files."""
