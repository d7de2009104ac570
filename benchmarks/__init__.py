"""Every figure that the project claims, measured: ``python -m benchmarks``."""
