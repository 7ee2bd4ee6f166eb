// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
//
// Gateway's hand on the uplink: a TCX program at the egress of the WAN interface. It counts what passes, and marks or
// drops single packets as user space ordered. User space decides; this program obeys, and lets everything pass once its
// orders are older than STALE_NS.
//
// Built by `make egress`; builds of the workspace use the object file beside this source and need no clang.

#include <linux/bpf.h>
#include <linux/pkt_cls.h>

typedef __u8 u8;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int(*name)[value]
#define __type(name, type) typeof(type) *name

static void *(*map_lookup)(void *, const void *) = (void *)BPF_FUNC_map_lookup_elem;
static long (*set_ce)(struct __sk_buff *) = (void *)BPF_FUNC_skb_ecn_set_ce;
static long (*load_net)(const void *, u32, void *, u32, u32) = (void *)BPF_FUNC_skb_load_bytes_relative;
// CLOCK_BOOTTIME, as the program's own clock.
static u64 (*boot_ns)(void) = (void *)BPF_FUNC_ktime_get_boot_ns;

// Age above which orders bind no longer: user space stalled.
#define STALE_NS 250000000ULL

// Set once, before the program is attached.
struct settings {
  s64 adjust;   // bytes added to each packet of the link, beyond what the kernel counts
  u64 small;    // packets of at most this size are never signalled: ACKs, DNS, speech, our probes
  u64 exempt;   // bit n: packets of DSCP n are never signalled
};

// User space maps these arrays into its memory: it reads counters and gives orders without system calls.
#define SHARED __uint(map_flags, BPF_F_MMAPABLE)

// Rewritten every few milliseconds; two slots, so that no packet sees half of an order.
struct orders {
  u64 at_ns;   // time of the order
  u64 limit;   // bytes that may have passed at `at_ns`
  u64 rate;    // growth of the limit, bytes per second
  u64 limited; // 1: `limit` binds
  u64 signals; // signals ordered since the start
  u64 mark;    // 1: mark ECN-capable packets instead of dropping them
};

struct counters {
  u64 packets;   // passed, segments of GSO packets counted
  u64 bytes;     // passed, with `adjust`
  u64 signalled; // orders of single signals carried out
  u64 marks;
  u64 drops;     // segments dropped by order of a signal
  u64 capped;    // segments dropped above the limit
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct settings);
} SETTINGS SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 2);
  __type(key, u32);
  __type(value, struct orders);
  SHARED;
} ORDERS SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, u64);
  SHARED;
} SLOT SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, u32);
  __type(value, struct counters);
  SHARED;
} COUNTERS SEC(".maps");

#define ALWAYS static __attribute__((always_inline))

// Traffic class (DSCP and ECN) of an IP packet; -1 if it is none.
ALWAYS int traffic_class(struct __sk_buff *skb) {
  u8 head[2];
  if (load_net(skb, 0, head, sizeof head, BPF_HDR_START_NET)) return -1;
  if (head[0] >> 4 == 4) return head[1];
  if (head[0] >> 4 == 6) return (head[0] & 15) << 4 | head[1] >> 4;
  return -1;
}

// True if one signal is ordered that no other packet took.
ALWAYS int ordered(struct counters *c, u64 signals) {
  u64 done = c->signalled;
  if (done >= signals) return 0;
  return __sync_val_compare_and_swap(&c->signalled, done, done + 1) == done;
}

SEC("classifier/egress")
int tailback_egress(struct __sk_buff *skb) {
  u32 zero = 0;
  struct settings *s = map_lookup(&SETTINGS, &zero);
  struct counters *c = map_lookup(&COUNTERS, &zero);
  u64 *slot = map_lookup(&SLOT, &zero);
  if (!s || !c || !slot) return TC_ACT_UNSPEC;
  u32 which = *slot & 1;
  struct orders *o = map_lookup(&ORDERS, &which);
  if (!o) return TC_ACT_UNSPEC;

  u32 segments = skb->gso_segs ? skb->gso_segs : 1;
  // The kernel's count of bytes after segmentation: every segment has its headers.
  u64 bytes = (u64)skb->wire_len + s->adjust * segments;
  int class = traffic_class(skb);
  u64 age = boot_ns() - o->at_ns;
  if (class < 0 || bytes <= s->small * segments || (s->exempt >> (class >> 2) & 1) || age > STALE_NS) goto pass;

  if (o->limited && c->bytes > o->limit + age * o->rate / 1000000000ULL) {
    __sync_fetch_and_add(&c->capped, segments);
    return TC_ACT_SHOT;
  }
  if (ordered(c, o->signals)) {
    if (o->mark && (class & 3) && set_ce(skb)) {
      __sync_fetch_and_add(&c->marks, 1);
    } else {
      __sync_fetch_and_add(&c->drops, segments);
      return TC_ACT_SHOT;
    }
  }
pass:
  __sync_fetch_and_add(&c->packets, segments);
  __sync_fetch_and_add(&c->bytes, bytes);
  return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
