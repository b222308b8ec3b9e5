"""The lab: packages, images, bare nodes and simulated GPUs for rehearsals. The product never imports it."""
