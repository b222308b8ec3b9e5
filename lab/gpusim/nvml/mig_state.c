#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "mig.h"

/* As the state file is, this one is mounted into containers by its name: read-only, so they can't cut a GPU. */
#define MIG_PATH "/lib/firmware/nvidia/" GPUSIM_DRIVER_VERSION "/gsp_mig.bin"
#define BUFFER 16384
/* Minor numbers of capabilities: 1 and 2 are for configuring and watching, then 135 for each GPU. */
#define FIRST_CAP 3
#define CAPS_OF_GI (1 + MAX_CI_IDS)
#define CAPS_OF_GPU (MAX_GI_IDS * CAPS_OF_GI)

static int mig_file = -1;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static const char *dev_path(void)
{
    const char *chosen = getenv("GPUSIM_DEV");
    return chosen && *chosen ? chosen : "/dev";
}

void mig_open(void)
{
    const char *chosen = getenv("GPUSIM_MIG");
    mig_file = driver_open_file(chosen && *chosen ? chosen : MIG_PATH, MIG_PATH);
    if (mig_file >= 0) flock(mig_file, LOCK_SH | LOCK_NB);
}

void mig_close(void)
{
    if (mig_file >= 0) close(mig_file);
    mig_file = -1;
}

int mig_others(void)
{
    /* A lock of one's own alone becomes exclusive; the shared one comes back either way. */
    int alone = mig_file >= 0 && !flock(mig_file, LOCK_EX | LOCK_NB);
    if (mig_file >= 0) flock(mig_file, LOCK_SH | LOCK_NB);
    return !alone;
}

static const char *numbers(const char *p, int *out, int count)
{
    for (int i = 0; i < count; i++) {
        while (*p == ' ') p++;
        if (*p < '0' || *p > '9') return NULL;
        for (out[i] = 0; *p >= '0' && *p <= '9'; p++) out[i] = out[i] * 10 + (*p - '0');
    }
    return *p == '\n' ? p + 1 : NULL;
}

static int parse(const char *p, struct mig *out)
{
    int n[5];
    memset(out, 0, sizeof *out);
    while (p && *p) {
        if (!strncmp(p, "end\n", 4)) return 0;
        if (!strncmp(p, "mode ", 5)) {
            p = numbers(p + 5, n, 3);
            if (p && n[0] < MAX_GPUS) out->current[n[0]] = n[1], out->pending[n[0]] = n[2];
        } else if (!strncmp(p, "gi ", 3)) {
            p = numbers(p + 3, n, 4);
            if (p && out->gis < MAX_GPUS * MIG_PER_GPU)
                out->gi[out->gis++] = (struct gpu_instance){n[0], n[1], n[2], n[3]};
        } else if (!strncmp(p, "ci ", 3)) {
            p = numbers(p + 3, n, 5);
            if (p && out->cis < MAX_GPUS * MIG_PER_GPU)
                out->ci[out->cis++] = (struct compute_instance){n[0], n[1], n[2], n[3], n[4]};
        } else {
            return -1;
        }
    }
    return -1;
}

/* Whoever changes the file truncates it last: a text without its end is one that isn't whole yet. */
void mig_read(struct mig *out)
{
    char text[BUFFER];
    memset(out, 0, sizeof *out);
    for (int attempt = 0; mig_file >= 0 && attempt < 50; attempt++) {
        ssize_t length = pread(mig_file, text, sizeof text - 1, 0);
        if (length == 0) return;
        if (length > 0) {
            text[length] = '\0';
            if (!parse(text, out)) return;
        }
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
}

static int writable = -1;

nvmlReturn_t mig_begin(struct mig *out)
{
    char path[64];
    if (mig_file < 0) return NVML_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&guard);
    snprintf(path, sizeof path, "/proc/self/fd/%d", mig_file);
    writable = open(path, O_RDWR | O_CLOEXEC);
    if (writable < 0) {
        pthread_mutex_unlock(&guard);
        return NVML_ERROR_NO_PERMISSION;
    }
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    while (fcntl(writable, F_SETLKW, &lock) && errno == EINTR) continue;
    mig_read(out);
    return NVML_SUCCESS;
}

nvmlReturn_t mig_end(const struct mig *changed)
{
    char text[BUFFER];
    int n = 0, written = 1;
    if (changed) {
        for (int i = 0; i < MAX_GPUS; i++)
            if (changed->current[i] || changed->pending[i])
                n += snprintf(text + n, sizeof text - (size_t)n, "mode %d %d %d\n", i, changed->current[i],
                              changed->pending[i]);
        for (int i = 0; i < changed->gis; i++) {
            const struct gpu_instance *gi = &changed->gi[i];
            n += snprintf(text + n, sizeof text - (size_t)n, "gi %d %d %d %d\n", gi->gpu, gi->id, gi->profile,
                          gi->start);
        }
        for (int i = 0; i < changed->cis; i++) {
            const struct compute_instance *ci = &changed->ci[i];
            n += snprintf(text + n, sizeof text - (size_t)n, "ci %d %d %d %d %d\n", ci->gpu, ci->gi, ci->id,
                          ci->profile, ci->start);
        }
        n += snprintf(text + n, sizeof text - (size_t)n, "end\n");
        written = pwrite(writable, text, (size_t)n, 0) == n && !ftruncate(writable, n);
    }
    /* Closing lets the lock go. */
    close(writable);
    writable = -1;
    pthread_mutex_unlock(&guard);
    return written ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

static void cap_path(const struct gpu *gpu, int gi, int ci, char *out, size_t size)
{
    int minor = FIRST_CAP + gpu->minor * CAPS_OF_GPU + gi * CAPS_OF_GI + (ci < 0 ? 0 : 1 + ci);
    snprintf(out, size, "%s/nvidia-caps/nvidia-cap%d", dev_path(), minor);
}

int mig_gi_visible(const struct gpu *gpu, int gi)
{
    char path[512];
    cap_path(gpu, gi, -1, path, sizeof path);
    return !access(path, R_OK);
}

int mig_ci_visible(const struct gpu *gpu, int gi, int ci)
{
    char path[512];
    cap_path(gpu, gi, ci, path, sizeof path);
    return mig_gi_visible(gpu, gi) && !access(path, R_OK);
}

static unsigned caps_major(void)
{
    char line[128];
    unsigned major = 0;
    FILE *devices = fopen("/proc/devices", "re");
    while (devices && fgets(line, sizeof line, devices)) {
        const char *p = line;
        unsigned number = 0;
        while (*p == ' ') p++;
        for (; *p >= '0' && *p <= '9'; p++) number = number * 10 + (unsigned)(*p - '0');
        if (!strcmp(p, " nvidia-caps\n")) major = number;
    }
    if (devices) fclose(devices);
    return major;
}

/* The real NVML has nvidia-modprobe make these nodes. (By syscall: mknod's symbol depends on the C library.) */
void mig_node(const struct gpu *gpu, int gi, int ci, int exists)
{
    char path[512];
    unsigned major = caps_major();
    cap_path(gpu, gi, ci, path, sizeof path);
    if (!exists) {
        unlink(path);
        return;
    }
    int minor = FIRST_CAP + gpu->minor * CAPS_OF_GPU + gi * CAPS_OF_GI + (ci < 0 ? 0 : 1 + ci);
    if (major && !syscall(SYS_mknodat, AT_FDCWD, path, S_IFCHR | 0666, (unsigned)makedev(major, (unsigned)minor))) return;
    /* On a scratch machine of a test a file stands for the node. */
    int file = major ? -1 : open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    if (file >= 0) close(file);
}
