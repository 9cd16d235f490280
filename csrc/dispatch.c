/* One table of kernels per instruction set, and the choice among them.
 *
 * To add one, add it here: a block that names it (GWF_ISA), gives the bytes of its vectors
 * (GWF_BYTES) and the rows of a product in its registers (GWF_TILE, a divisor of 8, which chunks of
 * rows are multiples of) and includes isa.inc; and its place in gwf_supported_isa.
 *
 * Every function is compiled for the ABI's floor unless it stands between the target pragmas below,
 * and those are reached only after the processor (and the operating system: the builtin checks
 * XSAVE too) said that it can run them. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "gwfast.h"

#define GWF_NAME(f) GWF_JOIN(GWF_JOIN(f, GWF_ISA), GWF_TYPE)
#define GWF_LANES (GWF_BYTES / (ptrdiff_t)sizeof(real))
#define GWF_TEXT_(a) #a
#define GWF_TEXT(a) GWF_TEXT_(a)

/* The least entry of plans, the largest number and the absolute value, by the type of number. */
#define GWF_LEAST GWF_JOIN(GWF_LEAST, GWF_TYPE)
#define GWF_MOST GWF_JOIN(GWF_MOST, GWF_TYPE)
#define GWF_MOST_f32 FLT_MAX
#define GWF_MOST_f64 DBL_MAX
#define GWF_ABS GWF_JOIN(GWF_ABS, GWF_TYPE)
#define GWF_ABS_f32 fabsf
#define GWF_ABS_f64 fabs

/* A table of kernels. Callers pass pointers to void, hence the cast: every platform that this runs
 * on passes all pointers to objects alike. */
#define GWF_FILL(type, name, ...) .name = (type (*)(__VA_ARGS__))GWF_NAME(name),
#define GWF_TABLE                                    \
    static const gwf_kernels GWF_NAME(gwf_table) = { \
        .panel = GWF_PANEL, .lanes = GWF_WIDTH, GWF_KERNELS(GWF_FILL)};

#if defined(_MSC_VER) && !defined(__clang__)
#define restrict __restrict
#endif

#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
#define GWF_DISPATCH 1
#else
#define GWF_DISPATCH 0
#endif

#include "judge.h"
#include "descent_shared.inc"

#if defined(__aarch64__)
#define GWF_ISA neon
#define GWF_TILE 8
#define GWF_FLOOR gwf_table_neon
#else
#define GWF_ISA baseline
#define GWF_TILE 4
#define GWF_FLOOR gwf_table_baseline
#endif
#define GWF_BYTES 16
#include "isa.inc"

#if GWF_DISPATCH

/* GCC and clang spell "compile what follows for this target" differently. */
#define GWF_DO_(x) _Pragma(#x)
#if defined(__clang__)
#define GWF_TARGET_BEGIN(t) \
    GWF_DO_(clang attribute push(__attribute__((target(t))), apply_to = function))
#define GWF_TARGET_END _Pragma("clang attribute pop")
#define GWF_WHOLE_VECTORS
#else
#define GWF_TARGET_BEGIN(t) _Pragma("GCC push_options") GWF_DO_(GCC target(t))
#define GWF_TARGET_END _Pragma("GCC pop_options")
/* GCC otherwise keeps to 256-bit vectors, which suits a few vector instructions in scalar code but
 * not these loops. Clang drops a whole list of targets for this word. */
#define GWF_WHOLE_VECTORS ",prefer-vector-width=512"
#endif

#define GWF_ISA avx2
#define GWF_BYTES 32
#define GWF_TILE 4
GWF_TARGET_BEGIN("avx2,fma")
#include "isa.inc"
GWF_TARGET_END

#define GWF_ISA avx512
#define GWF_BYTES 64
#define GWF_TILE 8
GWF_TARGET_BEGIN("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl" GWF_WHOLE_VECTORS)
#include "isa.inc"
GWF_TARGET_END

#endif

const gwf_isa *gwf_supported_isa(int i) {
    const gwf_isa *found[8]; /* room for every instruction set */
    int n = 0;
#if GWF_DISPATCH
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        found[n++] = &gwf_table_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        found[n++] = &gwf_table_avx2;
#endif
    found[n++] = &GWF_FLOOR;
    return i >= 0 && i < n ? found[i] : NULL;
}
