"""This package's exception."""


class LabError(Exception):
    """A step of the lab failed; the message contains the step, the tool's output, and what to do."""
