"""Samplers, ours and other people's, each run as a process that is told what to do line by line."""
