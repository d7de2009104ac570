"""Constants from measurements: which runs count, what may be fitted, the fit, and how good it is."""
