// SPDX-License-Identifier: GPL-2.0-only
/* Coupled congestion control for the subflows of a kernel's MPTCP connection, as TCP congestion
 * controls (struct_ops). The arithmetic is in laws.h; here is what the kernel asks and tells.
 *
 * All state lies in the socket, in the room that TCP gives to its congestion control: nothing
 * remains of a closed subflow. A subflow reads its siblings' windows while others may change them,
 * as the kernel's own statistics do; programs run under RCU, which keeps the list and the sockets.
 */
#include "kernel.h"
/* The verifier reads a global function once, and not again for each caller. */
#define GLOBAL __attribute__((noinline))
#define REAL GLOBAL
#include "laws.h"

char LICENSE[] SEC("license") = "GPL";

/* EWTCP's a, fixed point; the loader sets it. */
const volatile u64 ewtcp_weight = ONE;

/* Longest list of subflows that is read to its end; the kernel's path manager opens up to 9. */
#define MOST_SUBFLOWS 16

/* In icsk_ca_priv, 104 bytes. */
struct state {
	s64 credit; /* increases that have not made a packet yet: below w_r, fixed point */
	/* OLIA. Siblings read these two by their places: see MARK and BETWEEN. */
	u64 mark; /* bytes_acked at the last loss */
	u64 between; /* bytes acknowledged between the last two losses */
	u64 earlier; /* `between` before the last loss */
};

#define MARK 1
#define BETWEEN 2

#define cast(p, type) \
	((const struct type *)bpf_rdonly_cast((const void *)(p), bpf_core_type_id_kernel(struct type)))

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk) { return (struct tcp_sock *)sk; }

static __always_inline struct state *state_of(struct sock *sk)
{
	return (struct state *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline u32 at_least_1(u32 n) { return n ? n : 1; }

static __always_inline struct path path_of(const struct tcp_sock *tp, u64 mark, u64 between)
{
	u64 since = tp->bytes_acked - mark;
	u32 window = at_least_1(tp->snd_cwnd);

	return (struct path){
		.window = window < MOST_PACKETS ? window : MOST_PACKETS,
		.mss = at_least_1(tp->mss_cache),
		.rtt = at_least_1(tp->srtt_us),
		.between = between > since ? between : since,
	};
}

static __always_inline struct path own_path(struct sock *sk)
{
	struct state *state = state_of(sk);

	return path_of(tcp_sk(sk), state->mark, state->between);
}

/* Reads the subflow at `context` into p: whether it counts for that at `own`, which is another. A
 * subflow that has sent nothing for its RTO is idle, as the kernel's own restart after idleness
 * (RFC 5681, section 4.1) has it, and takes no part. */
GLOBAL int sibling(u64 context, u64 own, struct path *p)
{
	u64 other = (u64)cast(context, mptcp_subflow_context)->tcp_sock;
	u64 self = (u64)cast(own, mptcp_subflow_context)->tcp_sock;
	const struct tcp_sock *tp = cast(other, tcp_sock);
	unsigned char state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;

	if (!p || context == own || !tp->srtt_us)
		return 0;
	/* Closed meanwhile, and perhaps another's by now. */
	if ((u64)tp->inet_conn.icsk_ulp_data != context)
		return 0;
	if (state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT)
		return 0;
	if ((u32)bpf_jiffies64() - tp->lsndtime > tp->inet_conn.icsk_rto)
		return 0;
	/* Of another congestion control there is no state. */
	if (tp->inet_conn.icsk_ca_ops == cast(self, tcp_sock)->inet_conn.icsk_ca_ops)
		*p = path_of(tp, tp->inet_conn.icsk_ca_priv[MARK],
			     tp->inet_conn.icsk_ca_priv[BETWEEN]);
	else
		*p = path_of(tp, tp->bytes_acked, 0);
	return 1;
}

/* A subflow's connection. */
struct look {
	u64 context; /* the subflow's mptcp_subflow_context; 0 for plain TCP */
	u64 head, next; /* of the list of subflows */
	struct path own;
	struct path other;
	struct group group;
	struct counts counts;
};

/* Goes to the next sibling that counts. */
GLOBAL int next_sibling(struct look *look)
{
	if (!look)
		return 0;
	for (u32 i = 0; i < MOST_SUBFLOWS && look->next && look->next != look->head; i++) {
		u64 context = look->next - bpf_core_field_offset(struct mptcp_subflow_context, node);

		look->next = (u64)cast(context, mptcp_subflow_context)->node.next;
		if (sibling(context, look->context, &look->other))
			return 1;
	}
	return 0;
}

static __always_inline void first(struct look *look)
{
	u64 conn = (u64)cast(look->context, mptcp_subflow_context)->conn;

	look->head = conn + bpf_core_field_offset(struct mptcp_sock, conn_list);
	look->next = conn ? (u64)cast(conn, mptcp_sock)->conn_list.next : 0;
}

/* Sums up the paths. */
GLOBAL int gather(struct look *look)
{
	if (!look)
		return 0;
	group_add(&look->group, &look->own);
	if (!look->context)
		return 0;
	first(look);
	for (u32 i = 0; i < MOST_SUBFLOWS && next_sibling(look); i++)
		group_add(&look->group, &look->other);
	return 0;
}

/* The same, of what OLIA alone needs. */
GLOBAL int gather_olia(struct look *look)
{
	if (!look || !look->context)
		return 0;
	group_add_olia(&look->group, &look->own, &look->own);
	first(look);
	for (u32 i = 0; i < MOST_SUBFLOWS && next_sibling(look); i++)
		group_add_olia(&look->group, &look->other, &look->own);
	counts_add(&look->counts, &look->group, &look->own, &look->own);
	first(look);
	for (u32 i = 0; i < MOST_SUBFLOWS && next_sibling(look); i++)
		counts_add(&look->counts, &look->group, &look->other, &look->own);
	return 0;
}

/* The paths of sk's connection; one, if it is plain TCP. */
static __always_inline struct look look_around(struct sock *sk)
{
	struct look look = { .own = own_path(sk) };

	if (tcp_sk(sk)->is_mptcp)
		look.context = (u64)tcp_sk(sk)->inet_conn.icsk_ulp_data;
	gather(&look);
	return look;
}

/* As the kernel's tcp_is_cwnd_limited: windows that are not used don't grow. */
static __always_inline bool is_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* Slow start as in every TCP; the ACKed packets that are left for congestion avoidance. */
static __always_inline u32 beyond_slow_start(struct sock *sk, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!is_limited(tp))
		return 0;
	if (tp->snd_cwnd < tp->snd_ssthresh)
		acked = tcp_slow_start(tp, acked);
	/* No more than fits into a sum of fixed point with EWTCP's largest weight, 1000. */
	return acked < 1 << 12 ? acked : 1 << 12;
}

/* Adds growth, g_r of laws.h, for each of `acked` packets. */
static __always_inline void grow(struct sock *sk, s64 growth, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct state *state = state_of(sk);
	u32 window = at_least_1(tp->snd_cwnd);
	s64 full, credit = state->credit + growth * acked;

	if (window > MOST_PACKETS)
		window = MOST_PACKETS;
	full = (s64)window << ONE_BITS;
	if (credit >= full) {
		u64 more = (u64)credit / (u64)full;
		u32 grown = window + more;

		tp->snd_cwnd = grown < tp->snd_cwnd_clamp ? grown : tp->snd_cwnd_clamp;
		credit -= more * full;
	} else if (credit <= -full) {
		/* OLIA's alone. */
		credit = 0;
		if (window > 1)
			tp->snd_cwnd = window - 1;
	}
	state->credit = credit;
}

/* The slow-start threshold after a loss. Laws that can leave a path nearly unused have a least
 * window of 1 with several paths (Peng et al., section V), else it is Reno's 2. */
static __always_inline u32 threshold(struct sock *sk, u64 window, u32 least)
{
	state_of(sk)->credit = 0;
	window >>= ONE_BITS;
	return window > least ? window : least;
}

SEC("struct_ops")
void BPF_PROG(start, struct sock *sk)
{
	struct state *state = state_of(sk);

	state->credit = 0;
	state->mark = tcp_sk(sk)->bytes_acked;
	state->between = 0;
	state->earlier = 0;
	/* Subflows send in bursts, which lose more than their share behind short queues. */
	((struct inet_connection_sock *)sk)->icsk_inet.sk.sk_pacing_status = SK_PACING_NEEDED;
}

/* After idleness the kernel has shrunk the window itself. */
SEC("struct_ops")
void BPF_PROG(event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_CWND_RESTART)
		state_of(sk)->credit = 0;
}

SEC("struct_ops")
u32 BPF_PROG(undo, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

/* cong_avoid of a law whose growth is EXPRESSION of `look`. With one path every law but EWTCP is
 * Reno. */
#define GROW(law, expression) \
SEC("struct_ops") \
void BPF_PROG(law##_grow, struct sock *sk, u32 ack, u32 acked) \
{ \
	acked = beyond_slow_start(sk, acked); \
	if (acked) { \
		struct look look = look_around(sk); \
		grow(sk, look.group.paths > 1 ? expression : ONE, acked); \
	} \
}

GROW(lia, lia_growth(&look.group, &look.own))
GROW(coupled, coupled_growth(&look.group, &look.own))
GROW(semicoupled, semicoupled_growth(&look.group, &look.own))
GROW(balia, balia_growth(&look.group, &look.own))
GROW(olia, (gather_olia(&look), olia_growth(&look.group, &look.counts, &look.own)))

SEC("struct_ops")
void BPF_PROG(ewtcp_grow, struct sock *sk, u32 ack, u32 acked)
{
	acked = beyond_slow_start(sk, acked);
	if (acked)
		grow(sk, ewtcp_weight, acked);
}

SEC("struct_ops")
u32 BPF_PROG(reno_half, struct sock *sk)
{
	struct path own = own_path(sk);

	return threshold(sk, half(&own), 2);
}

SEC("struct_ops")
u32 BPF_PROG(coupled_half, struct sock *sk)
{
	struct look look = look_around(sk);

	return threshold(sk, half(&look.own), look.group.paths > 1 ? 1 : 2);
}

SEC("struct_ops")
u32 BPF_PROG(balia_part, struct sock *sk)
{
	struct look look = look_around(sk);

	return threshold(sk, balia_cut(&look.group, &look.own), look.group.paths > 1 ? 1 : 2);
}

SEC("struct_ops")
u32 BPF_PROG(olia_half, struct sock *sk)
{
	struct look look = look_around(sk);
	struct state *state = state_of(sk);
	u64 acked = tcp_sk(sk)->bytes_acked;

	state->earlier = state->between;
	state->between = acked - state->mark;
	state->mark = acked;
	return threshold(sk, half(&look.own), look.group.paths > 1 ? 1 : 2);
}

SEC("struct_ops")
u32 BPF_PROG(olia_undo, struct sock *sk)
{
	struct state *state = state_of(sk);

	state->mark -= state->between;
	state->between = state->earlier;
	return tcp_reno_undo_cwnd(sk);
}

/* The loader knows the maps by their names. Unprivileged programs and other network namespaces may
 * use what root has loaded, as they may use the kernel's Reno and CUBIC. */
#define LAW(law, cut, undone) \
SEC(".struct_ops") \
struct tcp_congestion_ops manyway_##law = { \
	.init = (void *)start, \
	.cong_avoid = (void *)law##_grow, \
	.ssthresh = (void *)cut, \
	.cwnd_event = (void *)event, \
	.undo_cwnd = (void *)undone, \
	.flags = TCP_CONG_NON_RESTRICTED, \
	.name = #law, \
}

LAW(lia, reno_half, undo);
LAW(olia, olia_half, olia_undo);
LAW(balia, balia_part, undo);
LAW(coupled, coupled_half, undo);
LAW(semicoupled, reno_half, undo);
LAW(ewtcp, reno_half, undo);
