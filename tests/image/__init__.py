"""The image, without a container engine: what its Dockerfile says, and what comes of running the same commands."""
