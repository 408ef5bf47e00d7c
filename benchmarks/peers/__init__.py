"""Samplers, ours and other people's, each a process that does what it is told line by line."""
