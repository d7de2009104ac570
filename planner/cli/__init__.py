"""The command line. Nothing here imports numpy, pandas, pydantic or pyomo before a command needs it."""
