"""Analysis: pure functions from a Run to what the report says."""
