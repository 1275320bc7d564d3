"""Which gangs are evicted for which: policies and budgets, search, evictions under way, repair, defragmentation.

Nothing here talks to the API server: an eviction is an effect that `control` carries out.
"""
