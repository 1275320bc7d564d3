"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# Two workers share two cores with everything else: how long one example takes says nothing.
settings.register_profile("muster", deadline=None)
settings.load_profile("muster")
