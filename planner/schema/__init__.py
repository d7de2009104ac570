"""Input files as strict, immutable records."""
