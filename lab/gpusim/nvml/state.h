/*
 * What the simulated driver knows, read anew whenever its state file changes.
 *
 * The file is JSON: {"driver": "<loaded version>", "faults": [...], "silicon": {"gpus": [{...}]}}.
 * It is edited in place only, so that containers that were given it by a bind mount see every change.
 */
#ifndef GPUSIM_STATE_H
#define GPUSIM_STATE_H

#include "nvml.h"

#define MAX_GPUS 16
#define MAX_FAULTS 32

struct gpu {
    char uuid[48], name[64], serial[24], bus_id[32], vbios[24], board_part_number[40];
    char inforom_image[24], inforom_oem[8], inforom_ecc[8];
    int minor, architecture, brand, compute_major, compute_minor, numa_node, mig_capable, cores, memory_bus_width;
    int pci_device_id, pci_subsystem_id;
    int memory_total_mib, memory_reserved_mib, bar1_total_mib, bar1_used_mib;
    int power_usage_mw, power_limit_mw, power_min_mw, power_max_mw;
    int temperature, temperature_shutdown, temperature_slowdown, temperature_max, memory_temperature,
        memory_temperature_max;
    int clock_graphics, clock_memory, clock_video, clock_graphics_max, clock_memory_max, clock_video_max;
    int pcie_generation, pcie_width, row_remapping;
};

struct fault {
    char kind[16];
    int gpu, xid, sequence;
};

struct state {
    char driver[32];
    int gpus, faults;
    struct gpu gpu[MAX_GPUS];
    struct fault fault[MAX_FAULTS];
};

/* Parse a whole document; returns 0, or -1 for text that isn't complete and well-formed. */
int state_parse(const char *text, struct state *out);

/* Value of a hexadecimal digit, or -1. */
int hex_digit(char c);

/* Open the driver's state and hold it as a user of the driver; returns what nvmlInit has to say. */
nvmlReturn_t driver_open(void);
/* Open a file of the driver, or, where it isn't there, the one of this name below the root that the library is of. */
int driver_open_file(const char *path, const char *name);
void driver_close(void);

/* The current state, or NULL while the driver isn't open. */
const struct state *driver_state(void);

/* Highest fault number handed out so far. */
int driver_last_sequence(const struct state *state);

/* Whether the GPU has fallen off the bus. */
int gpu_is_lost(const struct state *state, int gpu);

/* Whether bad memory of the GPU waits for a reset to be taken out of use. */
int gpu_memory_pending(const struct state *state, int gpu);

/* Whether /dev/nvidia<minor> is there; opening it tells nothing without a kernel module. */
int gpu_node_exists(int minor);
nvmlReturn_t gpu_node_access(int minor);

#endif
