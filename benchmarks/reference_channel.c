/* A reference channel: how long fixed pieces of work take on this machine, at a random time in each 200 ms.

   probe FILE SECONDS PID...: a line for each time: when (s, of the clock), how late it woke, arithmetic by the clock and
   by its CPU time, the walk through memory likewise, a direct read and a flushed write of 8 kB in FILE; CPU time that a
   hypervisor gave to others, and that others than this process and those of PID have used, since the machine began. All
   in seconds. What all this has used of CPU time is the last line, after "#". */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PERIOD 0.2
#define STEPS 4000
#define ROUNDS 400000
#define LINE 64
#define MEMORY (32 << 20)
#define PAGE 8192
#define PAGES 4096

static uint64_t state = 88172645463325252u;
static volatile uint64_t sink;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static double now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static void sleep_until(double at)
{
	struct timespec t = {(time_t) at, (long) ((at - (double) (time_t) at) * 1e9)};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
		;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* One cycle through all lines in random order: Sattolo, Inf. Process. Lett. 22 (1986) 315-317. */
static char *make_cycle(size_t size)
{
	size_t count = size / LINE;
	uint32_t *order = malloc(count * sizeof *order);
	char *memory = aligned_alloc(4096, size);
	if (order == NULL || memory == NULL)
		fail("memory");
	for (size_t i = 0; i < count; i++)
		order[i] = (uint32_t) i;
	for (size_t i = count - 1; i > 0; i--) {
		size_t other = draw() % i;
		uint32_t kept = order[i];
		order[i] = order[other];
		order[other] = kept;
	}
	for (size_t i = 0; i < count; i++)
		*(char **) (memory + (size_t) order[i] * LINE) = memory + (size_t) order[(i + 1) % count] * LINE;
	free(order);
	return memory;
}

static char *walk(char *at, int steps)
{
	for (int i = 0; i < steps; i++)
		at = *(char **) at;
	return at;
}

static int read_text(const char *path, char *text, size_t size)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? -1 : read(file, text, size - 1);
	if (file >= 0)
		close(file);
	text[length < 0 ? 0 : length] = 0;
	return length > 0;
}

static double used_by(const char *pid)
{
	char path[64], text[128];
	unsigned long long run = 0;
	snprintf(path, sizeof path, "/proc/%s/schedstat", pid);
	if (read_text(path, text, sizeof text))
		sscanf(text, "%llu", &run);
	return 1e-9 * (double) run;
}

static void probe(const char *path, double seconds, char **pids, int count)
{
	char *at = make_cycle(MEMORY), *page = aligned_alloc(4096, PAGE), text[512];
	double tick = 1.0 / (double) sysconf(_SC_CLK_TCK);
	int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0 || page == NULL)
		fail(path);
	memset(page, 1, PAGE);
	for (int i = 0; i < PAGES; i++)
		if (pwrite(file, page, PAGE, (off_t) i * PAGE) != PAGE)
			fail(path);
	fsync(file);
	if (fcntl(file, F_SETFL, O_DIRECT) != 0)
		fail(path);
	double begin = now(CLOCK_MONOTONIC) + PERIOD, before = now(CLOCK_PROCESS_CPUTIME_ID);
	double ready = begin;
	for (long n = 0; n * PERIOD < seconds; n++) {
		if (ready > begin + PERIOD * (double) (n + 1))
			continue; /* the reading before took longer than this one's time */
		double due = begin + PERIOD * ((double) n + 0.9 * (double) (draw() >> 11) / (double) (1ull << 53));
		due = due > ready ? due : ready;
		sleep_until(due);
		double when = now(CLOCK_REALTIME), t[5], cpu[3];
		t[0] = now(CLOCK_MONOTONIC);
		cpu[0] = now(CLOCK_THREAD_CPUTIME_ID);
		uint64_t x = state;
		for (int i = 0; i < ROUNDS; i++)
			x = x * 6364136223846793005u + 1442695040888963407u;
		sink = x;
		t[1] = now(CLOCK_MONOTONIC);
		cpu[1] = now(CLOCK_THREAD_CPUTIME_ID);
		at = walk(at, STEPS);
		sink = (uint64_t) at;
		t[2] = now(CLOCK_MONOTONIC);
		cpu[2] = now(CLOCK_THREAD_CPUTIME_ID);
		if (pread(file, page, PAGE, (off_t) (draw() % PAGES) * PAGE) != PAGE)
			fail("read");
		t[3] = now(CLOCK_MONOTONIC);
		if (pwrite(file, page, PAGE, (off_t) (draw() % PAGES) * PAGE) != PAGE || fdatasync(file) != 0)
			fail("write");
		t[4] = now(CLOCK_MONOTONIC);
		unsigned long long u[8] = {0};
		if (read_text("/proc/stat", text, sizeof text))
			sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", u, u + 1, u + 2, u + 3, u + 4, u + 5, u + 6, u + 7);
		double others = tick * (double) (u[0] + u[1] + u[2] + u[5] + u[6]) - now(CLOCK_PROCESS_CPUTIME_ID);
		for (int i = 0; i < count; i++)
			others -= used_by(pids[i]);
		printf("%.6f %.7f %.7f %.7f %.7f %.7f %.7f %.7f %.3f %.4f\n", when, t[0] - due, t[1] - t[0], cpu[1] - cpu[0],
			t[2] - t[1], cpu[2] - cpu[1], t[3] - t[2], t[4] - t[3], tick * (double) u[7], others);
		ready = now(CLOCK_MONOTONIC);
	}
	printf("# %.6f\n", now(CLOCK_PROCESS_CPUTIME_ID) - before);
}

int main(int count, char **words)
{
	static char buffer[1 << 16];
	setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
	if (count < 4 || strcmp(words[1], "probe") != 0)
		return 2;
	probe(words[2], atof(words[3]), words + 4, count - 4);
	return 0;
}
