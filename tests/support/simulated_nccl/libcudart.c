/* Stands for libcudart.so.12 in a rank without a GPU: the calls that block a host thread, with the waits that the real
 * ones have, and a stream of kernels that a thread of its own runs in order.
 *
 * cudaStreamSynchronize spins in user mode until the stream is empty (cudaDeviceScheduleAuto with at most as many
 * contexts as processors); cudaLaunchKernel returns at once unless the launch queue is full, and then yields the
 * processor until there is room. Neither is a system call that a look at the process would show.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { IDLE, COMPUTES, COLLECTIVE, HANGS };

/* The record that the simulated nvidia-smi reads, see hangtop/demo/job/device.py. */
struct record {
    long long pid;
    double since, before;
    long long memory, kernel;
};

struct kernel {
    int kind;
    double seconds;
};

typedef void (*starter)(long ticket);

static struct {
    struct record *record;
    starter start; /* puts a collective on its way and returns; collectiveEnded is called when it has ended */
    struct kernel *queue;
    long room;
    volatile long launched, ended, answered;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} gpu = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

/* Say what runs on the GPU from now on. */
static void show(int kind) {
    double at = now();
    if (gpu.record->since)
        gpu.record->before += at - gpu.record->since;
    gpu.record->kernel = kind;
    gpu.record->since = kind == IDLE ? 0.0 : at;
}

static void compute(double seconds) {
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0)
        ;
}

static void *run_kernels(void *nothing) {
    pthread_mutex_lock(&gpu.lock);
    for (;;) {
        if (gpu.ended == gpu.launched)
            show(IDLE);
        while (gpu.ended == gpu.launched)
            pthread_cond_wait(&gpu.changed, &gpu.lock);
        long ticket = gpu.ended;
        struct kernel kernel = gpu.queue[ticket % gpu.room];
        show(kernel.kind);
        pthread_mutex_unlock(&gpu.lock);
        if (kernel.kind == COMPUTES)
            compute(kernel.seconds);
        else if (kernel.kind == COLLECTIVE)
            gpu.start(ticket);
        pthread_mutex_lock(&gpu.lock);
        while (kernel.kind == HANGS || (kernel.kind == COLLECTIVE && gpu.answered <= ticket))
            pthread_cond_wait(&gpu.changed, &gpu.lock);
        gpu.ended = ticket + 1;
    }
    return nothing;
}

/* torch's watchdog looks at its list of collectives ten times a second, whatever the job does. */
static void *watch(void *nothing) {
    for (;;)
        compute(0.1);
    return nothing;
}

static void start_thread(void *(*body)(void *), const char *name) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL) != 0)
        abort();
    pthread_setname_np(thread, name);
    pthread_detach(thread);
}

/* Have a GPU whose launch queue holds room kernels; once in a process. */
void openDevice(struct record *record, long room, starter start) {
    gpu.record = record;
    gpu.room = room;
    gpu.start = start;
    gpu.queue = calloc((size_t)room, sizeof *gpu.queue);
    start_thread(run_kernels, "cuda00001400006");
    start_thread(watch, "pt_nccl_watchdg");
}

/* Queue a kernel; its ticket. Blocks while the queue is full. */
long cudaLaunchKernel(int kind, double seconds) {
    while (gpu.launched - gpu.ended >= gpu.room)
        sched_yield();
    pthread_mutex_lock(&gpu.lock);
    long ticket = gpu.launched;
    gpu.queue[ticket % gpu.room] = (struct kernel){kind, seconds};
    gpu.launched = ticket + 1;
    pthread_cond_broadcast(&gpu.changed);
    pthread_mutex_unlock(&gpu.lock);
    return ticket;
}

/* The collective with this ticket, and so everything before it, has ended. */
void collectiveEnded(long ticket) {
    pthread_mutex_lock(&gpu.lock);
    gpu.answered = ticket + 1;
    pthread_cond_broadcast(&gpu.changed);
    pthread_mutex_unlock(&gpu.lock);
}

/* Wait for all kernels that were launched. */
int cudaStreamSynchronize(void) {
    long last = gpu.launched;
    while (gpu.ended < last) {
        now(); /* the driver looks at the clock now and then, for its time-outs */
        for (int looks = 0; gpu.ended < last && looks < 20000; looks++) {
#if defined(__x86_64__) || defined(__i386__)
            __builtin_ia32_pause();
#elif defined(__aarch64__)
            __asm__ volatile("yield");
#endif
        }
    }
    return 0;
}
