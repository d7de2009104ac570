"""Sweeps: grids of problems, solved by many workers into a store of results, and read back as one table."""
