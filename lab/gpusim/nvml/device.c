/* What a GPU is, has and does. Groups of functions are there whole or not at all, or nvidia-smi prints nonsense. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mig.h"

#define MIB (1024ULL * 1024ULL)
#define ACCOUNTING_BUFFER 4000

#define GET_TEXT(function, expression) \
    nvmlReturn_t function(nvmlDevice_t device, char *text, unsigned int length) \
    { \
        DEVICE(device); \
        return session_text(text, length, expression); \
    }

#define GET(function, type, expression) \
    nvmlReturn_t function(nvmlDevice_t device, type *value) \
    { \
        DEVICE(device); \
        NEED(value); \
        (void)gpu; \
        *value = (type)(expression); \
        return NVML_SUCCESS; \
    }

#define GET_IF(function, type, condition, expression) \
    nvmlReturn_t function(nvmlDevice_t device, type *value) \
    { \
        DEVICE(device); \
        NEED(value); \
        if (!(condition)) return NVML_ERROR_NOT_SUPPORTED; \
        *value = (type)(expression); \
        return NVML_SUCCESS; \
    }

/* Identity */
GET_TEXT(nvmlDeviceGetSerial, gpu->serial)
GET_TEXT(nvmlDeviceGetVbiosVersion, gpu->vbios)
GET_TEXT(nvmlDeviceGetBoardPartNumber, gpu->board_part_number)
GET_TEXT(nvmlDeviceGetInforomImageVersion, gpu->inforom_image)
GET(nvmlDeviceGetBrand, nvmlBrandType_t, gpu->brand)
GET(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, gpu->architecture)
GET(nvmlDeviceGetNumGpuCores, unsigned int, gpu->cores)
GET(nvmlDeviceGetMultiGpuBoard, unsigned int, 0)
GET(nvmlDeviceGetBusType, nvmlBusType_t, NVML_BUS_TYPE_PCIE)

static int is_mig(nvmlDevice_t device)
{
    unsigned found = 0;
    return nvmlDeviceIsMigDeviceHandle(device, &found) == NVML_SUCCESS && found;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned int length)
{
    if (is_mig(device)) return mig_name(device, text, length);
    DEVICE(device);
    return session_text(text, length, gpu->name);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *text, unsigned int length)
{
    struct mig_device mig;
    char own[48];
    if (is_mig(device)) {
        nvmlReturn_t result = mig_device(device, &mig);
        if (result != NVML_SUCCESS) return result;
        mig_uuid(mig.gpu, mig.gi.id, mig.ci.id, own);
        return session_text(text, length, own);
    }
    KNOWN_DEVICE(device);
    return session_text(text, length, gpu->uuid);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
    KNOWN_DEVICE(device);
    NEED(minor);
    *minor = (unsigned)gpu->minor;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    DEVICE(device);
    NEED(major && minor);
    *major = gpu->compute_major;
    *minor = gpu->compute_minor;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t device, nvmlInforomObject_t object, char *text, unsigned int size)
{
    DEVICE(device);
    if (object == NVML_INFOROM_OEM) return session_text(text, size, gpu->inforom_oem);
    if (object == NVML_INFOROM_ECC) return session_text(text, size, gpu->inforom_ecc);
    return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    DEVICE(device);
    (void)gpu;
    return session_text(version, NVML_GSP_FIRMWARE_VERSION_BUF_SIZE, state->driver);
}

nvmlReturn_t nvmlDeviceGetGspFirmwareMode(nvmlDevice_t device, unsigned int *enabled, unsigned int *standard)
{
    DEVICE(device);
    NEED(enabled && standard);
    (void)gpu;
    *enabled = *standard = 1;
    return NVML_SUCCESS;
}

/* Where it sits */
int pci_address(const char *text, unsigned parts[3])
{
    /* Not sscanf: its symbol depends on the C library that this was built with. */
    for (int i = 0; i < 3; i++, text++) {
        const char *start = text;
        parts[i] = 0;
        for (;; text++) {
            int digit = hex_digit(*text);
            if (digit < 0) break;
            parts[i] = parts[i] * 16 + (unsigned)digit;
        }
        if (text == start || *text != (i < 2 ? ':' : '.')) return 0;
    }
    return 1;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    KNOWN_DEVICE(device);
    NEED(pci);
    unsigned at[3];
    NEED(pci_address(gpu->bus_id, at));
    memset(pci, 0, sizeof *pci);
    pci->domain = at[0];
    pci->bus = at[1];
    pci->device = at[2];
    pci->pciDeviceId = (unsigned)gpu->pci_device_id << 16 | 0x10de;
    pci->pciSubSystemId = (unsigned)gpu->pci_subsystem_id << 16 | 0x10de;
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci)
{
    nvmlPciInfo_t plain;
    NEED(pci);
    nvmlReturn_t result = nvmlDeviceGetPciInfo_v3(device, &plain);
    if (result != NVML_SUCCESS) return result;
    pci->domain = plain.domain;
    pci->bus = plain.bus;
    pci->device = plain.device;
    pci->pciDeviceId = plain.pciDeviceId;
    pci->pciSubSystemId = plain.pciSubSystemId;
    pci->baseClass = 3;
    pci->subClass = 2;
    return session_text(pci->busId, sizeof pci->busId, plain.busId);
}

nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned int *board)
{
    unsigned at[3];
    DEVICE(device);
    NEED(board && pci_address(gpu->bus_id, at));
    *board = at[1] << 8 | at[2];
    return NVML_SUCCESS;
}

GET(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, gpu->pcie_generation)
GET(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned int, gpu->pcie_generation)
GET(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, gpu->pcie_generation)
GET(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, gpu->pcie_width)
GET(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, gpu->pcie_width)
GET(nvmlDeviceGetPcieReplayCounter, unsigned int, 0)

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned int *value)
{
    DEVICE(device);
    NEED(value && counter < NVML_PCIE_UTIL_COUNT);
    (void)gpu;
    *value = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other, nvmlGpuTopologyLevel_t *level)
{
    DEVICE(device);
    int second = session_handle_index(other);
    NEED(level && second >= 0 && second < state->gpus);
    *level = device == other                                        ? NVML_TOPOLOGY_INTERNAL
             : gpu->numa_node == state->gpu[second].numa_node ? NVML_TOPOLOGY_NODE
                                                              : NVML_TOPOLOGY_SYSTEM;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words, unsigned long *set)
{
    DEVICE(device);
    NEED(set && words);
    (void)gpu;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN), width = 8 * (long)sizeof *set;
    memset(set, 0, words * sizeof *set);
    for (long cpu = 0; cpu < cpus && cpu < (long)words * width; cpu++) set[cpu / width] |= 1UL << (cpu % width);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int words, unsigned long *set,
                                                 nvmlAffinityScope_t scope)
{
    (void)scope;
    return nvmlDeviceGetCpuAffinity(device, words, set);
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int words, unsigned long *set,
                                         nvmlAffinityScope_t scope)
{
    DEVICE(device);
    NEED(set && words);
    (void)scope;
    memset(set, 0, words * sizeof *set);
    if (gpu->numa_node >= 0) set[0] = 1UL << gpu->numa_node;
    return NVML_SUCCESS;
}

/* Memory */
GET(nvmlDeviceGetMemoryBusWidth, unsigned int, gpu->memory_bus_width)

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    NEED(memory);
    if (is_mig(device)) {
        *memory = (nvmlMemory_t){0};
        nvmlReturn_t result = mig_memory(device, &memory->total);
        memory->free = memory->total;
        return result;
    }
    DEVICE(device);
    memory->total = (unsigned)gpu->memory_total_mib * MIB;
    memory->used = (unsigned)gpu->memory_reserved_mib * MIB;
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    NEED(memory);
    if (memory->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (is_mig(device)) {
        memory->reserved = memory->used = 0;
        nvmlReturn_t result = mig_memory(device, &memory->total);
        memory->free = memory->total;
        return result;
    }
    DEVICE(device);
    memory->total = (unsigned)gpu->memory_total_mib * MIB;
    memory->reserved = (unsigned)gpu->memory_reserved_mib * MIB;
    memory->used = 0;
    memory->free = memory->total - memory->reserved;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    NEED(memory);
    if (is_mig(device)) {
        nvmlReturn_t result = mig_memory(device, &memory->bar1Total);
        memory->bar1Used = 0;
        memory->bar1Free = memory->bar1Total;
        return result;
    }
    DEVICE(device);
    memory->bar1Total = (unsigned)gpu->bar1_total_mib * MIB;
    memory->bar1Used = (unsigned)gpu->bar1_used_mib * MIB;
    memory->bar1Free = memory->bar1Total - memory->bar1Used;
    return NVML_SUCCESS;
}

/* Power, temperature, clocks */
GET(nvmlDeviceGetPowerManagementMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
GET(nvmlDeviceGetPowerManagementLimit, unsigned int, gpu->power_limit_mw)
GET(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, gpu->power_limit_mw)
GET(nvmlDeviceGetEnforcedPowerLimit, unsigned int, gpu->power_limit_mw)
GET(nvmlDeviceGetPowerUsage, unsigned int, gpu->power_usage_mw)
GET(nvmlDeviceGetPowerState, nvmlPstates_t, NVML_PSTATE_0)
GET(nvmlDeviceGetPerformanceState, nvmlPstates_t, NVML_PSTATE_0)
GET(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, nvmlClocksEventReasonGpuIdle)
GET(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, nvmlClocksEventReasonGpuIdle)
GET(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, 0x1ff)
GET(nvmlDeviceGetSupportedClocksThrottleReasons, unsigned long long, 0x1ff)

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *low, unsigned int *high)
{
    DEVICE(device);
    NEED(low && high);
    *low = (unsigned)gpu->power_min_mw;
    *high = (unsigned)gpu->power_max_mw;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *celsius)
{
    DEVICE(device);
    NEED(celsius && sensor == NVML_TEMPERATURE_GPU);
    *celsius = (unsigned)gpu->temperature;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    DEVICE(device);
    NEED(temperature && temperature->sensorType == NVML_TEMPERATURE_GPU);
    temperature->temperature = gpu->temperature;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t kind,
                                               unsigned int *celsius)
{
    DEVICE(device);
    NEED(celsius);
    int value = kind == NVML_TEMPERATURE_THRESHOLD_SHUTDOWN   ? gpu->temperature_shutdown
                : kind == NVML_TEMPERATURE_THRESHOLD_SLOWDOWN ? gpu->temperature_slowdown
                : kind == NVML_TEMPERATURE_THRESHOLD_GPU_MAX  ? gpu->temperature_max
                : kind == NVML_TEMPERATURE_THRESHOLD_MEM_MAX  ? gpu->memory_temperature_max
                                                              : 0;
    if (!value) return NVML_ERROR_NOT_SUPPORTED;
    *celsius = (unsigned)value;
    return NVML_SUCCESS;
}

static int clock_of(const struct gpu *gpu, nvmlClockType_t type, int highest)
{
    switch (type) {
    case NVML_CLOCK_GRAPHICS:
    case NVML_CLOCK_SM: return highest ? gpu->clock_graphics_max : gpu->clock_graphics;
    case NVML_CLOCK_MEM: return highest ? gpu->clock_memory_max : gpu->clock_memory;
    case NVML_CLOCK_VIDEO: return highest ? gpu->clock_video_max : gpu->clock_video;
    default: return 0;
    }
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
    DEVICE(device);
    NEED(mhz && type < NVML_CLOCK_COUNT);
    *mhz = (unsigned)clock_of(gpu, type, 0);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
    DEVICE(device);
    NEED(mhz && type < NVML_CLOCK_COUNT);
    *mhz = (unsigned)clock_of(gpu, type, 1);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
    return nvmlDeviceGetMaxClockInfo(device, type, mhz);
}

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id, unsigned int *mhz)
{
    if (id == NVML_CLOCK_ID_CURRENT) return nvmlDeviceGetClockInfo(device, type, mhz);
    if (id == NVML_CLOCK_ID_CUSTOMER_BOOST_MAX) return nvmlDeviceGetMaxClockInfo(device, type, mhz);
    return NVML_ERROR_NOT_SUPPORTED;
}

/* Load: an idle GPU */
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    DEVICE(device);
    NEED(rates);
    (void)gpu;
    rates->gpu = rates->memory = 0;
    return NVML_SUCCESS;
}

static nvmlReturn_t no_load(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us)
{
    DEVICE(device);
    NEED(percent && period_us);
    (void)gpu;
    *percent = 0;
    *period_us = 167000;
    return NVML_SUCCESS;
}

#define NO_LOAD(function) \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us) \
    { \
        return no_load(device, percent, period_us); \
    }
NO_LOAD(nvmlDeviceGetEncoderUtilization)
NO_LOAD(nvmlDeviceGetDecoderUtilization)
NO_LOAD(nvmlDeviceGetJpgUtilization)
NO_LOAD(nvmlDeviceGetOfaUtilization)

nvmlReturn_t nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned int *sessions, unsigned int *fps,
                                       unsigned int *latency)
{
    DEVICE(device);
    NEED(sessions && fps && latency);
    (void)gpu;
    *sessions = *fps = *latency = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFBCStats(nvmlDevice_t device, nvmlFBCStats_t *stats)
{
    DEVICE(device);
    NEED(stats);
    (void)gpu;
    memset(stats, 0, sizeof *stats);
    return NVML_SUCCESS;
}

#define NO_PROCESSES(function) \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *processes) \
    { \
        DEVICE(device); \
        NEED(count); \
        (void)gpu; \
        (void)processes; \
        *count = 0; \
        return NVML_SUCCESS; \
    }
NO_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)

/* Modes */
GET(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
GET(nvmlDeviceGetDisplayMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
GET(nvmlDeviceGetDisplayActive, nvmlEnableState_t, NVML_FEATURE_DISABLED)
GET(nvmlDeviceGetComputeMode, nvmlComputeMode_t, NVML_COMPUTEMODE_DEFAULT)
GET(nvmlDeviceGetVirtualizationMode, nvmlGpuVirtualizationMode_t, NVML_GPU_VIRTUALIZATION_MODE_NONE)
GET(nvmlDeviceGetAccountingMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
GET(nvmlDeviceGetAccountingBufferSize, unsigned int, ACCOUNTING_BUFFER)

/* Memory errors: none */
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
    DEVICE(device);
    NEED(current && pending);
    (void)gpu;
    *current = *pending = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}

GET(nvmlDeviceGetDefaultEccMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t kind, nvmlEccCounterType_t counter,
                                         unsigned long long *errors)
{
    NEED(errors && kind < NVML_MEMORY_ERROR_TYPE_COUNT && counter < NVML_ECC_COUNTER_TYPE_COUNT);
    *errors = 0;
    if (is_mig(device)) return NVML_SUCCESS;
    DEVICE(device);
    (void)gpu;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t kind,
                                             nvmlEccCounterType_t counter, nvmlMemoryLocation_t place,
                                             unsigned long long *errors)
{
    if (place != NVML_MEMORY_LOCATION_SRAM && place != NVML_MEMORY_LOCATION_DRAM) return NVML_ERROR_NOT_SUPPORTED;
    return nvmlDeviceGetTotalEccErrors(device, kind, counter, errors);
}

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned int *count,
                                       unsigned long long *addresses)
{
    DEVICE(device);
    NEED(count);
    (void)cause;
    (void)addresses;
    if (gpu->row_remapping) return NVML_ERROR_NOT_SUPPORTED;
    *count = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned int *count,
                                          unsigned long long *addresses, unsigned long long *times)
{
    (void)times;
    return nvmlDeviceGetRetiredPages(device, cause, count, addresses);
}

GET_IF(nvmlDeviceGetRetiredPagesPendingStatus, nvmlEnableState_t, !gpu->row_remapping,
       gpu_memory_pending(state, gpu->minor) ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED)

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable, unsigned int *uncorrectable,
                                       unsigned int *pending, unsigned int *failed)
{
    DEVICE(device);
    NEED(correctable && uncorrectable && pending && failed);
    if (!gpu->row_remapping) return NVML_ERROR_NOT_SUPPORTED;
    *correctable = *failed = 0;
    *uncorrectable = *pending = (unsigned)gpu_memory_pending(state, gpu->minor);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *values)
{
    DEVICE(device);
    NEED(values);
    if (!gpu->row_remapping) return NVML_ERROR_NOT_SUPPORTED;
    memset(values, 0, sizeof *values);
    values->max = 640;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_t *status)
{
    DEVICE(device);
    NEED(status);
    if (!gpu->row_remapping) return NVML_ERROR_NOT_SUPPORTED;
    unsigned version = status->version;
    if (version != nvmlEccSramErrorStatus_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memset(status, 0, sizeof *status);
    status->version = version;
    return NVML_SUCCESS;
}

/* The same figures by number; -1 for those that aren't simulated. */
static int field_value(const struct gpu *gpu, const nvmlFieldValue_t *field)
{
    if (field->scopeId == NVML_POWER_SCOPE_GPU) switch (field->fieldId) {
        case NVML_FI_DEV_POWER_INSTANT: return gpu->power_usage_mw;
        case NVML_FI_DEV_POWER_MIN_LIMIT: return gpu->power_min_mw;
        case NVML_FI_DEV_POWER_MAX_LIMIT: return gpu->power_max_mw;
        case NVML_FI_DEV_POWER_DEFAULT_LIMIT:
        case NVML_FI_DEV_POWER_CURRENT_LIMIT:
        case NVML_FI_DEV_POWER_REQUESTED_LIMIT: return gpu->power_limit_mw;
        default: break;
        }
    if (field->fieldId == NVML_FI_DEV_MEMORY_TEMP && gpu->memory_temperature) return gpu->memory_temperature;
    if (field->fieldId == NVML_FI_DEV_PCIE_REPLAY_ROLLOVER_COUNTER) return 0;
    return -1;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    DEVICE(device);
    NEED(values && count > 0);
    for (int i = 0; i < count; i++) {
        int value = field_value(gpu, &values[i]);
        values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
        values[i].nvmlReturn = value < 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
        values[i].value.ullVal = 0;
        if (value >= 0) values[i].value.uiVal = (unsigned)value;
    }
    return NVML_SUCCESS;
}
