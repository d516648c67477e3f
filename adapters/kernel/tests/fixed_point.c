/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* The laws' arithmetic on this host, for tests/fixed_point.rs. Reads lines of
 *     N R (WINDOW MSS RTT BETWEEN){N}
 * and writes for each, of path R: lia coupled semicoupled balia olia (growth), half balia (cut). */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;
#define REAL static inline
#include "../bpf/laws.h"

int main(void)
{
	u32 n, r;

	while (scanf("%" SCNu32 " %" SCNu32, &n, &r) == 2) {
		struct path p[16];
		struct group g = {0};
		struct counts c = {0};

		if (n > 16 || r >= n)
			return 1;
		for (u32 k = 0; k < n; k++)
			if (scanf("%" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu64, &p[k].window,
				  &p[k].mss, &p[k].rtt, &p[k].between) != 4)
				return 1;
		for (u32 k = 0; k < n; k++) {
			group_add(&g, &p[k]);
			group_add_olia(&g, &p[k], &p[r]);
		}
		for (u32 k = 0; k < n; k++)
			counts_add(&c, &g, &p[k], &p[r]);
		printf("%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64 " %" PRIu64
		       "\n", lia_growth(&g, &p[r]), coupled_growth(&g, &p[r]),
		       semicoupled_growth(&g, &p[r]), balia_growth(&g, &p[r]),
		       olia_growth(&g, &c, &p[r]), half(&p[r]), balia_cut(&g, &p[r]));
	}
	return 0;
}
