"""Queues, quota, shares."""
