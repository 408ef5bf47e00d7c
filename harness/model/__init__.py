"""What goes between the parts of the harness: values without I/O, and nothing that is computed by calling."""
