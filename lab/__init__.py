"""The rehearsal machine park: packages, images, bare nodes and simulated GPUs. The product never imports it."""
