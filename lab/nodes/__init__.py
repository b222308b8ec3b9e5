"""Nodes of a lab: containers that boot systemd and are reached over SSH like machines."""

from lab.nodes.errors import LabError
from lab.nodes.park import down, up
from lab.nodes.system import missing_packages

__all__ = ["LabError", "down", "missing_packages", "up"]
