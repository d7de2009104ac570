"""The language of costs: units, expressions, spaces, and their readings."""
