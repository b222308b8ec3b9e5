/*
 * MIG: which GPUs are in that mode and what instances they are cut into. Unlike what a GPU is, nvidia-smi changes this
 * through NVML, so it has a file of its own, in lines: "mode GPU CURRENT PENDING", "gi GPU ID PROFILE START",
 * "ci GPU GI ID PROFILE START", and "end". The mode outlives a reboot, as on a real A100; instances don't.
 */
#ifndef GPUSIM_MIG_H
#define GPUSIM_MIG_H

#include "session.h"

#define MIG_PER_GPU 7
#define MAX_GI_IDS 15
#define MAX_CI_IDS 8

struct gpu_instance {
    int gpu, id, profile, start;
};

struct compute_instance {
    int gpu, gi, id, profile, start;
};

struct mig {
    int current[MAX_GPUS], pending[MAX_GPUS];
    int gis, cis;
    struct gpu_instance gi[MAX_GPUS * MIG_PER_GPU];
    struct compute_instance ci[MAX_GPUS * MIG_PER_GPU];
};

/* One way to cut a GPU. Sizes are in eighths of the memory, memory in MiB of a GPU with 40960. */
struct mig_profile {
    unsigned kind, id;
    const char *name;
    unsigned slices, size, total, multiprocessors, copy_engines, decoders, encoders, jpeg, ofa, memory_mib;
    unsigned starts, start[8];
    int first_id;
};

const struct mig_profile *mig_profile_of_kind(unsigned kind);
const struct mig_profile *mig_profile_of_id(unsigned id);
unsigned mig_memory_mib(const struct gpu *gpu, const struct mig_profile *profile);

/* The file: open and hold it as a user of the driver, read it whole, change it in place. */
void mig_open(void);
void mig_close(void);
void mig_read(struct mig *out);
/* Between these two nobody else changes the file; `end` writes it unless `changed` is NULL. */
nvmlReturn_t mig_begin(struct mig *out);
nvmlReturn_t mig_end(const struct mig *changed);
/* Whether somebody else has the driver open. */
int mig_others(void);

/* Device nodes of an instance: a container without them does not see it. */
int mig_gi_visible(const struct gpu *gpu, int gi);
int mig_ci_visible(const struct gpu *gpu, int gi, int ci);
void mig_node(const struct gpu *gpu, int gi, int ci, int exists);

/* A MIG device as a device of its own: which one a handle stands for, and the values that one may ask of it. */
struct mig_device {
    const struct gpu *gpu;
    struct gpu_instance gi;
    struct compute_instance ci;
    const struct mig_profile *profile;
};

nvmlReturn_t mig_device(nvmlDevice_t device, struct mig_device *out);
void mig_uuid(const struct gpu *gpu, int gi, int ci, char out[48]);
nvmlReturn_t mig_name(nvmlDevice_t device, char *text, unsigned int length);
nvmlReturn_t mig_memory(nvmlDevice_t device, unsigned long long *bytes);
nvmlReturn_t mig_find(const char *uuid, nvmlDevice_t *device);

#endif
