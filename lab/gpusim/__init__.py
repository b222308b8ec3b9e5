"""Simulated GPUs: the silicon of a node, the driver packages for it, faults, and the image that checks for a GPU."""

from lab.gpusim.driver_debs import driver_content, key
from lab.gpusim.faults import KINDS, fault
from lab.gpusim.hardware import SiliconFiles, silicon
from lab.gpusim.sample_image import check_image

__all__ = ["KINDS", "SiliconFiles", "check_image", "driver_content", "fault", "key", "silicon"]
