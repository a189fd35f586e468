"""Tests of the whole: the generator, the engine, and the real server over HTTP."""
