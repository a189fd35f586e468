"""Turns `spec/` into `generated/`, and llama.cpp into `spec/`; never imported when serving."""
