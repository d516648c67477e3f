/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* The laws' arithmetic: I_r and D_r of manyway's crate `control` (crates/core/control/src/laws),
 * with which tests/fixed_point.rs compares it. Notation, as in Peng et al., "Multipath TCP:
 * Analysis, Design and Implementation", section II: w window in packets, tau round-trip time,
 * x = w / tau rate, S the sum of all x.
 *
 * An increase is given as g_r = w_r * I_r: what a window's worth of ACKs adds. It is 1 for Reno,
 * so that integer windows can count up to w_r exactly, as the kernel's Reno does.
 */
#ifndef MANYWAY_LAWS_H
#define MANYWAY_LAWS_H

#include "real.h"

/* Fixed point: 1 is 2^40. */
#define ONE_BITS 40
#define ONE (1LL << ONE_BITS)

/* The largest window that is computed with, in packets. */
#define MOST_PACKETS (1U << 22)

struct path {
	u32 window; /* packets, at least 1 */
	u32 mss; /* bytes of payload of a packet, at least 1 */
	u32 rtt; /* smoothed, in 1/8 us as the kernel keeps it, at least 1 */
	u64 between; /* OLIA's l: bytes between the last two losses, or since the last one if more */
};

/* What the laws need to know of all paths. Rates are in bytes, since packets may differ in size. */
struct group {
	real total; /* S */
	real largest; /* max x */
	real linked; /* max x / tau */
	real quality; /* OLIA: max l / tau^2 */
	u64 window; /* OLIA: the largest window in whole packets of the path's own size */
	u32 paths;
};

/* OLIA: how many paths have the largest window, and how many others are the best. */
struct counts {
	u32 in_m;
	u32 in_b_not_m;
};

static inline real path_rate(const struct path *p)
{
	return real_div(real_of((u64)p->window * p->mss), real_of(p->rtt));
}

static inline real path_quality(const struct path *p)
{
	real rtt = real_of(p->rtt);

	return real_div(real_div(real_of(p->between), rtt), rtt);
}

/* p's window in whole packets of own's size. */
static inline u64 path_whole(const struct path *p, const struct path *own)
{
	return (u64)p->window * p->mss / own->mss;
}

/* Adds p, a path of own's connection or own itself, to the group. */
static inline void group_add(struct group *g, const struct path *p)
{
	real rate = path_rate(p);

	g->total = real_add(g->total, rate);
	g->largest = real_max(g->largest, rate);
	g->linked = real_max(g->linked, real_div(rate, real_of(p->rtt)));
	g->paths++;
}

/* The same, of what OLIA alone needs. */
static inline void group_add_olia(struct group *g, const struct path *p, const struct path *own)
{
	u64 whole = path_whole(p, own);

	g->quality = real_max(g->quality, path_quality(p));
	if (whole > g->window)
		g->window = whole;
}

/* Counts p, once the group is complete. */
static inline void counts_add(struct counts *c, const struct group *g, const struct path *p,
			      const struct path *own)
{
	if (path_whole(p, own) == g->window)
		c->in_m++;
	else if (path_quality(p) == g->quality)
		c->in_b_not_m++;
}

/* x_r / S. */
static inline real path_share(const struct group *g, const struct path *r)
{
	return real_div(path_rate(r), g->total);
}

/* I_r = min(max_k(w_k / tau_k^2) / S^2, 1 / w_r): RFC 6356, section 3. */
static inline s64 lia_growth(const struct group *g, const struct path *r)
{
	real linked = real_div(real_mul(g->linked, real_of(r->rtt)), g->total);
	u64 growth = real_fixed(real_mul(linked, path_share(g, r)), ONE_BITS);

	return growth < ONE ? growth : ONE;
}

/* I_r = (w_r / tau_r^2) / S^2. */
static inline s64 coupled_growth(const struct group *g, const struct path *r)
{
	real share = path_share(g, r);

	return real_fixed(real_mul(share, share), ONE_BITS);
}

/* I_r = 1 / (tau_r S). */
static inline s64 semicoupled_growth(const struct group *g, const struct path *r)
{
	return real_fixed(path_share(g, r), ONE_BITS);
}

/* I_r = x_r / (tau_r S^2) * (1 + alpha_r) / 2 * (4 + alpha_r) / 5, alpha_r = max_k(x_k) / x_r:
 * Peng et al., equation (1). */
static inline s64 balia_growth(const struct group *g, const struct path *r)
{
	real share = path_share(g, r);
	real best = real_div(g->largest, g->total);
	real one_more = real_add(share, best);
	real four_more = real_add(real_mul(real_of(4), share), best);

	return real_fixed(real_div(real_mul(one_more, four_more), real_of(10)), ONE_BITS);
}

/* I_r = (w_r / tau_r^2) / S^2 + alpha_r / w_r: Khalili et al., CoNEXT 2012. */
static inline s64 olia_growth(const struct group *g, const struct counts *c, const struct path *r)
{
	s64 growth = coupled_growth(g, r);

	if (!c->in_b_not_m)
		return growth;
	if (path_whole(r, r) == g->window)
		return growth - (s64)(ONE / ((u64)g->paths * c->in_m));
	if (path_quality(r) == g->quality)
		return growth + (s64)(ONE / ((u64)g->paths * c->in_b_not_m));
	return growth;
}

/* w_r - D_r, D_r = w_r / 2. */
static inline u64 half(const struct path *r) { return ((u64)r->window << ONE_BITS) / 2; }

/* w_r - D_r, D_r = w_r / 2 * min(alpha_r, 1.5): Peng et al., equation (2). */
static inline u64 balia_cut(const struct group *g, const struct path *r)
{
	u64 alpha = real_fixed(real_div(g->largest, path_rate(r)), ONE_BITS);

	if (alpha > ONE + ONE / 2)
		alpha = ONE + ONE / 2;
	return r->window * (ONE - alpha / 2);
}

#endif
