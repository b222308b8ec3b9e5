#include <string.h>

#include "session.h"

#define EXPORT_TABLE_WORDS 512

static const struct {
    nvmlReturn_t code;
    const char *text;
} errors[] = {
    {NVML_SUCCESS, "Success"},
    {NVML_ERROR_UNINITIALIZED, "Uninitialized"},
    {NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"},
    {NVML_ERROR_NOT_SUPPORTED, "Not Supported"},
    {NVML_ERROR_NO_PERMISSION, "Insufficient Permissions"},
    {NVML_ERROR_ALREADY_INITIALIZED, "Already Initialized"},
    {NVML_ERROR_NOT_FOUND, "Not Found"},
    {NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"},
    {NVML_ERROR_INSUFFICIENT_POWER, "Insufficient External Power"},
    {NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"},
    {NVML_ERROR_TIMEOUT, "Timeout"},
    {NVML_ERROR_IRQ_ISSUE, "Interrupt Request Issue"},
    {NVML_ERROR_LIBRARY_NOT_FOUND, "NVML Shared Library Not Found"},
    {NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found"},
    {NVML_ERROR_CORRUPTED_INFOROM, "Corrupted infoROM"},
    {NVML_ERROR_GPU_IS_LOST, "GPU is lost"},
    {NVML_ERROR_RESET_REQUIRED, "GPU requires reset"},
    {NVML_ERROR_OPERATING_SYSTEM, "GPU access blocked by the operating system"},
    {NVML_ERROR_LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch"},
    {NVML_ERROR_IN_USE, "In use by another client"},
    {NVML_ERROR_MEMORY, "Insufficient Memory"},
    {NVML_ERROR_NO_DATA, "No data"},
    {NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Argument version mismatch"},
};

const char *nvmlErrorString(nvmlReturn_t code)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) return errors[i].text;
    return "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    const struct state *state;
    nvmlReturn_t result = session_state(&state);
    return result == NVML_SUCCESS ? session_text(version, length, state->driver) : result;
}

/* Works without nvmlInit, as the real one: nvidia-smi names the library's version in a mismatch. */
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    return session_text(version, length, GPUSIM_CUDA_MAJOR "." GPUSIM_DRIVER_VERSION);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    NEED(version);
    *version = GPUSIM_CUDA_VERSION;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return nvmlSystemGetCudaDriverVersion(version);
}

nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_t *info, unsigned int length)
{
    const struct state *state;
    nvmlReturn_t result = session_state(&state);
    if (result != NVML_SUCCESS) return result;
    NEED(info);
    return session_text(info->branch, length < sizeof info->branch ? length : sizeof info->branch,
                        "r" GPUSIM_DRIVER_BRANCH "_00");
}

nvmlReturn_t nvmlSystemGetHicVersion(unsigned int *count, nvmlHwbcEntry_t *entries)
{
    NEED(count);
    (void)entries;
    *count = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlUnitGetCount(unsigned int *count)
{
    NEED(count);
    *count = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int *count)
{
    NEED(count);
    *count = 0;
    return NVML_SUCCESS;
}

static nvmlReturn_t internal_not_supported(void)
{
    return NVML_ERROR_NOT_SUPPORTED;
}

/* NVIDIA's own programs ask for tables of internal functions: the first word is the size, none is supported. */
nvmlReturn_t nvmlInternalGetExportTable(const void **table, const void *id)
{
    static void *words[EXPORT_TABLE_WORDS];
    NEED(table);
    (void)id;
    if (!words[0]) {
        for (int i = 1; i < EXPORT_TABLE_WORDS; i++) words[i] = (void *)internal_not_supported;
        words[0] = (void *)sizeof words;
    }
    *table = words;
    return NVML_SUCCESS;
}
