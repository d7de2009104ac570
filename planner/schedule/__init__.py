"""Pipeline schedules as lists of operations, and their simulation by events."""
