"""Simulated GPUs: the silicon of a node, the driver packages for it, faults, and the image that checks for a GPU."""

from lab.gpusim.driver_debs import build_driver_debs
from lab.gpusim.faults import KINDS, fault
from lab.gpusim.hardware import SiliconFiles, silicon
from lab.gpusim.sample_image import check_image

__all__ = ["KINDS", "SiliconFiles", "build_driver_debs", "check_image", "fault", "silicon"]
