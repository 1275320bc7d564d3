"""The errors that the local control plane raises; a message says what went wrong and what to do."""


class LocalClusterError(Exception):
    """Report that a part of the local control plane could not be built, started or reached."""


class NotInTimeError(LocalClusterError):
    """Report that something awaited did not happen before its deadline."""


class ApiError(LocalClusterError):
    """Report an answer of the API server that is not a success."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        """Keep the HTTP status, the API's one-word reason (such as `Forbidden`) and its message."""
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
