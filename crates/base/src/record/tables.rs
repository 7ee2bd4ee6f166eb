//! Tables of a recording. Times are UNIX nanoseconds that advance with the monotonic clock from one reading of the wall
//! clock, so a step of the wall clock never bends a delay. Unknown values are null, never zero.

use super::schema::{Cell, Column, Field, Sink, Table, TableSpec, Text, tables, word_enum};

word_enum! {
    /// Fate of a probe.
    Status {
        /// Answered in time, with a trustworthy delay.
        Ok = "ok",
        /// Answered after the loss timeout (10 s unless the plan says otherwise); the delay is still recorded, unless the
        /// server held the answer for longer than it can tell.
        Late = "late",
        /// Lost in the up direction: the far end never saw the probe.
        LostUp = "lost_up",
        /// Lost in the down direction: the far end answered, the answer never came.
        LostDown = "lost_down",
        /// No answer, and no evidence in which direction it was lost.
        Lost = "lost",
        /// Further answer to a probe that was already answered.
        Duplicate = "duplicate",
        /// Answered, but its times cannot be right, for example because a clock was set in between; or this host slept
        /// while the probe was in flight.
        Invalid = "invalid",
        /// Not sent, because its time slot passed first: a fault of this host, not of the link.
        NotSent = "not_sent",
    }
}

word_enum! {
    /// Direction as seen from the near end, the user's side of the bottleneck.
    Direction { Up = "up", Down = "down" }
}

word_enum! {
    /// Cause of a retransmission.
    Cause {
        /// Retransmission timer expired (RFC 6298).
        Timeout = "timeout",
        /// Three duplicate ACKs (RFC 5681 section 3.2).
        Fast = "fast",
        /// SACK reported data above it before the third duplicate ACK came (RFC 6675, RFC 8985).
        Sack = "sack",
        /// Further segments of the same recovery.
        Recovery = "recovery",
        /// Tail loss probe: the last segment, sent again early so that its loss is noticed (RFC 8985 section 7).
        TailProbe = "tail_probe",
        /// Unknown: none of these can be shown.
        Unknown = "unknown",
    }
}

word_enum! {
    /// Origin of the burst within which a packet was lost.
    Burst { Offload = "offload", Acks = "acks", Application = "application", Unknown = "unknown" }
}

tables! {
    /// Probes: one row per probe, written once its fate is known.
    Delay in "delay" at sent_ns {
        /// Send time of the probe (kernel transmit time if the kernel gave one), UNIX ns.
        sent_ns: i64,
        /// Number of the probe within its target, from 0.
        seq: i64,
        /// Target of the probe: `udp` (own server, own flow), `tcp-connect` (TCP set-up), `tcp-request` (one-byte
        /// request on a fresh TCP connection), and others.
        target: Text,
        /// RTT without the hosts' own delays: from this kernel's transmit time to its receive time, minus the time the
        /// far end held it. Null if there was no answer.
        rtt_ns: Option<i64>,
        /// One-way delay to the far end. Null in own measurements, which keep the far end's clock readings in the two
        /// `remote_` columns instead; imported data may have it.
        owd_up_ns: Option<i64>,
        /// One-way delay from the far end; see `owd_up_ns`.
        owd_down_ns: Option<i64>,
        /// Arrival time of the probe at the far end's kernel, on the far end's clock, UNIX ns.
        remote_rx_ns: Option<i64>,
        /// Send time of the answer at the far end's kernel, on the far end's clock, UNIX ns.
        remote_tx_ns: Option<i64>,
        /// Delay added by the two hosts and excluded from `rtt_ns`: user space to kernel and back on this host,
        /// residence time on the far end.
        host_ns: Option<i64>,
        /// Actual minus planned send time.
        late_send_ns: Option<i64>,
        /// Fate of the probe.
        status: Status,
        /// ECN bits of the answer on arrival (0 to 3).
        ecn: Option<i64>,
        /// DSCP of the answer on arrival (0 to 63).
        dscp: Option<i64>,
    }

    /// Traffic of an interface: one row per interval and interface, counted by the kernel.
    Traffic in "traffic" at t_ns {
        /// End of the interval, UNIX ns.
        t_ns: i64,
        /// Length of the interval, ns.
        interval_ns: i64,
        /// Name of the interface.
        interface: Text,
        /// Bytes received in the interval, link-layer header included. Null across a counter reset.
        rx_bytes: Option<i64>,
        /// Bytes sent in the interval, link-layer header included. Null across a counter reset.
        tx_bytes: Option<i64>,
    }

    /// Counters of an interface, read just after each probe was sent: the service curve of a link follows from them and
    /// from the probe's wait.
    Counter in "counter" at t_ns {
        /// Time of the reading, UNIX ns.
        t_ns: i64,
        /// Name of the interface.
        interface: Text,
        /// Bytes received since the interface came up, link-layer header included.
        rx_bytes: i64,
        /// Bytes sent since the interface came up, link-layer header included.
        tx_bytes: i64,
    }

    /// Samples of a transfer: one row per sample, from its sender's TCP_INFO or its receiver's byte count.
    Flow in "flow" at t_ns {
        /// Time of the sample on this host's clock, UNIX ns.
        t_ns: i64,
        /// Number of the flow within the recording.
        flow: i64,
        /// Direction of its data.
        direction: Direction,
        /// Payload bytes acknowledged so far (at the sender); null if only the receiver was watched.
        bytes_acked: Option<i64>,
        /// Payload bytes delivered so far, as known to the sender: counted when first acknowledged, cumulatively or by
        /// SACK; segments behind a hole count at their mean size. Repairing a hole therefore causes neither a stall nor a
        /// jump.
        delivered_bytes: Option<i64>,
        /// Payload bytes received so far (at the receiver); null if only the sender was watched.
        bytes_received: Option<i64>,
        /// Congestion window.
        cwnd_bytes: Option<i64>,
        /// Slow-start threshold; null while the kernel has none.
        ssthresh_bytes: Option<i64>,
        /// Smoothed RTT of the flow's own packets.
        srtt_ns: Option<i64>,
        /// Mean deviation of the RTT.
        rttvar_ns: Option<i64>,
        /// Smallest RTT the sender has seen.
        min_rtt_ns: Option<i64>,
        /// Segments retransmitted so far.
        retransmits: Option<i64>,
        /// Latest delivery-rate estimate of the kernel.
        delivery_rate_bps: Option<i64>,
        /// Payload of a full segment.
        mss_bytes: Option<i64>,
    }

    /// Samples of a queue whose state is known, emulated or simulated: one row per sample.
    Queue in "queue" at t_ns {
        /// Time of the sample, UNIX ns.
        t_ns: i64,
        /// Name of the queue, for example `up` or `hop2/down`.
        queue: Text,
        /// Bytes queued.
        backlog_bytes: i64,
        /// Packets queued.
        backlog_packets: i64,
        /// Sojourn time of the packet that left last.
        sojourn_ns: Option<i64>,
        /// Packets dropped so far.
        drops: i64,
        /// Packets marked so far.
        marks: i64,
        /// Drop probability of the discipline, if it has one.
        probability: Option<f64>,
        /// Bytes delivered so far.
        delivered_bytes: i64,
    }

    /// Crafted datagrams: one row per datagram.
    Datagram in "datagram" at sent_ns {
        /// Send time on the sender's clock, UNIX ns.
        sent_ns: i64,
        /// Number within its train.
        seq: i64,
        /// Number of its train; the event `train` with this subject describes the train.
        train: i64,
        /// Direction of the datagram.
        direction: Direction,
        /// Size of its IP packet.
        size_bytes: i64,
        /// Arrival time on the receiver's clock, UNIX ns; null if it never arrived.
        received_ns: Option<i64>,
        /// ECN bits on arrival (0 to 3).
        ecn: Option<i64>,
    }

    /// Latency control at a gateway: one row per decision while the direction carries traffic, else one a second.
    Decision in "decision" at t_ns {
        /// Time of the decision, UNIX ns.
        t_ns: i64,
        /// Name of the WAN interface.
        interface: Text,
        /// Direction that is controlled.
        direction: Direction,
        /// Reason: `blind` (no delay sample for a second: packets pass), `learning` (capacity unknown), `short` (wait
        /// below the target), `long` (above it: packets are signalled), `capped` (above the cap: packets are dropped),
        /// `others` (probes wait, but this gateway sends next to nothing: packets pass), `bypassed` (the link is full and
        /// no probe waits: packets pass), `unseen` (the interface sends packets that the hook does not see: packets pass),
        /// `clock` (a wait jumped while that of the other direction fell: the jump counts as none).
        why: Text,
        /// True if the orders were carried out; false in a dry run.
        applied: bool,
        /// Estimated wait in the hidden queue; null if unknown.
        wait_ns: Option<i64>,
        /// Wait that the newest probe met; null if there is none.
        probed_wait_ns: Option<i64>,
        /// Estimated capacity of the link.
        capacity_bps: Option<i64>,
        /// Lower end of its 95 % interval.
        capacity_low_bps: Option<i64>,
        /// Upper end of its 95 % interval; null if there is none.
        capacity_high_bps: Option<i64>,
        /// Bytes that passed the interface so far, link-layer adjustment included.
        passed_bytes: i64,
        /// Signals that the law ordered so far.
        signals: i64,
        /// Probability of a signal per packet, of a law that has one.
        probability: Option<f64>,
        /// Packets marked so far.
        marks: i64,
        /// Packets dropped so far, those above the cap included.
        drops: i64,
        /// Rate of the shaper; null without one.
        shaper_bps: Option<i64>,
    }

    /// Load of the measuring host: one row per sample.
    HostLoad in "host" at t_ns {
        /// End of the interval, UNIX ns.
        t_ns: i64,
        /// Share of all processors that was busy, 0 to 1: user, system and interrupt time, and time stolen by other virtual
        /// machines.
        cpu: Option<f64>,
        /// Share of user time. Null in recordings of earlier versions, as are the three below.
        cpu_user: Option<f64>,
        /// Share of system time, interrupts excluded.
        cpu_system: Option<f64>,
        /// Share of interrupts, in which a kernel handles packets; null if the source counts them elsewhere.
        cpu_interrupt: Option<f64>,
        /// Share in which processors were idle while a disk was waited for; no part of `cpu`.
        cpu_wait: Option<f64>,
    }

    /// State of the modem, as it tells itself: one row per reading. Counters are the modem's, which may reset them.
    Modem in "modem" at t_ns {
        /// Time of the reading, UNIX ns.
        t_ns: i64,
        /// Synchronous rate of the downlink.
        down_bps: Option<i64>,
        /// Synchronous rate of the uplink.
        up_bps: Option<i64>,
        /// Noise margin of the downlink.
        margin_down_db: Option<f64>,
        /// Noise margin of the uplink.
        margin_up_db: Option<f64>,
        /// Attenuation of the downlink.
        attenuation_down_db: Option<f64>,
        /// Attenuation of the uplink.
        attenuation_up_db: Option<f64>,
        /// Blocks with checksum errors so far, downlink.
        crc_down: Option<i64>,
        /// Blocks with checksum errors so far, uplink.
        crc_up: Option<i64>,
        /// Blocks repaired by forward error correction so far, downlink.
        fec_down: Option<i64>,
        /// Blocks repaired by forward error correction so far, uplink.
        fec_up: Option<i64>,
    }

    /// State of a radio towards its cell or access point, as the modem, the driver or the user's command tells it: one row per
    /// reading and interface.
    Radio in "radio" at t_ns {
        /// Time of the reading, UNIX ns.
        t_ns: i64,
        /// Name of the interface; empty if the reading names none.
        interface: Text,
        /// Technology, such as "wifi", "umts", "lte" or "lte+5gnr".
        technology: Option<Text>,
        /// Identity of the cell or access point. It tells where the host was.
        cell: Option<Text>,
        /// Name of the network: the operator.
        operator: Option<Text>,
        /// Received power in the channel (RSSI), dBm.
        rssi_dbm: Option<f64>,
        /// Received power of the cell's reference signal, dBm: RSRP of LTE and 5G, RSCP of UMTS.
        rsrp_dbm: Option<f64>,
        /// Ratio of signal to noise and interference, dB.
        snr_db: Option<f64>,
        /// Quality of the signal as the modem rates it, per cent.
        quality_percent: Option<f64>,
        /// Rate of the radio's own modulation, downlink.
        down_bps: Option<i64>,
        /// Rate of the radio's own modulation, uplink.
        up_bps: Option<i64>,
    }

    /// Availability of an interface: one row per interval and interface.
    Availability in "availability" at t_ns {
        /// End of the interval, UNIX ns.
        t_ns: i64,
        /// Length of the interval, ns.
        interval_ns: i64,
        /// Name of the interface.
        interface: Text,
        /// True if the interface existed and was operationally up.
        up: bool,
        /// True if it had an address that reaches beyond the link.
        address: bool,
        /// True if a host beyond it answered within the interval; null if none was asked.
        reachable: Option<bool>,
    }

    /// Delay distributions: one row per interval and target. They remain when single rows are thinned out to save
    /// space. Such rows can be added; percentiles of the sum are those of all probes.
    Distribution in "distribution" at t_ns {
        /// Start of the interval, UNIX ns.
        t_ns: i64,
        /// Length of the interval, ns.
        interval_ns: i64,
        /// Target of the probes; see `delay`.
        target: Text,
        /// Probes that were sent.
        sent_packets: i64,
        /// Probes answered in time.
        ok_packets: i64,
        /// Probes answered late.
        late_packets: i64,
        /// Probes never answered.
        lost_packets: i64,
        /// Probes whose times cannot be right.
        invalid_packets: i64,
        /// Probes that this host failed to send.
        not_sent_packets: i64,
        /// RTTs of the probes answered in time or late, in microseconds: HdrHistogram V2, uncompressed, base64.
        histogram: Text,
    }

    /// TCP connections in a capture: one row per direction, written when the connection is over. The numbers are those
    /// of `tailback trace --json`.
    Connection in "connection" at first_ns boxed {
        /// Capture time of the connection's first packet, UNIX ns.
        first_ns: i64,
        /// Capture time of its last packet, UNIX ns.
        last_ns: i64,
        /// Number of the direction within the recording: twice the number of the connection, plus one for the data of
        /// its second end.
        flow: i64,
        /// Address and port of the end that sent the data.
        source: Text,
        /// Address and port of the other end.
        destination: Text,
        /// True if either end reset the connection.
        reset: bool,
        /// Packets of the connection that were captured twice and count once.
        copied_packets: i64,
        /// Packets of the connection that the capture holds out of time order.
        backward_packets: i64,
        /// Packets that this end sent.
        sent_packets: i64,
        /// Data packets: those with payload.
        data_packets: i64,
        /// Payload, retransmissions included.
        data_bytes: i64,
        /// Payload counted once.
        unique_bytes: i64,
        /// Packets with at least one byte that was seen before.
        retransmitted_packets: i64,
        /// Bytes that were seen before.
        retransmitted_bytes: i64,
        /// Packets that filled a hole below the highest byte seen.
        out_of_order_packets: i64,
        /// Out-of-order packets that are retransmissions after a loss ahead of the capture.
        upstream_repair_packets: i64,
        /// Out-of-order packets that were reordered in the network.
        reordered_packets: i64,
        /// Retransmissions because the retransmission timer expired.
        again_timeout_packets: i64,
        /// Retransmissions after three duplicate ACKs.
        again_fast_packets: i64,
        /// Retransmissions because SACK reported data above.
        again_sack_packets: i64,
        /// Retransmissions in a recovery that had already started.
        again_recovery_packets: i64,
        /// Retransmissions that are tail loss probes.
        again_tail_probe_packets: i64,
        /// Retransmissions without a known cause.
        again_unknown_packets: i64,
        /// Needless retransmissions: the data had already arrived.
        needless_packets: i64,
        /// RTT samples, from data to its ACK (Karn's rule).
        rtt_samples: i64,
        /// Smallest RTT of the samples.
        rtt_min_ns: Option<i64>,
        /// Mean RTT of the samples.
        rtt_mean_ns: Option<f64>,
        /// Median RTT of the samples.
        rtt_p50_ns: Option<i64>,
        /// 95th percentile of the RTT.
        rtt_p95_ns: Option<i64>,
        /// 99th percentile of the RTT.
        rtt_p99_ns: Option<i64>,
        /// Largest RTT of the samples.
        rtt_max_ns: Option<i64>,
        /// Duplicate ACKs: no data, nothing newly acknowledged, unchanged window, while data was outstanding. Sent by
        /// this end, like all ACKs counted in this row.
        duplicate_acks: i64,
        /// Third duplicate ACKs, one for each run of duplicates.
        triple_duplicate_acks: i64,
        /// ACKs that carried SACK blocks.
        sack_acks: i64,
        /// SACK blocks that reported a duplicate (RFC 2883).
        dsacks: i64,
        /// Packets that advertised a zero window.
        zero_windows: i64,
        /// Window probes: data sent into a closed window.
        window_probes: i64,
        /// Keep-alives.
        keep_alives: i64,
        /// ACKs of data that the capture does not hold.
        acks_of_unseen: i64,
        /// Most bytes sent and not yet acknowledged.
        outstanding_max_bytes: i64,
        /// Most bytes in flight: outstanding without those that SACK reported.
        in_flight_max_bytes: i64,
        /// Initial window: data sent before the first ACK of data; null if the start of the connection was not
        /// captured.
        initial_window_bytes: Option<i64>,
        /// MSS in this end's SYN.
        mss_bytes: Option<i64>,
        /// Window scale in this end's SYN.
        window_scale: Option<i64>,
        /// True if this end's SYN permits SACK.
        sack_permitted: bool,
        /// True if this end's packets carry timestamps.
        timestamps: bool,
        /// Longest time between two of this end's packets.
        silence_max_ns: i64,
        /// Packets marked in the network (CE).
        ce_packets: i64,
        /// Packets with ECE.
        ece_packets: i64,
        /// Payload that was acknowledged or numbered but is not in the capture.
        missing_bytes: i64,
        /// Losses, as packets on the wire: retransmissions that were not needless.
        lost_packets: i64,
        /// Losses of packets sent while the path carried nothing (flow breaks).
        lost_in_breaks_packets: i64,
        /// Losses from a burst of segmentation offload.
        lost_in_offload_bursts_packets: i64,
        /// Losses from a burst that one ACK released.
        lost_in_ack_bursts_packets: i64,
        /// Losses from a burst of the application.
        lost_in_application_bursts_packets: i64,
        /// Losses from a burst of unknown origin.
        lost_in_unknown_bursts_packets: i64,
        /// Losses neither in a flow break nor from a burst.
        lost_otherwise_packets: i64,
        /// Losses among them that may be needless retransmissions: no SACK block of the receiver is in the capture, so it could
        /// not say so; or others of the same repair were needless, or the ACK is not in the capture. Null in recordings from before this was told.
        lost_perhaps_packets: Option<i64>,
        /// Time from the first loss of each flow break to the ACK that ended it.
        breaks_ns: i64,
        /// Smallest RTT before the course starts. This and all columns below are null if fewer than five packets
        /// carried data.
        rtt_before_ns: Option<i64>,
        /// RTT samples from timestamps (RFC 7323), retransmissions included.
        stamped_samples: Option<i64>,
        /// Median RTT from timestamps.
        stamped_p50_ns: Option<i64>,
        /// 95th percentile of the RTT from timestamps.
        stamped_p95_ns: Option<i64>,
        /// 99th percentile of the RTT from timestamps.
        stamped_p99_ns: Option<i64>,
        /// Time limited by the sender: its application had nothing to send.
        sender_limited_ns: Option<i64>,
        /// Time limited by the receiver: its window was full. Null, and counted as limited by the network, if the two
        /// cannot be told apart: no window scale was captured, or the sender was far away and has no timestamps.
        receiver_limited_ns: Option<i64>,
        /// Time limited by the network: the rest.
        network_limited_ns: Option<i64>,
        /// Largest gap within a burst: packets closer together than this are one burst.
        burst_gap_ns: Option<i64>,
        /// Median burst size.
        burst_p50_bytes: Option<i64>,
        /// 95th percentile of the burst size.
        burst_p95_bytes: Option<i64>,
        /// Largest burst.
        burst_max_bytes: Option<i64>,
        /// Bursts of more than two segments from segmentation offload.
        offload_bursts: Option<i64>,
        /// Bursts released by one ACK.
        ack_bursts: Option<i64>,
        /// Bursts of the application.
        application_bursts: Option<i64>,
        /// Bursts of unknown origin.
        unknown_bursts: Option<i64>,
        /// ACKs of its data that arrived in bunches, closer together than the data.
        bunched_acks: Option<i64>,
        /// Number of bunches of ACKs.
        ack_bunches: Option<i64>,
        /// Highest rate acknowledged over 0.1 s or one RTT.
        peak_bps: Option<f64>,
        /// Start of its course, and of the first interval of `course`, UNIX ns.
        course_ns: Option<i64>,
        /// Error of the data's ages: a tick of its sender's clock, and its possible skew; null where the clock is not known.
        data_clock_error_ns: Option<i64>,
        /// Error of the ages of the packets that acknowledge the data, in the same way.
        answer_clock_error_ns: Option<i64>,
        /// Packets with payload as they were on the wire: an offload super-segment counts as the segments it is split
        /// into.
        wire_data_packets: Option<i64>,
        /// Packets of the connection that the network delivered twice and that count once.
        doubled_packets: Option<i64>,
        /// Time in which the receiver's window was certainly full; for connections whose `receiver_limited_ns` is null.
        receiver_limited_least_ns: Option<i64>,
    }

    /// TCP packets in a capture: one row per packet, with the data it sent and acknowledged. Positions are bytes from
    /// the first byte of the direction, SYN included.
    Segment in "segment" at t_ns {
        /// Capture time, UNIX ns; never before the preceding packet of its connection.
        t_ns: i64,
        /// Direction that the packet belongs to; see `connection`.
        flow: i64,
        /// TCP flags: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128.
        flags: i64,
        /// Position of its payload; null if it has none.
        position_bytes: Option<i64>,
        /// Payload of the packet.
        size_bytes: i64,
        /// New payload: bytes not seen before.
        fresh_bytes: Option<i64>,
        /// Bytes of its direction in flight afterwards.
        in_flight_bytes: Option<i64>,
        /// Position in the other direction up to which it acknowledges all data.
        acked_bytes: Option<i64>,
        /// Receive window beyond that position, scaled; null if the window scale was not captured.
        window_bytes: Option<i64>,
        /// RTT of the data that it acknowledges, as in `connection`.
        rtt_ns: Option<i64>,
        /// Start of the first block of its SACK option: data of the other direction, the latest that arrived out of
        /// order, or twice.
        sack_from_bytes: Option<i64>,
        /// End of that block.
        sack_to_bytes: Option<i64>,
    }

    /// Retransmitted packets: one row per packet, written when the connection is over; the first 100,000 of a
    /// direction.
    Retransmission in "retransmission" at t_ns {
        /// Time of the retransmission, UNIX ns.
        t_ns: i64,
        /// Direction that the packet belongs to; see `connection`.
        flow: i64,
        /// Time at which the same data was sent before, UNIX ns; null if that was not seen.
        before_ns: Option<i64>,
        /// Position of its data, in bytes of its direction.
        position_bytes: i64,
        /// Retransmitted bytes in the packet.
        size_bytes: i64,
        /// Cause of the retransmission.
        cause: Cause,
        /// True if the data had already arrived, so nothing was lost.
        needless: bool,
        /// Burst within which the data had been sent before; null if there was none.
        burst: Option<Burst>,
        /// Number of the packet in the capture, from 1, as in Wireshark; null beyond 2^32.
        frame: Option<i64>,
        /// Number of the packet that sent its first byte before.
        before_frame: Option<i64>,
    }

    /// Course of a direction that carried five or more data packets: one row per interval, written when the connection
    /// is over; none for intervals without activity.
    Course in "course" at t_ns {
        /// Start of the interval, UNIX ns.
        t_ns: i64,
        /// Length of the interval: 20 ms, or more if the connection lasted long.
        interval_ns: i64,
        /// Direction of the data; see `connection`.
        flow: i64,
        /// Goodput: payload sent for the first time.
        fresh_bytes: i64,
        /// Retransmitted payload.
        again_bytes: i64,
        /// Sequence space acknowledged.
        acked_bytes: i64,
        /// Most bytes in flight.
        in_flight_max_bytes: i64,
        /// RTT samples.
        rtt_samples: i64,
        /// Smallest RTT of the samples; its excess over the smallest between the same two hosts is queueing delay.
        rtt_min_ns: Option<i64>,
        /// Mean RTT of the samples, rounded down.
        rtt_mean_ns: Option<i64>,
        /// Largest RTT of the samples.
        rtt_max_ns: Option<i64>,
        /// Prompt RTT samples: from ACKs that their receiver cannot have delayed, and from SACK and the timestamp
        /// echoes of retransmissions.
        prompt_samples: Option<i64>,
        /// Mean RTT of the prompt samples.
        prompt_mean_ns: Option<i64>,
        /// Mean age of the data at the capture, by the TCP timestamps of its sender, less that of the sender's first
        /// packet; null without timestamps whose clock is known.
        data_age_ns: Option<i64>,
        /// Mean age of the packets that acknowledge the data, in the same way.
        answer_age_ns: Option<i64>,
    }

    /// UDP conversations in a capture: one row per conversation.
    Conversation in "conversation" at first_ns {
        /// Capture time of its first packet, UNIX ns.
        first_ns: i64,
        /// Capture time of its last packet, UNIX ns.
        last_ns: i64,
        /// Address and port of the end that sent the first packet.
        source: Text,
        /// Address and port of the other end.
        destination: Text,
        /// Packets from the source.
        sent_packets: i64,
        /// Packets from the destination.
        returned_packets: i64,
        /// Payload from the source.
        sent_bytes: i64,
        /// Payload from the destination.
        returned_bytes: i64,
    }

    /// Events: phases, faults, findings of the instrument about itself.
    Event in "event" at t_ns {
        /// Time of the event, UNIX ns.
        t_ns: i64,
        /// Kind of the event: `phase` (a phase starts: `idle`, `down`, `up`, `both`, `drain`), `phase_end`,
        /// `warmup_end`, `clock`, `fault`, `cross_traffic`; of a monitor `run`, `target`, `target_end`, `session`,
        /// `address`, `interface`, `disk`; of a probe `train` (facts of a train of crafted datagrams); of a capture
        /// `capture` (the capture as a whole), `damage`, `flow_break`; and others.
        kind: Text,
        /// Subject of the event: the phase's name, a target, a queue.
        subject: Text,
        /// Detail as JSON or prose; empty if there is none.
        detail: Text,
    }
}

impl HostLoad {
    /// Makes a sample of which only the busy share is known.
    pub fn busy(t_ns: i64, cpu: Option<f64>) -> HostLoad {
        HostLoad {
            t_ns,
            cpu,
            cpu_user: None,
            cpu_system: None,
            cpu_interrupt: None,
            cpu_wait: None,
        }
    }

    /// Shares in the order of the columns: busy, user, system, interrupt, wait.
    pub fn shares(&self) -> [Option<f64>; 5] {
        let parts = [self.cpu_user, self.cpu_system, self.cpu_interrupt];
        let [user, system, interrupt] = parts;
        [self.cpu, user, system, interrupt, self.cpu_wait]
    }

    /// Makes a sample of the shares of [`HostLoad::shares`].
    pub fn of(t_ns: i64, shares: [Option<f64>; 5]) -> HostLoad {
        let [cpu, cpu_user, cpu_system, cpu_interrupt, cpu_wait] = shares;
        HostLoad {
            t_ns,
            cpu,
            cpu_user,
            cpu_system,
            cpu_interrupt,
            cpu_wait,
        }
    }
}

impl Modem {
    /// Makes a reading with all values unknown.
    pub fn at(t_ns: i64) -> Modem {
        Modem {
            t_ns,
            down_bps: None,
            up_bps: None,
            margin_down_db: None,
            margin_up_db: None,
            attenuation_down_db: None,
            attenuation_up_db: None,
            crc_down: None,
            crc_up: None,
            fec_down: None,
            fec_up: None,
        }
    }
}

impl Radio {
    /// Makes a reading with all values unknown.
    pub fn at(t_ns: i64, interface: &str) -> Radio {
        Radio {
            t_ns,
            interface: interface.into(),
            technology: None,
            cell: None,
            operator: None,
            rssi_dbm: None,
            rsrp_dbm: None,
            snr_db: None,
            quality_percent: None,
            down_bps: None,
            up_bps: None,
        }
    }
}

impl Flow {
    /// Makes a sample with all measured values unknown.
    pub fn about(t_ns: i64, flow: i64, direction: Direction) -> Flow {
        Flow {
            t_ns,
            flow,
            direction,
            bytes_acked: None,
            delivered_bytes: None,
            bytes_received: None,
            cwnd_bytes: None,
            ssthresh_bytes: None,
            srtt_ns: None,
            rttvar_ns: None,
            min_rtt_ns: None,
            retransmits: None,
            delivery_rate_bps: None,
            mss_bytes: None,
        }
    }
}

impl Delay {
    /// Makes the row of an unanswered probe, with all measured values unknown.
    pub fn unanswered(sent_ns: i64, seq: i64, target: Text) -> Delay {
        Delay {
            sent_ns,
            seq,
            target,
            rtt_ns: None,
            owd_up_ns: None,
            owd_down_ns: None,
            remote_rx_ns: None,
            remote_tx_ns: None,
            host_ns: None,
            late_send_ns: None,
            status: Status::Lost,
            ecn: None,
            dscp: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    fn cells(put: impl Fn(&mut Vec<Cell>)) -> Vec<Cell> {
        let mut cells = Vec::new();
        put(&mut cells);
        cells
    }

    #[test]
    fn a_row_survives_the_way_through_cells() {
        let row = Delay {
            sent_ns: 5,
            seq: 1,
            target: "udp".into(),
            rtt_ns: Some(19_000_000),
            owd_up_ns: None,
            owd_down_ns: None,
            remote_rx_ns: Some(7),
            remote_tx_ns: None,
            host_ns: Some(40_000),
            late_send_ns: Some(-3),
            status: Status::LostDown,
            ecn: Some(2),
            dscp: None,
        };
        assert_eq!(
            Delay::from_cells(&mut |i| cells(|s| row.put(s))[i].clone()),
            Some(row.clone())
        );
        assert_eq!(Delay::from_cells(&mut |_| Cell::Null), None);
    }

    #[test]
    fn every_table_is_found_at_its_number() {
        assert_eq!(TableId::ALL.len(), TABLES.len());
        for (i, id) in TableId::ALL.iter().enumerate() {
            assert_eq!(id.spec().name, TABLES[i].name);
            assert!(id.spec().columns.iter().any(|c| c.name == id.spec().time));
        }
        let load = HostLoad::of(7, [Some(0.5), Some(0.25), None, Some(0.125), Some(0.0)]);
        let row = Row::from(load.clone());
        assert_eq!((row.table(), row.time_ns()), (TableId::HostLoad, 7));
        assert_eq!(
            row.table().row(&mut |i| cells(|s| row.put(s))[i].clone()),
            Some(Row::HostLoad(load))
        );
    }

    #[test]
    fn every_number_says_its_unit_and_every_column_its_meaning() {
        let units = [
            "_ns", "_bytes", "_bps", "_packets", "_db", "_dbm", "_percent",
        ];
        let counts = [
            "seq",
            "flow",
            "train",
            "retransmits",
            "drops",
            "marks",
            "ecn",
            "dscp",
            "probability",
            "cpu",
            "cpu_user",
            "cpu_system",
            "cpu_interrupt",
            "cpu_wait",
            "crc_down",
            "crc_up",
            "fec_down",
            "fec_up",
            "bytes_acked",
            "bytes_received",
            "flags",
            "window_scale",
            "dsacks",
            "signals",
            "keep_alives",
            "acks_of_unseen",
            "frame",
            "before_frame",
        ];
        let counted = [
            "_samples", "_acks", "_bursts", "_bunches", "_windows", "_probes",
        ];
        for table in TABLES {
            for c in table.columns {
                assert!(
                    !c.doc.trim().is_empty(),
                    "{}.{} has no description",
                    table.name,
                    c.name
                );
                let number = matches!(c.kind, Kind::Int | Kind::Real);
                let ends = |with: &[&str]| with.iter().any(|u| c.name.ends_with(u));
                let named = ends(&units) || ends(&counted) || counts.contains(&c.name);
                assert!(
                    !number || named,
                    "{}.{} does not say its unit",
                    table.name,
                    c.name
                );
            }
        }
    }
}
