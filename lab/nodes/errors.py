"""The one error of this package."""


class LabError(Exception):
    """A step of the lab failed; the text says what was being done, what the tool said and what to do next."""
