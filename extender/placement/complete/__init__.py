"""The search that misses no place: asked where the quick ways of placing pods of several kinds have found none."""
