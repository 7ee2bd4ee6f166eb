"""Errors of the package."""

from __future__ import annotations


class Error(Exception):
    """Call that could not be carried out. ``hint`` says what to try, if there is something."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message: str = message
        self.hint: str | None = hint

    def __str__(self) -> str:
        return f"{self.message} (hint: {self.hint})" if self.hint else self.message


class UsageError(Error, ValueError):
    """Call whose arguments must change: a wrong value, an unknown name, a file that does not exist."""


class RecordingError(Error):
    """Recording that cannot be read: it is missing, or written by a newer version."""


class UnknownError(Error):
    """Figure that is unknown; the message is the reason."""


class DamageWarning(UserWarning):
    """Part of a recording that could not be read; the rows that could are in the result."""
