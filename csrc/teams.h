/* How many threads a parallel region may have. For _rows.pyx alone; the one file here that knows of
 * threads.
 *
 * GNU's OpenMP ends the process where a thread that it wants cannot be started, and waits for ever
 * where a forked process begins a region with threads that stayed in its parent. Either depends on
 * the thread that leads the region: each keeps a team of its own from one region to the next. */
#ifndef GWFAST_TEAMS_H
#define GWFAST_TEAMS_H

#include <stddef.h>

#ifdef _OPENMP
#include <omp.h>
static int gwf_openmp(void) { return _OPENMP; }
static int gwf_max_threads(void) { return omp_get_max_threads(); }
static double gwf_seconds(void) { return omp_get_wtime(); }
#else
static int gwf_openmp(void) { return 0; }
static int gwf_max_threads(void) { return 1; }
static double gwf_seconds(void) { return 0.0; }
#endif

/* Threads that may be asked for. */
#define GWF_MOST_THREADS 4096

#if defined(_OPENMP) && !defined(_WIN32)
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* The size of the current thread's team, its largest size so far, and whether a fork left the team
 * behind in the parent. */
static __thread int gwf_team = 1, gwf_largest_team = 1, gwf_orphan = 0;
/* Bytes of an OpenMP thread's stack, 0 for the system's default, and the bytes that BLAS allocates
 * for each thread that calls it. */
static size_t gwf_stack = 0, gwf_blas = 0;

static void gwf_set_sizes(size_t stack, size_t blas) { gwf_stack = stack, gwf_blas = blas; }

/* The file of the OpenMP library that the kernels call; "" where it is not known. */
static const char *gwf_runtime(void) {
    Dl_info found;
    return dladdr((void *)omp_get_max_threads, &found) && found.dli_fname ? found.dli_fname : "";
}

/* Called by the thread that goes on in a forked process. */
static void gwf_forked(void) { gwf_orphan = gwf_orphan || gwf_largest_team > 1; }
static int gwf_is_orphan(void) { return gwf_orphan; }

static void *gwf_wait(void *gate) {
    pthread_mutex_lock((pthread_mutex_t *)gate);
    pthread_mutex_unlock((pthread_mutex_t *)gate);
    return NULL;
}

static void *gwf_map(size_t bytes) {
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int gwf_space_is_limited(void) {
    struct rlimit space;
    return getrlimit(RLIMIT_AS, &space) || space.rlim_cur != RLIM_INFINITY;
}

/* Starts up to `wanted` threads at once and returns how many started: address space, or the number
 * of threads of a user or a container, may be limited. A megabyte is left over, as OpenMP takes
 * some for itself; and 64 KB of each stack: LLVM's OpenMP gives its k-th thread 128 k more bytes
 * than were asked for, and the stack that the system keeps of an ended thread is too small for a
 * larger stack, but takes its space. */
static int gwf_startable(int wanted) {
    pthread_t started[GWF_MOST_THREADS];
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_attr_t attributes;
    const size_t left_over = (size_t)1 << 20;
    void *spare = gwf_map(left_over);
    size_t stack = gwf_stack;
    int n = 0;
    if (spare == MAP_FAILED) return 0;
    if (pthread_attr_init(&attributes)) wanted = 0;
    if (wanted > GWF_MOST_THREADS) wanted = GWF_MOST_THREADS;
    if (wanted > 0 && (stack || !pthread_attr_getstacksize(&attributes, &stack)))
        pthread_attr_setstacksize(&attributes, stack + ((size_t)1 << 16));
    pthread_mutex_lock(&gate);
    while (n < wanted && !pthread_create(&started[n], &attributes, gwf_wait, &gate)) n++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < n; i++) pthread_join(started[i], NULL);
    pthread_attr_destroy(&attributes);
    munmap(spare, left_over);
    return n;
}

/* The size of the calling thread's next team, at most `wanted`. A team that shrank lets go of
 * threads, whose stacks may be taken since. */
static int gwf_team_of(int wanted) {
    if (wanted <= 1 || gwf_orphan) return 1;
    if (wanted > gwf_largest_team || (wanted > gwf_team && gwf_space_is_limited())) {
        const int more = gwf_startable(wanted - gwf_team);
        if (more < wanted - gwf_team) wanted = gwf_team + more;
    }
    if (wanted > 1) gwf_team = wanted;
    if (wanted > gwf_largest_team) gwf_largest_team = wanted;
    return wanted;
}

/* The same where each thread calls BLAS, which ends a process without memory. */
static int gwf_blas_team_of(int wanted) {
    if (wanted > 1 && gwf_blas > 0 && gwf_space_is_limited()) {
        void *room = MAP_FAILED;
        while (wanted > 1 && (room = gwf_map((wanted - 1) * gwf_blas)) == MAP_FAILED) wanted--;
        if (room != MAP_FAILED) munmap(room, (wanted - 1) * gwf_blas);
    }
    return gwf_team_of(wanted);
}

#else
static void gwf_set_sizes(size_t stack, size_t blas) { (void)stack, (void)blas; }
static int gwf_blas_team_of(int wanted) { return wanted; }
static const char *gwf_runtime(void) { return ""; }
static void gwf_forked(void) {}
static int gwf_is_orphan(void) { return 0; }
static int gwf_team_of(int wanted) { return wanted; }
#endif

#endif
