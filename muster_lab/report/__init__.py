"""A simulation as one page for people and a table for programs."""
