/* Preloaded into a server or a load generator of pgtrial's own: makes each of its times longer by a factor.
 *
 *   cpu    CPU time of a thread: burned again where it is spent, so that whoever waits for a lock waits longer for its
 *          holder's work. After each slice of CPU time, the next call of those below burns what it asks for. Programs
 *          copy, clear and compare memory all the time (a server about 200 times in an update, 95 % of its own work
 *          lies less than 3 us before such a call), and slices are of random length, so the burning falls into each
 *          part of the work, inside of a lock or not, in proportion to the CPU time of that part.
 *   flush  waiting in fsync and fdatasync, and in writes to files that are open for writes which wait until they are
 *          flushed (wal_sync_method = open_datasync, open_sync).
 *   files  waiting in reads from and writes to other files.
 *
 * Waiting is what a call took less its CPU time and its time in the queue for a CPU: both of these are times of the CPU.
 * Of a read it is all of a call that took long, because to ask the kernel for the rest takes longer than a read from the
 * page cache. A wait is made longer behind it, by sleeping. What was burned or slept too much is taken off the next time,
 * as in Coz (Curtsinger & Berger, SOSP 2015, 3.4). Of a wait in which the process was stopped, as it is while another arm
 * has its turn, only what came after that counts: what was waited for may have come to its end meanwhile. The kernel tells
 * of the turn when a wait that nothing interrupts is over, so of a flush during which a turn began nothing counts.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

typedef long long ns_t;

#define SLICE 20000LL            /* ns of CPU time, on average: an update of one row takes 30000 and more */
#define CALLS 8                  /* of memory and text: some 1 us of a server's work, mostly */
#define LONGEST_CARRY 20000000LL /* ns */
#define LEAST_WAIT 20000LL       /* ns: what a read from the page cache takes longer is noise */

static double more_cpu, more_flush, more_files; /* factors less 1 */
static volatile ns_t went_on; /* by the clock, after it was stopped */
static int is_sliced; /* with a factor of 1 as well: what it costs to ask is the same in all arms that have one */

/* On the fast path of calls that take some nanoseconds: no call of the loader for their address. */
#define OF_THREAD static __thread __attribute__((tls_model("initial-exec")))

OF_THREAD int calls_left;            /* until it is asked whether a slice is over */
OF_THREAD ns_t asked;                /* by the clock, when it was asked last */
OF_THREAD unsigned long long chance; /* of the generator of random lengths */
OF_THREAD ns_t slice_end;            /* of CPU time */
OF_THREAD ns_t earliest_end;         /* of the slice, by the clock: a thread has no more CPU time than that */
OF_THREAD ns_t seen;                 /* of the thread's CPU time */
OF_THREAD ns_t unpaid;               /* of CPU time; negative where too much was burned */
OF_THREAD ns_t owed;                 /* of sleep; negative after a sleep that was too long */
OF_THREAD int schedstat = -1;
OF_THREAD int is_exact;

#define EACH_CALL(what) \
    what(fsync) what(fdatasync) \
    what(pread) what(pread64) what(pwrite) what(pwrite64) \
    what(preadv) what(preadv64) what(pwritev) what(pwritev64) \
    what(send) what(epoll_wait) what(poll) what(ppoll) what(select) \
    what(memcpy) what(memmove) what(memset) what(memcmp) what(strlen) what(strcmp)

/* Looked up at the beginning: a signal handler or a forked child may not do it. A library that calls before that finds
 * its own.
 */
#define DECLARE(name) static __typeof__(name) *real_##name;
#define FIND(name) \
    if (!real_##name) \
        real_##name = (__typeof__(name) *)dlsym(RTLD_NEXT, #name);

EACH_CALL(DECLARE)

static double factor_of(const char *name)
{
    const char *text = getenv(name);
    double value = text ? atof(text) : 1.0;
    return value > 1.0 ? value - 1.0 : 0.0;
}

static void forget_parent(void)
{
    if (schedstat >= 0)
        close(schedstat);
    schedstat = -1;
    seen = unpaid = owed = slice_end = earliest_end = 0;
    calls_left = is_exact = 0;
}

static ns_t now_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static ns_t cpu_time(void)
{
    return now_of(CLOCK_THREAD_CPUTIME_ID);
}

static void go_on(int signal)
{
    (void)signal;
    went_on = now_of(CLOCK_MONOTONIC);
}

__attribute__((constructor)) static void begin(void)
{
    more_cpu = factor_of("PGTRIAL_SLOW_CPU");
    more_flush = factor_of("PGTRIAL_SLOW_FLUSH");
    more_files = factor_of("PGTRIAL_SLOW_FILES");
    pthread_atfork(NULL, NULL, forget_parent);
    EACH_CALL(FIND)
    seen = cpu_time(); /* of the program that executed this one: the thread's clock goes on */
    is_sliced = getenv("PGTRIAL_SLOW_CPU") != NULL;
    calls_left = 0;
    if (getenv("PGTRIAL_SLOW_FLUSH") || getenv("PGTRIAL_SLOW_FILES")) { /* with a factor of 1 as well */
        struct sigaction action = {.sa_handler = go_on, .sa_flags = SA_RESTART};
        sigaction(SIGCONT, &action, NULL);
    }
}

/* Time in the queue for a CPU; 0 where the kernel does not tell. */
static ns_t queue_time(void)
{
    char text[96], *end;
    ssize_t length;
    if (schedstat == -1) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", syscall(SYS_gettid));
        schedstat = open(path, O_RDONLY | O_CLOEXEC);
        if (schedstat < 0)
            schedstat = -2;
    }
    if (schedstat < 0)
        return 0;
    length = syscall(SYS_pread64, schedstat, text, sizeof text - 1, 0);
    if (length <= 0)
        return 0;
    text[length] = 0;
    strtoll(text, &end, 10);
    return strtoll(end, NULL, 10);
}

/* Burn what the CPU time until ``now`` asks for. */
static void pay_cpu(ns_t now)
{
    ns_t until;
    unpaid += (ns_t)((now - seen) * more_cpu);
    seen = now;
    if (unpaid <= 0)
        return;
    for (until = now + unpaid; now < until; now = cpu_time()) {
        /* By the clock, which takes no call of the kernel, as far as the thread may have had the CPU. */
        ns_t clock = now_of(CLOCK_MONOTONIC) + until - now;
        while (now_of(CLOCK_MONOTONIC) < clock)
            ;
    }
    unpaid -= now - seen;
    seen = now;
}

static void end_slice(void)
{
    ns_t clock, now;
    calls_left = INT_MAX;
    if (!is_sliced)
        return;
    clock = now_of(CLOCK_MONOTONIC);
    calls_left = clock - asked < SLICE / 4 ? CALLS : 1; /* where calls are rare, as in a scan, it is asked at each */
    asked = clock;
    if (clock < earliest_end)
        return;
    now = cpu_time();
    if (now < seen) /* a child that shares its parent's memory until it executes a program */
        return;
    if (now >= slice_end) {
        pay_cpu(now);
        /* Knuth's generator (The Art of Computer Programming, vol. 2, 3.3.4): its upper bits will do here. */
        chance = (chance ^ (unsigned long long)clock) * 6364136223846793005ULL + 1442695040888963407ULL;
        slice_end = seen + SLICE / 2 + (ns_t)((chance >> 33) % SLICE);
        clock = now_of(CLOCK_MONOTONIC);
        now = seen;
    }
    earliest_end = clock + slice_end - now;
}

/* Workers, and sessions that were closed, have nobody to call after their work. */
__attribute__((destructor)) static void end(void)
{
    pay_cpu(cpu_time());
}

static void oversleep(double more, ns_t waited)
{
    int error = errno;
    owed += (ns_t)(waited * more);
    if (owed > 0) {
        ns_t begun = now_of(CLOCK_MONOTONIC), until = begun + owed;
        struct timespec t = {until / 1000000000LL, until % 1000000000LL};
        if (!is_exact) {
            prctl(PR_SET_TIMERSLACK, 1);
            is_exact = 1;
        }
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
            ;
        owed = went_on > begun ? 0 : owed - (now_of(CLOCK_MONOTONIC) - begun);
        if (owed < -LONGEST_CARRY)
            owed = -LONGEST_CARRY;
    }
    errno = error;
}

struct span {
    ns_t clock, cpu, queue;
};

static struct span begin_span(void)
{
    struct span s = {now_of(CLOCK_MONOTONIC), cpu_time(), queue_time()};
    return s;
}

/* By the clock, of what began at ``begun`` and has just ended. */
static ns_t time_since(ns_t begun)
{
    return now_of(CLOCK_MONOTONIC) - (went_on > begun ? went_on : begun);
}

static ns_t end_span(struct span s)
{
    return time_since(s.clock) - (cpu_time() - s.cpu) - (queue_time() - s.queue);
}

static void extend(double more, ns_t waited)
{
    if (more > 0 && waited > LEAST_WAIT)
        oversleep(more, waited);
}

/* What makes a write to a file longer. Asked only of those that took long. */
static double more_of_write(int file, ns_t waited)
{
    int error = errno;
    int flags = waited > LEAST_WAIT && (more_flush > 0 || more_files > 0) ? fcntl(file, F_GETFL) : 0;
    errno = error;
    return flags >= 0 && flags & O_DSYNC ? more_flush : more_files;
}

#define FLUSH(name) \
    int name(int file) \
    { \
        FIND(name) \
        struct span s = begin_span(); \
        int result = real_##name(file); \
        extend(more_flush, end_span(s)); \
        end_slice(); /* of the kernel's CPU time in the call, for which a lock may be held */ \
        return result; \
    }

#define READ(name, parameters, arguments) \
    ssize_t name parameters \
    { \
        FIND(name) \
        ns_t begun = now_of(CLOCK_MONOTONIC); \
        ssize_t result = real_##name arguments; \
        extend(more_files, time_since(begun)); \
        if (--calls_left <= 0) \
            end_slice(); \
        return result; \
    }

#define WRITE(name, parameters, arguments) \
    ssize_t name parameters \
    { \
        FIND(name) \
        struct span s = begin_span(); \
        ssize_t result = real_##name arguments; \
        ns_t waited = end_span(s); \
        extend(more_of_write(file, waited), waited); \
        end_slice(); \
        return result; \
    }

#define PEER(name, type, parameters, arguments) \
    type name parameters \
    { \
        FIND(name) \
        end_slice(); \
        return real_##name arguments; \
    }

#define OFTEN(name, type, parameters, arguments) \
    type name parameters \
    { \
        FIND(name) \
        if (--calls_left <= 0) \
            end_slice(); \
        return real_##name arguments; \
    }

FLUSH(fsync)
FLUSH(fdatasync)
READ(pread, (int file, void *to, size_t size, off_t at), (file, to, size, at))
READ(pread64, (int file, void *to, size_t size, off64_t at), (file, to, size, at))
WRITE(pwrite, (int file, const void *from, size_t size, off_t at), (file, from, size, at))
WRITE(pwrite64, (int file, const void *from, size_t size, off64_t at), (file, from, size, at))
READ(preadv, (int file, const struct iovec *to, int count, off_t at), (file, to, count, at))
READ(preadv64, (int file, const struct iovec *to, int count, off64_t at), (file, to, count, at))
WRITE(pwritev, (int file, const struct iovec *from, int count, off_t at), (file, from, count, at))
WRITE(pwritev64, (int file, const struct iovec *from, int count, off64_t at), (file, from, count, at))
PEER(send, ssize_t, (int peer, const void *from, size_t size, int flags), (peer, from, size, flags))
PEER(epoll_wait, int, (int set, struct epoll_event *events, int most, int timeout), (set, events, most, timeout))
PEER(poll, int, (struct pollfd *files, nfds_t count, int timeout), (files, count, timeout))
PEER(ppoll, int, (struct pollfd *files, nfds_t count, const struct timespec *timeout, const sigset_t *mask),
     (files, count, timeout, mask))
OFTEN(memcpy, void *, (void *to, const void *from, size_t size), (to, from, size))
OFTEN(memmove, void *, (void *to, const void *from, size_t size), (to, from, size))
OFTEN(memset, void *, (void *to, int value, size_t size), (to, value, size))
OFTEN(memcmp, int, (const void *one, const void *other, size_t size), (one, other, size))
OFTEN(strlen, size_t, (const char *text), (text))
OFTEN(strcmp, int, (const char *one, const char *other), (one, other))

/* How servers before 16 wait for clients; without files it is a sleep, for which a lock may be held. */
int select(int count, fd_set *read, fd_set *write, fd_set *except, struct timeval *timeout)
{
    FIND(select)
    if (count > 0)
        end_slice();
    return real_select(count, read, write, except, timeout);
}
