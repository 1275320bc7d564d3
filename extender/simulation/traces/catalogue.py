"""Which published traces can be converted, and by what."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from extender.simulation.traces import alibaba2020, alibaba2023, philly
from extender.simulation.traces.published import Converter, Published

CONVERTERS: Mapping[Published, Converter] = MappingProxyType(
    {
        Published.ALIBABA_2020: alibaba2020.convert,
        Published.ALIBABA_2023: alibaba2023.convert,
        Published.PHILLY: philly.convert,
    }
)
