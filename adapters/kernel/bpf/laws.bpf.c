// SPDX-License-Identifier: GPL-2.0-only
/* Coupled congestion control for the subflows of a kernel's MPTCP connection, as TCP congestion
 * controls (struct_ops). The arithmetic is in laws.h; here is what the kernel asks and tells.
 *
 * All state lies in the socket, in the room that TCP gives to its congestion control: nothing
 * remains of a closed subflow. A subflow reads its siblings' windows while others may change them,
 * as the kernel's own statistics do; programs run under RCU, which keeps the list and the sockets.
 */
#include "kernel.h"
#define REAL __attribute__((noinline))
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

/* bytes_acked, mark and between are 0 for laws without them. */
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

/* Reads the next subflow of the list at *next into p: whether there is one that counts. A subflow
 * that has sent nothing for its RTO is idle, by the kernel's own rule (RFC 9293 asks it to restart
 * then), and takes no part. */
static __always_inline bool sibling(struct sock *sk, u64 *next, struct path *p)
{
	const struct mptcp_subflow_context *context =
		cast(*next - bpf_core_field_offset(struct mptcp_subflow_context, node),
		     mptcp_subflow_context);
	u64 other = (u64)context->tcp_sock;
	const struct tcp_sock *tp = cast(other, tcp_sock);
	unsigned char state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;

	*next = (u64)context->node.next;
	if (other == (u64)sk || !tp->srtt_us)
		return false;
	/* Closed meanwhile, and perhaps another's by now. */
	if ((u64)tp->inet_conn.icsk_ulp_data != (u64)context)
		return false;
	if (state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT)
		return false;
	if ((u32)bpf_jiffies64() - tp->lsndtime > tp->inet_conn.icsk_rto)
		return false;
	if (tp->inet_conn.icsk_ca_ops == tcp_sk(sk)->inet_conn.icsk_ca_ops)
		*p = path_of(tp, tp->inet_conn.icsk_ca_priv[MARK],
			     tp->inet_conn.icsk_ca_priv[BETWEEN]);
	else
		*p = path_of(tp, tp->bytes_acked, 0);
	return true;
}

/* Runs STATEMENT for each sibling of sk's subflow, as `p`. */
#define for_each_sibling(sk, p, STATEMENT) do { \
	u64 context = (u64)tcp_sk(sk)->inet_conn.icsk_ulp_data; \
	u64 conn = 0, head, next; \
	if (tcp_sk(sk)->is_mptcp && context) \
		conn = (u64)cast(context, mptcp_subflow_context)->conn; \
	if (!conn) \
		break; \
	head = conn + bpf_core_field_offset(struct mptcp_sock, conn_list); \
	next = (u64)cast(conn, mptcp_sock)->conn_list.next; \
	for (u32 i = 0; i < MOST_SUBFLOWS && next && next != head; i++) { \
		struct path p; \
		if (sibling(sk, &next, &p)) { \
			STATEMENT; \
		} \
	} \
} while (0)

/* The paths of sk's connection; one, if it is plain TCP. */
static __always_inline struct group group_of(struct sock *sk, const struct path *own)
{
	struct group group = {};

	group_add(&group, own);
	for_each_sibling(sk, p, group_add(&group, &p));
	return group;
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
	return acked < 1 << 16 ? acked : 1 << 16;
}

/* Adds growth, g_r of laws.h, for each of `acked` packets; `least` bounds a window that shrinks. */
static __always_inline void grow(struct sock *sk, s64 growth, u32 acked, u32 least)
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

		tp->snd_cwnd = window + more;
		credit -= more * full;
	} else if (credit <= -full) {
		credit = 0;
		if (window > least)
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

/* cong_avoid of a law whose growth is EXPRESSION of `group` and `own`. With one path every law but
 * EWTCP is Reno. */
#define GROW(law, expression) \
SEC("struct_ops") \
void BPF_PROG(law##_grow, struct sock *sk, u32 ack, u32 acked) \
{ \
	struct path own = own_path(sk); \
	struct group group; \
	s64 growth = ONE; \
	acked = beyond_slow_start(sk, acked); \
	if (!acked) \
		return; \
	group = group_of(sk, &own); \
	if (group.paths > 1) \
		growth = expression; \
	grow(sk, growth, acked, 1); \
}

GROW(lia, lia_growth(&group, &own))
GROW(coupled, coupled_growth(&group, &own))
GROW(semicoupled, semicoupled_growth(&group, &own))
GROW(balia, balia_growth(&group, &own))

SEC("struct_ops")
void BPF_PROG(ewtcp_grow, struct sock *sk, u32 ack, u32 acked)
{
	acked = beyond_slow_start(sk, acked);
	if (acked)
		grow(sk, ewtcp_weight, acked, 1);
}

SEC("struct_ops")
void BPF_PROG(olia_grow, struct sock *sk, u32 ack, u32 acked)
{
	struct path own = own_path(sk);
	struct counts counts = {};
	struct group group;
	s64 growth = ONE;

	acked = beyond_slow_start(sk, acked);
	if (!acked)
		return;
	group = group_of(sk, &own);
	if (group.paths > 1) {
		group_add_olia(&group, &own, &own);
		for_each_sibling(sk, p, group_add_olia(&group, &p, &own));
		counts_add(&counts, &group, &own, &own);
		for_each_sibling(sk, p, counts_add(&counts, &group, &p, &own));
		growth = olia_growth(&group, &counts, &own);
	}
	grow(sk, growth, acked, 1);
}

SEC("struct_ops")
u32 BPF_PROG(half_cut, struct sock *sk)
{
	struct path own = own_path(sk);

	return threshold(sk, half(&own), 2);
}

SEC("struct_ops")
u32 BPF_PROG(coupled_cut, struct sock *sk)
{
	struct path own = own_path(sk);
	struct group group = group_of(sk, &own);

	return threshold(sk, half(&own), group.paths > 1 ? 1 : 2);
}

SEC("struct_ops")
u32 BPF_PROG(balia_cut_, struct sock *sk)
{
	struct path own = own_path(sk);
	struct group group = group_of(sk, &own);

	return threshold(sk, balia_cut(&group, &own), group.paths > 1 ? 1 : 2);
}

SEC("struct_ops")
u32 BPF_PROG(olia_cut, struct sock *sk)
{
	struct path own = own_path(sk);
	struct group group = group_of(sk, &own);
	struct state *state = state_of(sk);
	u64 acked = tcp_sk(sk)->bytes_acked;

	state->earlier = state->between;
	state->between = acked - state->mark;
	state->mark = acked;
	return threshold(sk, half(&own), group.paths > 1 ? 1 : 2);
}

SEC("struct_ops")
u32 BPF_PROG(olia_undo, struct sock *sk)
{
	struct state *state = state_of(sk);

	state->mark -= state->between;
	state->between = state->earlier;
	return tcp_reno_undo_cwnd(sk);
}

/* The loader knows the maps by their names. */
#define LAW(law, cut, undone) \
SEC(".struct_ops") \
struct tcp_congestion_ops manyway_##law = { \
	.init = (void *)start, \
	.cong_avoid = (void *)law##_grow, \
	.ssthresh = (void *)cut, \
	.cwnd_event = (void *)event, \
	.undo_cwnd = (void *)undone, \
	.name = #law, \
}

LAW(lia, half_cut, undo);
LAW(olia, olia_cut, olia_undo);
LAW(balia, balia_cut_, undo);
LAW(coupled, coupled_cut, undo);
LAW(semicoupled, half_cut, undo);
LAW(ewtcp, half_cut, undo);
