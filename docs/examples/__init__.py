"""Examples that run: the tasks of `make demo` and the demo itself."""
