"""Simulated GPUs: a node's hardware, driver packages for it, faults, and an image that tests a GPU."""

from lab.gpusim.driver_debs import driver_content, key
from lab.gpusim.faults import KINDS, fault
from lab.gpusim.hardware import SiliconFiles, silicon
from lab.gpusim.sample_image import check_image

__all__ = ["KINDS", "SiliconFiles", "check_image", "driver_content", "fault", "key", "silicon"]
