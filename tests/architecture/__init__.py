"""Whether one finds one's way in the code: how many files one event crosses, how large and how entangled they are.

Nothing here says how Muster behaves. `limits` holds every bound in one place; what is reached may not get worse.
"""
