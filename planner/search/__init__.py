"""Enumeration of a space, plain and in neighbourhoods."""
