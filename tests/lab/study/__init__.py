"""Tests of studies: the player, the fluid bound, the figures."""
