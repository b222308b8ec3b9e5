#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "state.h"

#define BUFFER 65536

/* nvidia-ctk mounts every gsp*.bin of the driver's version into containers: so the description gets there by itself. */
#define STATE_PATH "/lib/firmware/nvidia/" GPUSIM_DRIVER_VERSION "/gsp_gpusim.bin"
#define PROC_PATH "/proc/driver/nvidia/version"
#define DEV_PATH "/dev"

static int state_file = -1;
static char *last_text;
static struct state *last_state;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static const char *path_of(const char *variable, const char *standard)
{
    const char *chosen = getenv(variable);
    return chosen && *chosen ? chosen : standard;
}

/*
 * A container may reach the library by a mount of its host's root, without what nvidia-ctk mounts: the state is found
 * below the same root then. (Not dladdr: its symbol depends on the C library that this was built with.)
 */
static int open_beside_library(const char *name)
{
    char line[1024], *start, *end;
    int found = -1;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && found < 0 && fgets(line, sizeof line, maps)) {
        if (!strstr(line, "/libnvidia-ml.so") || !(start = strchr(line, '/')) || !(end = strstr(start, "/usr/lib/")))
            continue;
        size_t length = (size_t)(end - start);
        if (!length || length + strlen(name) >= sizeof line) continue;
        memmove(line, start, length);
        strcpy(line + length, name);
        found = open(line, O_RDONLY | O_CLOEXEC);
    }
    if (maps) fclose(maps);
    return found;
}

int driver_open_file(const char *path, const char *name)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    return file < 0 ? open_beside_library(name) : file;
}

static int other_version_loaded(void)
{
    char text[512] = "";
    int file = open(path_of("GPUSIM_PROC_VERSION", PROC_PATH), O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    return length > 0 && !strstr(text, "  " GPUSIM_DRIVER_VERSION "  ");
}

/* Whoever edits the file truncates and rewrites it: a text that doesn't parse is one that isn't whole yet. */
static int refresh(void)
{
    static char text[BUFFER];
    for (int attempt = 0; attempt < 100; attempt++) {
        ssize_t length = pread(state_file, text, BUFFER - 1, 0);
        if (length >= 0) {
            text[length] = '\0';
            if (last_text && !strcmp(text, last_text)) return 0;
            struct state *parsed = malloc(sizeof *parsed);
            char *copy = strdup(text);
            if (parsed && copy && !state_parse(text, parsed)) {
                /* The former state is left to whoever still reads it; changes are rare and small. */
                last_state = parsed;
                last_text = copy;
                return 0;
            }
            free(parsed);
            free(copy);
        }
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    return last_state ? 0 : -1;
}

static int has_fault(const struct state *state, const char *kind, int gpu)
{
    for (int i = 0; i < state->faults; i++)
        if (!strcmp(state->fault[i].kind, kind) && (gpu < 0 || state->fault[i].gpu == gpu)) return 1;
    return 0;
}

/*
 * access() meets the same permission and device cgroup checks as open() and never reaches a driver, so a real GPU of
 * the machine below is left alone.
 */
static nvmlReturn_t node_access(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", path_of("GPUSIM_DEV", DEV_PATH), name);
    if (!access(path, R_OK | W_OK)) return NVML_SUCCESS;
    switch (errno) {
    case ENOENT:
    case ENOTDIR: return NVML_ERROR_NOT_FOUND;
    case EACCES: return NVML_ERROR_NO_PERMISSION;
    default: return NVML_ERROR_UNKNOWN;
    }
}

nvmlReturn_t driver_open(void)
{
    nvmlReturn_t result = NVML_SUCCESS;
    pthread_mutex_lock(&guard);
    state_file = driver_open_file(path_of("GPUSIM_STATE", STATE_PATH), STATE_PATH);
    if (state_file < 0)
        result = other_version_loaded() ? NVML_ERROR_LIB_RM_VERSION_MISMATCH : NVML_ERROR_DRIVER_NOT_LOADED;
    else if (refresh() || !last_state->driver[0])
        result = NVML_ERROR_DRIVER_NOT_LOADED;
    else if (strcmp(last_state->driver, GPUSIM_DRIVER_VERSION) || has_fault(last_state, "mismatch", -1))
        result = NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    else {
        result = node_access("nvidiactl");
        if (result == NVML_ERROR_NOT_FOUND) result = NVML_ERROR_DRIVER_NOT_LOADED;
    }
    if (result == NVML_SUCCESS)
        /* A driver in use can't be unloaded: the simulated module takes this lock before it goes. */
        flock(state_file, LOCK_SH | LOCK_NB);
    else if (state_file >= 0) {
        close(state_file);
        state_file = -1;
    }
    pthread_mutex_unlock(&guard);
    return result;
}

void driver_close(void)
{
    pthread_mutex_lock(&guard);
    if (state_file >= 0) close(state_file);
    state_file = -1;
    pthread_mutex_unlock(&guard);
}

const struct state *driver_state(void)
{
    pthread_mutex_lock(&guard);
    const struct state *state = state_file >= 0 && !refresh() ? last_state : NULL;
    pthread_mutex_unlock(&guard);
    return state;
}

int driver_last_sequence(const struct state *state)
{
    int last = 0;
    for (int i = 0; state && i < state->faults; i++)
        if (state->fault[i].sequence > last) last = state->fault[i].sequence;
    return last;
}

int gpu_is_lost(const struct state *state, int gpu)
{
    return has_fault(state, "lost", gpu);
}

int gpu_memory_pending(const struct state *state, int gpu)
{
    return has_fault(state, "pending", gpu);
}

nvmlReturn_t gpu_node_access(int minor)
{
    char name[32];
    snprintf(name, sizeof name, "nvidia%d", minor);
    return node_access(name);
}

int gpu_node_exists(int minor)
{
    return gpu_node_access(minor) != NVML_ERROR_NOT_FOUND;
}
