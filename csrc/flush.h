/* Flush-to-zero and denormals-are-zero within kernels: on Intel's processors arithmetic on
 * subnormal numbers takes about a hundred times as long. Each thread of a kernel calls gwf_flush
 * when it begins and gwf_restore when it ends, so that the caller's code and other libraries keep
 * the setting that they have. Elsewhere than on x86 and 64-bit Arm nothing is set.
 *
 * GWF_FLUSH_BITS are the bits of the control register that flush, GWF_FLAGS its exception flags.
 * The memory clobbers keep compilers from moving loads and stores, and with them arithmetic on
 * memory, across a change. */
#ifndef GWFAST_FLUSH_H
#define GWFAST_FLUSH_H

#include <stdint.h>

#if defined(_MSC_VER) && (defined(_M_X64) || defined(_M_ARM64))
#include <intrin.h>
#endif

#if defined(__SSE2__) || defined(_M_X64)
/* MXCSR: FTZ is bit 15, DAZ bit 6. */
#define GWF_FLUSH_BITS 0x8040u
#define GWF_FLAGS 0x3fu
#elif defined(__aarch64__) || defined(_M_ARM64)
/* FPCR: FZ, of operands and results, is bit 24. The flags are in another register. */
#define GWF_FLUSH_BITS 0x1000000u
#define GWF_FLAGS 0u
#else
#define GWF_FLUSH_BITS 0u
#define GWF_FLAGS 0u
#endif

/* The control register of the calling thread. */
static inline uint64_t gwf_float_control(void) {
    uint64_t bits = 0;
#if defined(__SSE2__) && defined(__GNUC__)
    uint32_t low;
    __asm__ volatile("stmxcsr %0" : "=m"(low) : : "memory");
    bits = low;
#elif defined(_M_X64)
    bits = _mm_getcsr();
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(bits) : : "memory");
#elif defined(_M_ARM64)
    bits = (uint64_t)_ReadStatusReg(ARM64_FPCR);
#endif
    return bits;
}

static inline void gwf_set_float_control(uint64_t control) {
#if defined(__SSE2__) && defined(__GNUC__)
    const uint32_t bits = (uint32_t)control;
    __asm__ volatile("ldmxcsr %0" : : "m"(bits) : "memory");
#elif defined(_M_X64)
    _mm_setcsr((unsigned)control);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(control) : "memory");
#elif defined(_M_ARM64)
    _WriteStatusReg(ARM64_FPCR, (__int64)control);
#endif
    (void)control;
}

/* Flush subnormals from now on; returns the control register as it was. */
static inline uint64_t gwf_flush(void) {
    const uint64_t before = gwf_float_control();
    if ((before & GWF_FLUSH_BITS) != GWF_FLUSH_BITS) gwf_set_float_control(before | GWF_FLUSH_BITS);
    return before;
}

/* Set the control register back, with its flags unless subnormals were flushed before. */
static inline void gwf_restore(uint64_t before) {
    if ((before & GWF_FLUSH_BITS) != GWF_FLUSH_BITS) gwf_set_float_control(before);
}

#endif
