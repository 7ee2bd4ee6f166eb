//! The tables of a recording. Times are UNIX nanoseconds that advance with the monotonic clock from
//! one reading of the wall clock, so a step of the wall clock never bends a delay. What is not known
//! is null, never zero.

use super::schema::{Cell, Column, Field, Sink, Table, TableSpec, Text, tables, word_enum};

word_enum! {
    /// What became of a probe.
    Status {
        /// Answered in time, and its delay can be trusted.
        Ok = "ok",
        /// Answered after the limit for loss (10 s unless the plan says otherwise); the delay is still recorded.
        Late = "late",
        /// The far end never saw it.
        LostUp = "lost_up",
        /// The far end answered, the answer never came.
        LostDown = "lost_down",
        /// No answer, and no evidence in which direction it was lost.
        Lost = "lost",
        /// A further answer to a probe that was answered already.
        Duplicate = "duplicate",
        /// Answered, but its times cannot be right (a clock was set in between, for example); or this host slept while it was under way.
        Invalid = "invalid",
        /// Its slot passed before it could be sent: a fault of this host, not of the link.
        NotSent = "not_sent",
    }
}

word_enum! {
    /// Seen from the near end, the user's side of the bottleneck.
    Direction { Up = "up", Down = "down" }
}

word_enum! {
    /// Why something was sent again.
    Cause {
        /// The retransmission timer ran out (RFC 6298).
        Timeout = "timeout",
        /// Three duplicate ACKs (RFC 5681 section 3.2).
        Fast = "fast",
        /// SACK told of data above it before the third duplicate ACK came (RFC 6675, RFC 8985).
        Sack = "sack",
        /// Further segments of the same recovery.
        Recovery = "recovery",
        /// The last segment, sent again early so that its loss is noticed (RFC 8985 section 7).
        TailProbe = "tail_probe",
        /// None of these can be shown.
        Unknown = "unknown",
    }
}

word_enum! {
    /// What let go the burst in whose midst something was lost.
    Burst { Offload = "offload", Acks = "acks", Application = "application", Unknown = "unknown" }
}

tables! {
    /// One row a probe, written once its fate is known.
    Delay in "delay" at sent_ns {
        /// When the probe left this host (kernel transmit time where the kernel gave one), UNIX ns.
        sent_ns: i64,
        /// Number of the probe within its target, from 0.
        seq: i64,
        /// What was probed: `udp` (our server, own flow), `tcp-connect` (TCP set-up), `tcp-request` (one-byte request on a fresh TCP connection), and others as they come.
        target: Text,
        /// Round-trip time without the share of the hosts: from this kernel's transmit to its receive time, less the time the far end held it. Null where there was no answer.
        rtt_ns: Option<i64>,
        /// One-way delay to the far end. Null in our own measurements, which keep the far end's clock readings in the two `remote_` columns instead; imported data may have it.
        owd_up_ns: Option<i64>,
        /// One-way delay from the far end; see `owd_up_ns`.
        owd_down_ns: Option<i64>,
        /// When the far end's kernel received the probe, on the far end's clock, UNIX ns.
        remote_rx_ns: Option<i64>,
        /// When the far end's kernel sent the answer, on the far end's clock, UNIX ns.
        remote_tx_ns: Option<i64>,
        /// Delay that the two hosts themselves added and that `rtt_ns` leaves out: user space to kernel and back on this side, residence on the far side.
        host_ns: Option<i64>,
        /// Actual minus planned send time.
        late_send_ns: Option<i64>,
        /// What became of it.
        status: Status,
        /// ECN bits the answer arrived with (0 to 3).
        ecn: Option<i64>,
        /// DSCP the answer arrived with (0 to 63).
        dscp: Option<i64>,
    }

    /// One row an interval and interface: what passed, counted by the kernel.
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

    /// One row a sample of a transfer, from its sender's TCP_INFO or its receiver's byte count.
    Flow in "flow" at t_ns {
        /// When it was sampled, on this host's clock, UNIX ns.
        t_ns: i64,
        /// Number of the flow within the recording.
        flow: i64,
        /// Which way its data goes.
        direction: Direction,
        /// Payload bytes acknowledged so far (at the sender), null where only the receiver was watched.
        bytes_acked: Option<i64>,
        /// Payload bytes delivered so far as the sender knows it: whole segments, counted when first acknowledged, selectively or not, so that a hole being repaired makes neither a stall nor a jump.
        delivered_bytes: Option<i64>,
        /// Payload bytes received so far (at the receiver), null where only the sender was watched.
        bytes_received: Option<i64>,
        /// Congestion window.
        cwnd_bytes: Option<i64>,
        /// Slow-start threshold; null while the kernel has none.
        ssthresh_bytes: Option<i64>,
        /// Smoothed round-trip time, of the flow's own packets.
        srtt_ns: Option<i64>,
        /// Mean deviation of the round-trip time.
        rttvar_ns: Option<i64>,
        /// Smallest round-trip time the sender has seen.
        min_rtt_ns: Option<i64>,
        /// Segments retransmitted so far.
        retransmits: Option<i64>,
        /// The kernel's latest estimate of the delivery rate.
        delivery_rate_bps: Option<i64>,
        /// Payload of a full segment.
        mss_bytes: Option<i64>,
    }

    /// One row a sample of a queue whose inside is known: emulated or simulated.
    Queue in "queue" at t_ns {
        /// When it was sampled, UNIX ns.
        t_ns: i64,
        /// Which queue, for example `up` or `hop2/down`.
        queue: Text,
        /// Bytes waiting.
        backlog_bytes: i64,
        /// Packets waiting.
        backlog_packets: i64,
        /// Sojourn time of the packet that left last.
        sojourn_ns: Option<i64>,
        /// Packets dropped so far.
        drops: i64,
        /// Packets marked so far.
        marks: i64,
        /// Drop probability of the discipline, where it has one.
        probability: Option<f64>,
        /// Bytes delivered so far.
        delivered_bytes: i64,
    }

    /// One row a crafted datagram.
    Datagram in "datagram" at sent_ns {
        /// When it left, on the sender's clock, UNIX ns.
        sent_ns: i64,
        /// Number within its train.
        seq: i64,
        /// Which train it belongs to; the event `train` of that subject says what it was.
        train: i64,
        /// Which way it went.
        direction: Direction,
        /// Size of its IP packet.
        size_bytes: i64,
        /// When it arrived, on the receiver's clock; null where it never did.
        received_ns: Option<i64>,
        /// ECN bits it arrived with (0 to 3).
        ecn: Option<i64>,
    }

    /// One row a sample of the measuring host's own load.
    HostLoad in "host" at t_ns {
        /// End of the interval, UNIX ns.
        t_ns: i64,
        /// Share of all processors that was busy, 0 to 1.
        cpu: Option<f64>,
    }

    /// One row an interval and interface: whether it could have carried anything.
    Availability in "availability" at t_ns {
        /// End of the interval, UNIX ns.
        t_ns: i64,
        /// Length of the interval, ns.
        interval_ns: i64,
        /// Name of the interface.
        interface: Text,
        /// Whether it existed and was operationally up.
        up: bool,
        /// Whether it had an address that reaches beyond the link.
        address: bool,
        /// Whether anything beyond it answered within the interval; null where nothing was asked.
        reachable: Option<bool>,
    }

    /// One row an interval and target: the delays of its probes as a distribution. What remains once single rows were
    /// thinned out to save space; such rows can be added, and percentiles of the sum are true ones.
    Distribution in "distribution" at t_ns {
        /// Begin of the interval, UNIX ns.
        t_ns: i64,
        /// Length of the interval, ns.
        interval_ns: i64,
        /// What was probed; see `delay`.
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
        /// Round-trip times of those answered in time or late, in microseconds: HdrHistogram V2, uncompressed, base64.
        histogram: Text,
    }

    /// One row a direction of a TCP connection in a capture, written when the connection is over. Its numbers are those of `tailback trace --json`.
    Connection in "connection" at first_ns boxed {
        /// When the connection's first packet was captured, UNIX ns.
        first_ns: i64,
        /// When its last packet was captured.
        last_ns: i64,
        /// Number of the direction within the recording: twice the number of the connection, and one more for what its second end sent.
        flow: i64,
        /// Address and port of the end whose data it is.
        source: Text,
        /// Address and port of the other end.
        destination: Text,
        /// The connection was reset by either end.
        reset: bool,
        /// Packets of the connection that were captured twice and count once.
        copied_packets: i64,
        /// Packets of the connection that the capture holds out of order of time.
        backward_packets: i64,
        /// Packets that it sent.
        sent_packets: i64,
        /// Of those with payload.
        data_packets: i64,
        /// Payload, copies included.
        data_bytes: i64,
        /// Payload counted once.
        unique_bytes: i64,
        /// Packets of which at least a byte was seen before.
        retransmitted_packets: i64,
        /// Bytes that were seen before.
        retransmitted_bytes: i64,
        /// Packets that filled a hole below the highest byte seen.
        out_of_order_packets: i64,
        /// Of those: sent again after a loss ahead of the capture.
        upstream_repair_packets: i64,
        /// Of those: overtaken on the way.
        reordered_packets: i64,
        /// Sent again because the retransmission timer ran out.
        again_timeout_packets: i64,
        /// Sent again after three duplicate ACKs.
        again_fast_packets: i64,
        /// Sent again because SACK told of data above.
        again_sack_packets: i64,
        /// Sent again in a recovery that had begun.
        again_recovery_packets: i64,
        /// Sent again as tail loss probes.
        again_tail_probe_packets: i64,
        /// Sent again for no reason that shows.
        again_unknown_packets: i64,
        /// Of all sent again: had arrived before.
        needless_packets: i64,
        /// Round trips that were measured, from data to its ACK (Karn's rule).
        rtt_samples: i64,
        /// The least of them.
        rtt_min_ns: Option<i64>,
        /// Their mean.
        rtt_mean_ns: Option<f64>,
        /// Their median.
        rtt_p50_ns: Option<i64>,
        /// Their 95th percentile.
        rtt_p95_ns: Option<i64>,
        /// Their 99th percentile.
        rtt_p99_ns: Option<i64>,
        /// The largest of them.
        rtt_max_ns: Option<i64>,
        /// ACKs without data or news, of the window's size before, while data was outstanding; sent by this end, as all about ACKs here.
        duplicate_acks: i64,
        /// The third of each row of them.
        triple_duplicate_acks: i64,
        /// ACKs that carried SACK blocks.
        sack_acks: i64,
        /// Blocks that told of a duplicate (RFC 2883).
        dsacks: i64,
        /// Packets that offered no window.
        zero_windows: i64,
        /// Data into a closed window.
        window_probes: i64,
        /// Questions whether the other end lives.
        keep_alives: i64,
        /// ACKs of data that the capture does not hold.
        acks_of_unseen: i64,
        /// Most bytes sent and not acknowledged.
        outstanding_max_bytes: i64,
        /// The same without those that SACK reported.
        in_flight_max_bytes: i64,
        /// Data sent before the first ACK of data; null where the begin of the connection was not captured.
        initial_window_bytes: Option<i64>,
        /// The MSS that this end's SYN allows.
        mss_bytes: Option<i64>,
        /// The window scale of its SYN.
        window_scale: Option<i64>,
        /// Whether its SYN permits SACK.
        sack_permitted: bool,
        /// Whether its packets carry timestamps.
        timestamps: bool,
        /// Longest time between two of its packets.
        silence_max_ns: i64,
        /// Packets that were marked on the way (CE).
        ce_packets: i64,
        /// Packets with ECE.
        ece_packets: i64,
        /// Payload that was acknowledged or numbered but is not in the capture.
        missing_bytes: i64,
        /// Sent again and not needlessly: losses, as packets on the wire.
        lost_packets: i64,
        /// Of those: sent while the path carried nothing.
        lost_in_breaks_packets: i64,
        /// Lost from a burst of segmentation offload.
        lost_in_offload_bursts_packets: i64,
        /// Lost from a burst that one ACK released.
        lost_in_ack_bursts_packets: i64,
        /// Lost from a burst of the application.
        lost_in_application_bursts_packets: i64,
        /// Lost from a burst of a kind that cannot be told.
        lost_in_unknown_bursts_packets: i64,
        /// Lost and neither.
        lost_otherwise_packets: i64,
        /// Time from the first loss of each flow break to the ACK that ended it.
        breaks_ns: i64,
        /// Least round trip before the course begins; this and all below null where fewer than five packets carried data.
        rtt_before_ns: Option<i64>,
        /// Round trips measured by timestamps (RFC 7323), copies included.
        stamped_samples: Option<i64>,
        /// Their median.
        stamped_p50_ns: Option<i64>,
        /// Their 95th percentile.
        stamped_p95_ns: Option<i64>,
        /// Their 99th percentile.
        stamped_p99_ns: Option<i64>,
        /// Time in which its application had nothing to send.
        sender_limited_ns: Option<i64>,
        /// Time in which the receiver's window was full; null, and part of the network's, where its scale was not captured.
        receiver_limited_ns: Option<i64>,
        /// The rest.
        network_limited_ns: Option<i64>,
        /// Packets closer together than this are one burst.
        burst_gap_ns: Option<i64>,
        /// Median of what it let go at once.
        burst_p50_bytes: Option<i64>,
        /// Its 95th percentile.
        burst_p95_bytes: Option<i64>,
        /// The most.
        burst_max_bytes: Option<i64>,
        /// Bursts of more than two segments, of segmentation offload.
        offload_bursts: Option<i64>,
        /// Released by one ACK.
        ack_bursts: Option<i64>,
        /// Of the application.
        application_bursts: Option<i64>,
        /// Of a kind that cannot be told.
        unknown_bursts: Option<i64>,
        /// ACKs for it that came in bunches, closer together than its data.
        bunched_acks: Option<i64>,
        /// How many bunches.
        ack_bunches: Option<i64>,
        /// Highest rate acknowledged over a tenth of a second or a round trip.
        peak_bps: Option<f64>,
        /// When its course begins, and with it the first interval of `course`.
        course_ns: Option<i64>,
        /// Packets with payload as they were on the wire: a super-segment of offload counts as those that it is cut into.
        wire_data_packets: Option<i64>,
        /// Packets of the connection that the network delivered twice and that count once.
        doubled_packets: Option<i64>,
        /// Time in which the receiver's window was surely full, where its scale was not captured: it was closed.
        receiver_limited_least_ns: Option<i64>,
    }

    /// One row a TCP packet in a capture: what it sent and what it acknowledged. Positions are bytes of the direction from its first one, SYN included.
    Segment in "segment" at t_ns {
        /// When it was captured, UNIX ns; never before the packet ahead of it in its connection.
        t_ns: i64,
        /// Whose packet it is; see `connection`.
        flow: i64,
        /// Flags of its header: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128.
        flags: i64,
        /// Where what it carries begins; null where it carries nothing.
        position_bytes: Option<i64>,
        /// Its payload.
        size_bytes: i64,
        /// Of that, what was not seen before.
        fresh_bytes: Option<i64>,
        /// Bytes of its direction in flight afterwards.
        in_flight_bytes: Option<i64>,
        /// Everything of the other direction up to there has been acknowledged.
        acked_bytes: Option<i64>,
        /// Room that it offers beyond that: the receive window, scaled; null where its scale was not captured.
        window_bytes: Option<i64>,
        /// Round trip of the data that it acknowledges, as of `connection`.
        rtt_ns: Option<i64>,
        /// Where the first block of its SACK option begins: of the other direction, the latest that arrived out of order, or twice.
        sack_from_bytes: Option<i64>,
        /// Where it ends.
        sack_to_bytes: Option<i64>,
    }

    /// One row a packet that was sent again, written when the connection is over; the first hundred thousand of a direction.
    Retransmission in "retransmission" at t_ns {
        /// When it was sent again, UNIX ns.
        t_ns: i64,
        /// Whose packet it is; see `connection`.
        flow: i64,
        /// When the same was sent before; null where that was not seen.
        before_ns: Option<i64>,
        /// Where it begins, in bytes of its direction.
        position_bytes: i64,
        /// How much of it was seen before.
        size_bytes: i64,
        /// Why it was sent again.
        cause: Cause,
        /// It had arrived before, so nothing was lost.
        needless: bool,
        /// The burst in whose midst it had been sent before; null where in none.
        burst: Option<Burst>,
        /// Its number in the capture, from 1, as Wireshark counts; null beyond 2^32.
        frame: Option<i64>,
        /// Number of the packet that sent its first byte before.
        before_frame: Option<i64>,
    }

    /// One row a stretch of time of a direction that carried more than a handful of packets, written when the connection is over; none where nothing happened.
    Course in "course" at t_ns {
        /// Begin of the interval, UNIX ns.
        t_ns: i64,
        /// Its length: 20 ms, or more where the connection lasted long.
        interval_ns: i64,
        /// Whose data; see `connection`.
        flow: i64,
        /// Payload sent for the first time: goodput.
        fresh_bytes: i64,
        /// Payload sent again.
        again_bytes: i64,
        /// Sequence space acknowledged.
        acked_bytes: i64,
        /// Most bytes in flight.
        in_flight_max_bytes: i64,
        /// Round trips measured.
        rtt_samples: i64,
        /// The least of them; beyond the least between the same two hosts, they waited in a queue.
        rtt_min_ns: Option<i64>,
        /// Their mean, rounded down.
        rtt_mean_ns: Option<i64>,
        /// The largest.
        rtt_max_ns: Option<i64>,
        /// Round trips of ACKs that their receiver cannot have held back; with those that SACK and the echoes
        /// of repairs tell.
        prompt_samples: Option<i64>,
        /// Their mean.
        prompt_mean_ns: Option<i64>,
    }

    /// One row a UDP conversation in a capture.
    Conversation in "conversation" at first_ns {
        /// When its first packet was captured, UNIX ns.
        first_ns: i64,
        /// When its last packet was captured.
        last_ns: i64,
        /// Address and port of who sent the first packet.
        source: Text,
        /// Address and port of the other.
        destination: Text,
        /// Packets that the first sent.
        sent_packets: i64,
        /// Packets that came back.
        returned_packets: i64,
        /// Payload of those sent.
        sent_bytes: i64,
        /// Payload of those that came back.
        returned_bytes: i64,
    }

    /// What happened and when: phases, faults, findings of the instrument about itself.
    Event in "event" at t_ns {
        /// When, UNIX ns.
        t_ns: i64,
        /// What kind: `phase` (a phase begins; `idle`, `down`, `up`, `both`, `drain`), `phase_end`, `warmup_end`, `clock`, `fault`, `cross_traffic`; of a monitor `run`, `target`, `target_end`, `session`, `address`, `interface`, `disk`; of a probe `train` (what a train of crafted datagrams was); of a capture `capture` (what it held as a whole), `damage`, `flow_break`; and others.
        kind: Text,
        /// What it is about: the phase's name, a target, a queue.
        subject: Text,
        /// More, as JSON or prose; empty where there is none.
        detail: Text,
    }
}

impl Flow {
    /// A sample of which nothing is known but what it is about.
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
    /// A probe of which nothing is known but what it is about, and that no answer came.
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

    impl Sink for Vec<Cell> {
        fn int(&mut self, column: usize, value: i64) {
            self.insert(column, Cell::Int(value));
        }
        fn real(&mut self, column: usize, value: f64) {
            self.insert(column, Cell::Real(value));
        }
        fn flag(&mut self, column: usize, value: bool) {
            self.insert(column, Cell::Flag(value));
        }
        fn text(&mut self, column: usize, value: &str) {
            self.insert(column, Cell::Text(value.into()));
        }
        fn null(&mut self, column: usize) {
            self.insert(column, Cell::Null);
        }
    }

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
        let load = HostLoad {
            t_ns: 7,
            cpu: Some(0.5),
        };
        let row = Row::from(load.clone());
        assert_eq!((row.table(), row.time_ns()), (TableId::HostLoad, 7));
        assert_eq!(
            row.table().row(&mut |i| cells(|s| row.put(s))[i].clone()),
            Some(Row::HostLoad(load))
        );
    }

    #[test]
    fn every_number_says_its_unit_and_every_column_its_meaning() {
        let units = ["_ns", "_bytes", "_bps", "_packets"];
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
            "bytes_acked",
            "bytes_received",
            "flags",
            "window_scale",
            "dsacks",
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
