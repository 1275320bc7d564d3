"""Who used what, when, and what waiting cost: accounts beside the decisions, and a store that outlives the process.

The accountant follows what happens and changes nothing; the keeper hands what it has found to a store, from a thread.
Losing any of it changes no decision. Nothing here is asked by what decides, and only `store` and `schema` know SQL.
"""
