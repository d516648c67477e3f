/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's types as far as the laws read them: fields by name, whose places the loader looks
 * up in the running kernel's BTF (CO-RE). */
#ifndef MANYWAY_KERNEL_H
#define MANYWAY_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed int __s32;
typedef signed long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0
typedef __u8 u8;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;

/* For libbpf's headers. */
enum bpf_map_type { BPF_MAP_TYPE_UNSPEC };

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define TCP_ESTABLISHED 1
#define TCP_CLOSE_WAIT 8
#define SK_PACING_NEEDED 1
#define TCP_CONG_NON_RESTRICTED 1

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

enum tcp_ca_event { CA_EVENT_CWND_RESTART = 1 };

struct list_head {
	struct list_head *next;
};

struct sock_common {
	volatile unsigned char skc_state;
};

struct sock {
	struct sock_common __sk_common;
	u32 sk_pacing_status;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u32 icsk_rto;
	const struct tcp_congestion_ops *icsk_ca_ops;
	void *icsk_ulp_data;
	u64 icsk_ca_priv[13];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 mss_cache;
	u32 snd_cwnd;
	u32 snd_ssthresh;
	u32 snd_cwnd_clamp;
	u32 snd_nxt;
	u32 srtt_us;
	u32 max_packets_out;
	u32 lsndtime;
	u64 bytes_acked;
	u8 is_cwnd_limited : 1;
	bool is_mptcp;
};

struct mptcp_subflow_context {
	struct list_head node;
	struct sock *tcp_sock;
	struct sock *conn;
};

struct mptcp_sock {
	struct list_head conn_list;
};

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
};

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	u32 flags;
	char name[16];
};

#pragma clang attribute pop

/* The kernel's functions for congestion controls. */
extern u32 tcp_slow_start(struct tcp_sock *tp, u32 acked) __ksym;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
/* p as a pointer to the kernel's type id, only to read: a stale one reads as 0. */
extern void *bpf_rdonly_cast(const void *p, u32 id) __ksym;

#endif
