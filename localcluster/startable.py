"""What is started and stopped, as a context manager."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Startable(ABC):
    """Something that runs between `start` and `stop`; a start that fails half-way is stopped."""

    @abstractmethod
    def start(self) -> float:
        """Start everything and return the seconds that it took."""

    @abstractmethod
    def stop(self) -> None:
        """Stop whatever was started."""

    def __enter__(self) -> Self:
        """Start."""
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()
