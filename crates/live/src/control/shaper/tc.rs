//! Shapers of an interface and their rates: queue disciplines and classes over rtnetlink, changed in place, so that no
//! packet is lost.
//!
//! **Source.** linux/pkt_sched.h: `tc_ratespec`, `tc_htb_opt`, `tc_tbf_qopt`, and the attributes of HTB, TBF and CAKE.

use nix::net::if_::if_nametoindex;
use rtnetlink::packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload, Nla,
    NlaBuffer, NlasIterator,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcHeader, TcMessage, TcOption, TcStats2};
use rtnetlink::sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Attributes of linux/pkt_sched.h.
const TCA_HTB_PARMS: u16 = 1;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_BURST: u16 = 6;
const TCA_CAKE_BASE_RATE64: u16 = 2;
/// Place of the rate, bytes per second, in `tc_ratespec`, and the size of that.
const RATE: usize = 8;
const SPEC: usize = 12;
/// Places of the buffer, and of the buffer of `ceil`, in ticks of 64 ns.
const HTB_SIZE: usize = 44;
const TBF_SIZE: usize = 36;
const TBF_BUFFER: usize = 28;
const TICK_S: f64 = 64e-9;
/// Time of the rate that a TBF may lend while its rate follows the link: the kernel fills its bucket at each change.
const TBF_BURST_S: f64 = 2e-3;
/// Full packets that its bucket holds at least, and their header.
const TBF_PACKETS: u32 = 2;
const HEADER: u32 = 18;
/// Size of a dropped packet, which the kernel does not tell: that of a full one.
const DROPPED: u64 = 1514;

/// Parameters of one discipline or class as the kernel told them.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    Htb(Vec<u8>),
    /// TBF, and the least burst that lets every packet pass, bytes.
    Tbf(Vec<u8>, u32),
    /// CAKE, or cake_mq, whose parent alone takes a rate.
    Cake(u64),
}

/// Discipline or class whose rate is to be changed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    header: TcHeader,
    kind: String,
    told: Told,
}

/// Shaper of an interface.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub kind: String,
    /// Discipline, or classes of which the first is the root's.
    pub parts: Vec<Part>,
    /// Bytes that came and do not wait any more, about.
    pub passed: u64,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&value.to_ne_bytes());
    }
}

impl Part {
    /// Rate as the kernel told it, bytes per second.
    pub(super) fn rate(&self) -> f64 {
        match &self.told {
            Told::Htb(told) => word(told, SPEC + RATE).into(),
            Told::Tbf(told, _) => word(told, RATE).into(),
            Told::Cake(rate) => *rate as f64,
        }
    }

    /// Message that multiplies the rates by `share`; a share of one restores them.
    pub(super) fn message(&self, share: f64, flags: u16) -> Vec<u8> {
        let scaled = |rate: u32| (f64::from(rate) * share).clamp(1.0, f64::from(u32::MAX)) as u32;
        let other = |kind, value| TcOption::Other(DefaultNla::new(kind, value));
        let options = match &self.told {
            Told::Htb(told) => {
                let mut told = told.clone();
                for at in [RATE, SPEC + RATE] {
                    let rate = scaled(word(&told, at));
                    put(&mut told, at, rate);
                }
                vec![other(TCA_HTB_PARMS, told)]
            }
            Told::Tbf(told, least) => {
                let mut told = told.clone();
                let rate = word(&told, RATE);
                // The buffer is a time.
                let buffer_s = f64::from(word(&told, TBF_BUFFER)) * TICK_S;
                put(&mut told, RATE, scaled(rate));
                let mut options = vec![other(TCA_TBF_PARMS, told)];
                if share != 1.0 {
                    let first = (buffer_s * f64::from(rate)).round() as u32;
                    let short = (f64::from(scaled(rate)) * TBF_BURST_S) as u32;
                    let burst = short.max(*least).min(first);
                    options.push(other(TCA_TBF_BURST, burst.to_ne_bytes().to_vec()));
                }
                options
            }
            Told::Cake(rate) => {
                let rate = (*rate as f64 * share).max(1.0) as u64;
                vec![other(TCA_CAKE_BASE_RATE64, rate.to_ne_bytes().to_vec())]
            }
        };
        let mut message = TcMessage::default();
        message.header = self.header.clone();
        message.header.info = 0;
        message.attributes = vec![
            TcAttribute::Kind(self.kind.clone()),
            TcAttribute::Options(options),
        ];
        let message = match &self.told {
            Told::Htb(_) => RouteNetlinkMessage::NewTrafficClass(message),
            _ => RouteNetlinkMessage::NewQueueDiscipline(message),
        };
        bytes_of(message, NLM_F_REQUEST | flags)
    }
}

fn bytes_of(message: RouteNetlinkMessage, flags: u16) -> Vec<u8> {
    let mut message = NetlinkMessage::from(message);
    message.header.flags = flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// Socket to the kernel's traffic control, in the network namespace of the thread that opened it.
pub(super) struct Kernel(Socket);

impl Kernel {
    pub(super) fn open() -> io::Result<Kernel> {
        let socket = Socket::new(NETLINK_ROUTE)?;
        // Connected, it hears the kernel alone.
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Kernel(socket))
    }

    /// Duplicate of the descriptor, for the guard.
    pub(super) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }

    /// Sends a message that asks for an acknowledgement.
    pub(super) fn tell(&self, message: &[u8]) -> io::Result<()> {
        self.0.send(message, 0)?;
        let (answer, _) = self.0.recv_from_full()?;
        let answer: NetlinkMessage<RouteNetlinkMessage> =
            NetlinkMessage::deserialize(&answer).map_err(io::Error::other)?;
        match answer.payload {
            NetlinkPayload::Error(e) if e.code.is_some() => Err(e.to_io()),
            _ => Ok(()),
        }
    }

    fn dump(&self, question: RouteNetlinkMessage) -> io::Result<Vec<TcMessage>> {
        self.0
            .send(&bytes_of(question, NLM_F_REQUEST | NLM_F_DUMP), 0)?;
        let mut all = Vec::new();
        loop {
            let (bytes, _) = self.0.recv_from_full()?;
            let mut rest = &bytes[..];
            while rest.len() >= 16 {
                let length = word(rest, 0) as usize;
                if length < 16 || length > rest.len() {
                    return Err(io::Error::other("the kernel's answer is damaged"));
                }
                let message: Result<NetlinkMessage<RouteNetlinkMessage>, _> =
                    NetlinkMessage::deserialize(&rest[..length]);
                rest = &rest[length.next_multiple_of(4).min(rest.len())..];
                match message.map(|m| m.payload) {
                    Ok(NetlinkPayload::Done(_)) => return Ok(all),
                    Ok(NetlinkPayload::Error(e)) => return Err(e.to_io()),
                    Ok(NetlinkPayload::InnerMessage(
                        RouteNetlinkMessage::NewQueueDiscipline(m)
                        | RouteNetlinkMessage::NewTrafficClass(m),
                    )) => all.push(m),
                    // Disciplines that the library cannot read are not shapers.
                    _ => {}
                }
            }
        }
    }

    /// Shaper at the root of an interface.
    ///
    /// # Errors
    /// There is none, or one that cannot be changed: the message says why.
    pub(super) fn find(&self, device: &str) -> io::Result<Found> {
        let index = if_nametoindex(device)? as i32;
        let all = self.dump(RouteNetlinkMessage::GetQueueDiscipline(
            TcMessage::with_index(index),
        ))?;
        let here = || all.iter().filter(|m| m.header.index == index);
        let none = || refusal("it has no queue discipline at its root".into());
        let root = here().find(|m| m.header.parent == TcHandle::ROOT);
        let root = root.ok_or_else(none)?;
        let kind = kind_of(root);
        let parts = match &*kind {
            "htb" => self.classes(index, root.header.handle)?,
            "tbf" => vec![tbf(root, TBF_PACKETS * (self.mtu(index)? + HEADER))?],
            "cake" | "cake_mq" => vec![cake(root)?],
            other => {
                return Err(refusal(format!(
                    "it has no shaper at its root, but {other}: htb, tbf, cake and cake_mq can be changed"
                )));
            }
        };
        Ok(Found {
            kind,
            parts,
            passed: passed(root),
        })
    }

    /// Longest IP packet of an interface.
    fn mtu(&self, index: i32) -> io::Result<u32> {
        let mut question = LinkMessage::default();
        question.header.index = index.cast_unsigned();
        self.0.send(
            &bytes_of(RouteNetlinkMessage::GetLink(question), NLM_F_REQUEST),
            0,
        )?;
        let (answer, _) = self.0.recv_from_full()?;
        let answer: NetlinkMessage<RouteNetlinkMessage> =
            NetlinkMessage::deserialize(&answer).map_err(io::Error::other)?;
        let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) = answer.payload
        else {
            return Err(io::Error::other("the kernel does not tell the MTU"));
        };
        let mtu = link.attributes.iter().find_map(|a| match a {
            LinkAttribute::Mtu(mtu) => Some(*mtu),
            _ => None,
        });
        mtu.ok_or_else(|| io::Error::other("the kernel does not tell the MTU"))
    }

    fn classes(&self, index: i32, root: TcHandle) -> io::Result<Vec<Part>> {
        let question = TcMessage::with_index(index);
        let all = self.dump(RouteNetlinkMessage::GetTrafficClass(question))?;
        let mut parts = Vec::new();
        for class in all {
            let here = class.header.index == index && class.header.handle.major == root.major;
            if !here || kind_of(&class) != "htb" {
                continue;
            }
            let told = option(&class, TCA_HTB_PARMS, HTB_SIZE);
            let told = told.ok_or_else(|| refusal("it has an HTB that cannot be read".into()))?;
            parts.push(Part {
                header: class.header,
                kind: "htb".into(),
                told: Told::Htb(told),
            });
        }
        let top = |p: &Part| p.header.parent == TcHandle::ROOT;
        match parts.iter().filter(|p| top(p)).count() {
            1 => {
                parts.sort_by_key(|p| !top(p));
                Ok(parts)
            }
            n => Err(refusal(format!(
                "it has an HTB with {n} classes at its root: one is needed, whose rate is that of the interface"
            ))),
        }
    }
}

fn refusal(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

fn tbf(root: &TcMessage, least: u32) -> io::Result<Part> {
    let told = option(root, TCA_TBF_PARMS, TBF_SIZE);
    let told = told.ok_or_else(|| refusal("it has a TBF that cannot be read".into()))?;
    if word(&told, SPEC + RATE) != 0 {
        return Err(refusal(
            "it has a TBF with a peak rate, which would forbid higher rates".into(),
        ));
    }
    Ok(Part {
        header: root.header.clone(),
        kind: "tbf".into(),
        told: Told::Tbf(told, least),
    })
}

fn cake(root: &TcMessage) -> io::Result<Part> {
    let rate = option(root, TCA_CAKE_BASE_RATE64, 8);
    let rate = rate.map_or(0, |b| {
        u64::from_ne_bytes(b[..8].try_into().unwrap_or_default())
    });
    if rate == 0 {
        return Err(refusal(
            "it has a CAKE without a bandwidth: give it one first".into(),
        ));
    }
    Ok(Part {
        header: root.header.clone(),
        kind: kind_of(root),
        told: Told::Cake(rate),
    })
}

fn kind_of(message: &TcMessage) -> String {
    let kind = message.attributes.iter().find_map(|a| match a {
        TcAttribute::Kind(kind) => Some(kind.clone()),
        _ => None,
    });
    kind.unwrap_or_default()
}

/// Value of an option, if it has at least `size` bytes.
fn option(message: &TcMessage, kind: u16, size: usize) -> Option<Vec<u8>> {
    let raw = message.attributes.iter().find_map(|a| match a {
        TcAttribute::Options(options) => match options.first()? {
            TcOption::Other(raw) => {
                let mut bytes = vec![0; raw.value_len()];
                raw.emit_value(&mut bytes);
                Some(bytes)
            }
            _ => None,
        },
        _ => None,
    })?;
    let found = NlasIterator::new(&raw[..])
        .filter_map(Result::ok)
        .find(|n: &NlaBuffer<&[u8]>| n.kind() == kind && n.value().len() >= size)?;
    Some(found.value().to_vec())
}

/// Bytes that have passed or were dropped.
fn passed(message: &TcMessage) -> u64 {
    let stats = message.attributes.iter().find_map(|a| match a {
        TcAttribute::Stats2(stats) => Some(stats),
        _ => None,
    });
    let of = |stat: &TcStats2| match stat {
        TcStats2::Basic(basic) => basic.bytes,
        TcStats2::Queue(queue) => DROPPED * u64::from(queue.drops),
        _ => 0,
    };
    stats.into_iter().flatten().map(of).sum()
}

/// Flags of a change that the kernel acknowledges.
pub(super) const ACKNOWLEDGED: u16 = NLM_F_ACK;

#[cfg(test)]
mod tests {
    use super::*;

    fn part(told: Told, kind: &str) -> Part {
        let header = TcHeader {
            index: 7,
            handle: TcHandle { major: 1, minor: 0 },
            parent: TcHandle::ROOT,
            ..TcHeader::default()
        };
        Part {
            header,
            kind: kind.into(),
            told,
        }
    }

    fn read(bytes: &[u8]) -> (u16, TcMessage) {
        let message: NetlinkMessage<RouteNetlinkMessage> =
            NetlinkMessage::deserialize(bytes).expect("a message");
        let kind = message.header.message_type;
        match message.payload {
            NetlinkPayload::InnerMessage(
                RouteNetlinkMessage::NewQueueDiscipline(m)
                | RouteNetlinkMessage::NewTrafficClass(m),
            ) => (kind, m),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn cake_gets_its_base_rate_alone() {
        for kind in ["cake", "cake_mq"] {
            let part = part(Told::Cake(1_250_000), kind);
            let bytes = part.message(0.5, ACKNOWLEDGED);
            let (message_type, m) = read(&bytes);
            // RTM_NEWQDISC without NLM_F_CREATE and NLM_F_REPLACE.
            assert_eq!((message_type, word(&bytes, 4) >> 16), (36, 5));
            assert_eq!((m.header.index, kind_of(&m)), (7, kind.to_owned()));
            let rate = option(&m, TCA_CAKE_BASE_RATE64, 8).expect("a rate");
            assert_eq!(rate, 625_000u64.to_ne_bytes());
            assert_eq!(cake(&m).expect("CAKE").rate(), 625_000.0);
        }
    }

    #[test]
    fn htb_scales_rate_and_ceil_and_keeps_the_rest_and_tbf_gets_a_short_burst() {
        let mut told: Vec<u8> = (0..HTB_SIZE as u8).collect();
        put(&mut told, RATE, 1_000_000);
        put(&mut told, SPEC + RATE, 2_000_000);
        let htb = part(Told::Htb(told.clone()), "htb");
        let (message_type, m) = read(&htb.message(0.25, 0));
        assert_eq!(message_type, 40);
        let mut scaled = option(&m, TCA_HTB_PARMS, HTB_SIZE).expect("parameters");
        assert_eq!(
            (word(&scaled, RATE), word(&scaled, SPEC + RATE)),
            (250_000, 500_000)
        );
        put(&mut scaled, RATE, 1_000_000);
        put(&mut scaled, SPEC + RATE, 2_000_000);
        assert_eq!(scaled, told);
        let mut told = vec![0; TBF_SIZE];
        put(&mut told, RATE, 1_250_000);
        // 64 kB at that rate.
        put(
            &mut told,
            TBF_BUFFER,
            (65_536.0 / 1_250_000.0 / TICK_S).round() as u32,
        );
        let tbf = part(Told::Tbf(told, 3036), "tbf");
        let burst = |share| {
            let (_, m) = read(&tbf.message(share, 0));
            option(&m, TCA_TBF_BURST, 4).map(|b| word(&b, 0))
        };
        // Two milliseconds of the rate, two full packets, and what it had.
        assert_eq!(
            [2.0, 0.5, 100.0].map(burst),
            [Some(5000), Some(3036), Some(65_536)]
        );
        assert_eq!(burst(1.0), None);
    }
}
