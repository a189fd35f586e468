"""What is kept of evaluated tokens: keys, values and states, of one sequence or in memory."""
