"""Devices of Dynamic Resource Allocation: what there is, which of it a claim may have, and which of it it would get.

Values and pure functions that agree with kube-scheduler's allocator, device by device. Which claims there are, who
holds what and who is promised what is known further up: it comes in as an argument. No I/O, no clock.
"""
