#include <pthread.h>
#include <string.h>

#include "mig.h"

static struct nvmlDevice_st devices[MAX_GPUS];
static unsigned visible;
static int users;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

nvmlReturn_t session_text(char *out, unsigned size, const char *text)
{
    NEED(out);
    if (strlen(text) >= size) return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(out, text);
    return NVML_SUCCESS;
}

nvmlReturn_t session_state(const struct state **state)
{
    if (!users) return NVML_ERROR_UNINITIALIZED;
    *state = driver_state();
    return *state && (*state)->driver[0] ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t session_device(nvmlDevice_t device, const struct state **state, const struct gpu **gpu)
{
    nvmlReturn_t result = session_state(state);
    if (result != NVML_SUCCESS) return result;
    if (device < devices || device >= devices + visible || device->gpu >= (*state)->gpus)
        return NVML_ERROR_INVALID_ARGUMENT;
    *gpu = &(*state)->gpu[device->gpu];
    return gpu_is_lost(*state, device->gpu) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

int session_handle_index(nvmlDevice_t device)
{
    return device >= devices && device < devices + visible ? device->gpu : -1;
}

/* A GPU whose device node isn't there doesn't exist: so a container sees those that it was given. */
static void enumerate(const struct state *state)
{
    visible = 0;
    for (int i = 0; i < state->gpus; i++)
        if (gpu_node_exists(state->gpu[i].minor)) {
            devices[visible].gpu = i;
            devices[visible].index = visible;
            visible++;
        }
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    nvmlReturn_t result = NVML_SUCCESS;
    pthread_mutex_lock(&guard);
    if (!users) {
        result = driver_open();
        const struct state *state = result == NVML_SUCCESS ? driver_state() : NULL;
        if (state) {
            mig_open();
            enumerate(state);
        }
    }
    if (result == NVML_SUCCESS) users++;
    pthread_mutex_unlock(&guard);
    (void)flags;
    return result;
}

nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void)
{
    nvmlReturn_t result = NVML_SUCCESS;
    pthread_mutex_lock(&guard);
    if (!users)
        result = NVML_ERROR_UNINITIALIZED;
    else if (!--users) {
        mig_close();
        driver_close();
    }
    pthread_mutex_unlock(&guard);
    return result;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    const struct state *state;
    nvmlReturn_t result = session_state(&state);
    if (result != NVML_SUCCESS) return result;
    NEED(count);
    *count = visible;
    return NVML_SUCCESS;
}

static nvmlReturn_t handle(unsigned index, nvmlDevice_t *device)
{
    const struct state *state;
    const struct gpu *gpu;
    nvmlReturn_t result = session_device(&devices[index], &state, &gpu);
    if (result != NVML_SUCCESS) return result;
    result = gpu_node_access(gpu->minor);
    if (result != NVML_SUCCESS) return result;
    *device = &devices[index];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    const struct state *state;
    nvmlReturn_t result = session_state(&state);
    if (result != NVML_SUCCESS) return result;
    NEED(device && index < visible);
    return handle(index, device);
}

/* nvidia-smi and older programs write the PCI domain with four digits, NVML itself with eight. */
static int same_bus_id(const char *one, const char *other)
{
    unsigned a[3], b[3];
    return pci_address(one, a) && pci_address(other, b) && !memcmp(a, b, sizeof a);
}

static int same_uuid(const struct gpu *gpu, const char *text)
{
    return !strcmp(gpu->uuid, text);
}

static int same_serial(const struct gpu *gpu, const char *text)
{
    return !strcmp(gpu->serial, text);
}

static int same_bus(const struct gpu *gpu, const char *text)
{
    return same_bus_id(gpu->bus_id, text);
}

static nvmlReturn_t find(int (*same)(const struct gpu *, const char *), const char *text, nvmlDevice_t *device)
{
    const struct state *state;
    nvmlReturn_t result = session_state(&state);
    if (result != NVML_SUCCESS) return result;
    NEED(text && device);
    for (unsigned i = 0; i < visible; i++)
        if (same(&state->gpu[devices[i].gpu], text)) return handle(i, device);
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    nvmlReturn_t result = find(same_uuid, uuid, device);
    return result == NVML_ERROR_NOT_FOUND && !strncmp(uuid, "MIG-", 4) ? mig_find(uuid, device) : result;
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    return find(same_serial, serial, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    return find(same_bus, bus_id, device);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    unsigned is_mig = 0;
    if (nvmlDeviceIsMigDeviceHandle(device, &is_mig) == NVML_SUCCESS && is_mig) {
        NEED(index);
        *index = device->index;
        return NVML_SUCCESS;
    }
    KNOWN_DEVICE(device);
    NEED(index);
    (void)gpu;
    *index = device->index;
    return NVML_SUCCESS;
}

/* The names that programs looked up before NVML put versions into them. */
#undef nvmlInit
#undef nvmlDeviceGetCount
#undef nvmlDeviceGetHandleByIndex
#undef nvmlDeviceGetHandleByPciBusId

nvmlReturn_t nvmlInit(void)
{
    return nvmlInit_v2();
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
    return nvmlDeviceGetCount_v2(count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}
