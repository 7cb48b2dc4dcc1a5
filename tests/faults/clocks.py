"""Clocks of a node that are set: by a library that is loaded before libc (no namespace has a clock of the day).

The node side is started anew behind it, and the clock is set while it runs: in what it asks the time of, and in the
deadlines that it waits for by that clock.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path

from tests.faults.fault import Family, Outcome, Play
from tests.faults.scene import Scene, disturbed

fault = Family("clocks")

LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Seconds by which the clock is wrong, as a file says now. */
static long wrong(void) {
    char text[32] = {0};
    int file = open(getenv("HX_CLOCK"), O_RDONLY);
    if (file < 0) return 0;
    if (read(file, text, 31) < 0) text[0] = 0;
    close(file);
    return atol(text);
}
int clock_gettime(clockid_t which, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(which, at);
    if (which == CLOCK_REALTIME) at->tv_sec += wrong();
    return done;
}
int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec; at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
/* The kernel's clock is right: a deadline by the wrong one means so many seconds less. */
static struct timespec meant(const struct timespec *until) {
    struct timespec at = *until;
    at.tv_sec -= wrong();
    return at;
}
int sem_timedwait(sem_t *restrict held, const struct timespec *restrict until) {
    static int (*real)(sem_t *, const struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec at = meant(until);
    return real(held, &at);
}
int sem_clockwait(sem_t *restrict held, clockid_t which, const struct timespec *restrict until) {
    static int (*real)(sem_t *, clockid_t, const struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "sem_clockwait");
    struct timespec at = which == CLOCK_REALTIME ? meant(until) : *until;
    return real(held, which, &at);
}
"""


def _library(scene: Scene) -> Path:
    source, library = scene.path(".c"), scene.path(".so")
    source.write_text(LIBRARY)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def _set(*seconds: int) -> Play:
    """Set the clock by so many seconds, one after another; the node goes on and is never lost."""

    def play(scene: Scene) -> Outcome:
        before = scene.before()
        library, clock = _library(scene), scene.path(".clock")
        clock.write_text("0")
        python = sys.executable
        scene.struck.tool(
            "python3",
            f'#!/bin/sh\nHX_CLOCK={clock} LD_PRELOAD={library} exec {shlex.quote(python)} "$@"\n',
        )  # fmt: skip
        scene.undo.callback((scene.struck.bin / "python3").unlink)
        with scene.watch() as watch:
            name, struck = scene.struck.name, time.time()
            for wrong in seconds:
                clock.write_text(str(wrong))
                time.sleep(8.0)
            over = time.time()
            clock.write_text("0")
            ticked, _ = watch.wait_entry(name, r"^Tick\(", since=over)
            told = [f"{change.link}: {change.why}" for change in watch.links(name) if change.at >= struck]
            ticks = [text for _, text in watch.found(name, r"^Tick\(", struck)]
            watch.end()
            wrongs = {round((float(text.split("clock=")[1].split(",")[0]) - struck) / 3600) for text in ticks}
            told_of = f"{len(ticks)} samples, of clocks wrong by {sorted(wrongs)} hours"
            return Outcome(
                "; ".join(told) or f"goes on: {told_of}", recovered=ticked - over, grown=watch.usage.grown,
                left=scene.left(before), disturbed=disturbed(watch.links(), scene.well, struck),
            )  # fmt: skip

    return play


fault("set back a day", r"goes on: .*-24.* hours", needs="cc")(_set(-86_400))
fault("set forward an hour, then back two", r"goes on: .*-1.*1\] hours", needs="cc")(_set(3600, -3600))
fault("set to 1970 and to 2100", "goes on", needs="cc")(_set(-int(time.time()) + 5, 74 * 365 * 86_400))
