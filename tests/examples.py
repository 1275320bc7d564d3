"""How many examples a property draws: fewest in `make check`, most in `make nightly`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings

_Test = TypeVar("_Test", bound=Callable[..., Any])


def register_profiles() -> None:
    """Register `check`, `gate` and `nightly`, and load `gate`; `pytest --hypothesis-profile` loads another.

    Two workers share two cores with everything else: how long an example, or drawing it, takes says nothing. The gate
    draws the same examples each time, so that what fails is what was changed; `make nightly` draws others.
    """
    settings.register_profile(
        "gate", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    gate = settings.get_profile("gate")
    settings.register_profile("check", gate, max_examples=20)
    settings.register_profile("nightly", gate, derandomize=False, max_examples=500)
    settings.load_profile("gate")


def share_of(of: float, **others: Any) -> settings:
    """Return the settings that draw `of` times as many examples as others do, with `others` of settings."""
    return settings(max_examples=max(round(of * settings().max_examples), 1), **others)


def share(of: float, **others: Any) -> Callable[[_Test], _Test]:
    """Let a property, or a state machine, draw `of` times as many examples as others do, with `others` of settings."""

    def decorate(test: _Test) -> _Test:
        # Read here, as a conftest is imported before pytest has loaded the profile that was asked for.
        drawn: _Test = share_of(of, **others)(test)
        return drawn

    return decorate
