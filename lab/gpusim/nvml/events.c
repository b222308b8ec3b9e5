/* Xid errors reach the device plugin's health check this way: they are numbered entries in the state file. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "session.h"

#define SUPPORTED (nvmlEventTypeSingleBitEccError | nvmlEventTypeDoubleBitEccError | nvmlEventTypeXidCriticalError)
#define POLL_MS 50
#define XID_FALLEN_OFF_THE_BUS 79
#define NO_INSTANCE 0xFFFFFFFFu

struct nvmlEventSet_st {
    unsigned long long wanted[MAX_GPUS];
    nvmlDevice_t device[MAX_GPUS];
    int seen;
};

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    const struct state *state;
    nvmlReturn_t result = session_state(&state);
    if (result != NVML_SUCCESS) return result;
    NEED(set);
    *set = calloc(1, sizeof **set);
    if (!*set) return NVML_ERROR_MEMORY;
    (*set)->seen = driver_last_sequence(state);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    free(set);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    DEVICE(device);
    NEED(types);
    (void)gpu;
    *types = SUPPORTED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    DEVICE(device);
    NEED(set);
    (void)gpu;
    if (types & ~(unsigned long long)SUPPORTED) return NVML_ERROR_NOT_SUPPORTED;
    set->wanted[device->gpu] |= types;
    set->device[device->gpu] = device;
    return NVML_SUCCESS;
}

static const struct fault *next(nvmlEventSet_t set, const struct state *state)
{
    const struct fault *first = NULL;
    for (int i = 0; i < state->faults; i++) {
        const struct fault *fault = &state->fault[i];
        int known = !strcmp(fault->kind, "xid") || !strcmp(fault->kind, "lost");
        if (known && fault->sequence > set->seen && fault->gpu >= 0 && fault->gpu < MAX_GPUS &&
            set->wanted[fault->gpu] & nvmlEventTypeXidCriticalError && (!first || fault->sequence < first->sequence))
            first = fault;
    }
    return first;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    NEED(set && data);
    for (unsigned waited = 0;; waited += POLL_MS) {
        const struct state *state;
        nvmlReturn_t result = session_state(&state);
        if (result != NVML_SUCCESS) return result;
        const struct fault *fault = next(set, state);
        if (fault) {
            memset(data, 0, sizeof *data);
            data->device = set->device[fault->gpu];
            data->eventType = nvmlEventTypeXidCriticalError;
            data->eventData = (unsigned)(strcmp(fault->kind, "lost") ? fault->xid : XID_FALLEN_OFF_THE_BUS);
            data->gpuInstanceId = data->computeInstanceId = NO_INSTANCE;
            set->seen = fault->sequence;
            return NVML_SUCCESS;
        }
        if (waited >= timeout_ms) return NVML_ERROR_TIMEOUT;
        nanosleep(&(struct timespec){0, POLL_MS * 1000000}, NULL);
    }
}
