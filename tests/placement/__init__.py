"""Tests of placement: every optimum is compared with brute force on clusters small enough for it."""
