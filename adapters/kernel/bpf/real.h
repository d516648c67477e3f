/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* Numbers from 0 up, in integer arithmetic: the kernel has no floating point.
 *
 * A `real` is mantissa * 2^exponent with 32 significant bits, so that every operation is exact to
 * 2^-31, whatever windows and round-trip times are. It is packed into one word since functions of
 * BPF take scalars: the mantissa, from 2^31 to 2^32 - 1, is the upper half; the exponent, signed,
 * the lower half; 0 is 0.
 *
 * Whoever includes this defines u32, s32, u64 and s64, and REAL, how these functions are declared.
 */
#ifndef MANYWAY_REAL_H
#define MANYWAY_REAL_H

typedef u64 real;

static inline u64 mantissa(real a) { return a >> 32; }

static inline s32 exponent(real a) { return (s32)a; }

static inline real packed(u64 mantissa, s32 exponent) { return mantissa << 32 | (u32)exponent; }

/* The integer n. */
REAL real real_of(u64 n)
{
	s32 e = 0;

	if (!n)
		return 0;
	if (n >> 48) { n >>= 16; e += 16; }
	if (n >> 40) { n >>= 8; e += 8; }
	if (n >> 36) { n >>= 4; e += 4; }
	if (n >> 34) { n >>= 2; e += 2; }
	if (n >> 33) { n >>= 1; e += 1; }
	if (n >> 32) { n >>= 1; e += 1; }
	if (!(n >> 16)) { n <<= 16; e -= 16; }
	if (!(n >> 24)) { n <<= 8; e -= 8; }
	if (!(n >> 28)) { n <<= 4; e -= 4; }
	if (!(n >> 30)) { n <<= 2; e -= 2; }
	if (!(n >> 31)) { n <<= 1; e -= 1; }
	return packed(n, e);
}

REAL real real_mul(real a, real b)
{
	u64 product = mantissa(a) * mantissa(b);
	s32 e = exponent(a) + exponent(b);

	if (!product)
		return 0;
	if (product >> 63)
		return packed(product >> 32, e + 32);
	return packed(product >> 31, e + 31);
}

/* a / b; 0 if b is 0. */
REAL real real_div(real a, real b)
{
	s32 e = exponent(a) - exponent(b) - 32;
	u64 quotient;

	if (!a || !b)
		return 0;
	quotient = (mantissa(a) << 32) / mantissa(b);
	if (quotient >> 32)
		return packed(quotient >> 1, e + 1);
	return packed(quotient, e);
}

REAL int real_less(real a, real b)
{
	if (!a || !b)
		return !a && b;
	if (exponent(a) != exponent(b))
		return exponent(a) < exponent(b);
	return mantissa(a) < mantissa(b);
}

REAL real real_add(real a, real b)
{
	real larger = real_less(a, b) ? b : a;
	real smaller = real_less(a, b) ? a : b;
	s32 apart = exponent(larger) - exponent(smaller);
	u64 sum;

	if (!smaller || apart > 31 || apart < 0)
		return larger;
	sum = mantissa(larger) + (mantissa(smaller) >> apart);
	if (sum >> 32)
		return packed(sum >> 1, exponent(larger) + 1);
	return packed(sum, exponent(larger));
}

static inline real real_max(real a, real b) { return real_less(a, b) ? b : a; }

/* a in units of 2^-bits, rounded down; at most 2^62. */
REAL u64 real_fixed(real a, u32 bits)
{
	s32 shift = exponent(a) + (s32)bits;

	if (shift > 30)
		return a ? 1ULL << 62 : 0;
	if (shift >= 0)
		return mantissa(a) << shift;
	if (shift < -31)
		return 0;
	return mantissa(a) >> -shift;
}

#endif
