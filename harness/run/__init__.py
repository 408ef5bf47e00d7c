"""One run from its options to its folder: plan, prepare, run, store, read again, repeat."""
