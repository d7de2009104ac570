"""What a frontier sweep says: where linear scaling ends, where the wall is, and the curves as pictures and data."""
