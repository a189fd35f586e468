"""The parts of a serving step, each in a file: admission, context shift, prefill, decode, sample.

They know the slots and each other's results, never the scheduler that calls them in turn.
"""
