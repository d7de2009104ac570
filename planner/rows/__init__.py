"""Published or given runs, one a row of a table: reading their free-form columns as plans, models and systems."""
