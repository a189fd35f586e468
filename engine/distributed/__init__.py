"""A model that several processes or machines hold together."""
