/* What every NVML function begins with: is NVML initialised, is the handle one of ours, is the GPU still there. */
#ifndef GPUSIM_SESSION_H
#define GPUSIM_SESSION_H

#include <stddef.h>

#include "state.h"

struct nvmlDevice_st {
    unsigned index;
    int gpu;
    nvmlDevice_t parent;
};

#define NEED(condition) \
    do { \
        if (!(condition)) return NVML_ERROR_INVALID_ARGUMENT; \
    } while (0)

/* Declares `state` and `gpu` of a usable device, or returns the reason why there is none. */
#define DEVICE(device) \
    const struct state *state; \
    const struct gpu *gpu; \
    do { \
        nvmlReturn_t reason = session_device(device, &state, &gpu); \
        if (reason != NVML_SUCCESS) return reason; \
    } while (0)

/* The same for what NVML learned when it found the GPU: it tells that of a lost GPU too. */
#define KNOWN_DEVICE(device) \
    const struct state *state; \
    const struct gpu *gpu; \
    do { \
        nvmlReturn_t reason = session_device(device, &state, &gpu); \
        if (reason != NVML_SUCCESS && reason != NVML_ERROR_GPU_IS_LOST) return reason; \
    } while (0)

nvmlReturn_t session_device(nvmlDevice_t device, const struct state **state, const struct gpu **gpu);
nvmlReturn_t session_state(const struct state **state);
int session_handle_index(nvmlDevice_t device);
/* Domain, bus and slot of a PCI address, or 0 for a text that is none. */
int pci_address(const char *text, unsigned parts[3]);
nvmlReturn_t session_text(char *out, unsigned size, const char *text);

#endif
