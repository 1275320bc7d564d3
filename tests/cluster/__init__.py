"""Tests of the cluster model: rows, columns, claims and gangs, against plain dictionaries wherever that is possible."""
