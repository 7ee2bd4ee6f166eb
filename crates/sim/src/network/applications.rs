//! Applications on the network: carries out their requests and reports events to them.

use super::{Connection, Network, Observer, Way, kind, tag};
use crate::source::{Application, Ask, Channel, Opening, Seen, Told, Watched};
use crate::summary::Summary;
use crate::tcp::{Receiver, Sender, SenderStats, Settings};
use base::Time;
use base::rng::Streams;
use std::collections::VecDeque;
use std::sync::Arc;

/// An application and its connections.
pub struct Host {
    application: Box<dyn Application>,
    /// Place in the agenda if it has more than one connection; otherwise its only sender acts for it.
    place: Option<u32>,
    settings: Arc<Settings>,
    streams: Streams,
    /// Numbers of its connections, by channel.
    channels: Vec<usize>,
    there: Way,
    back: Way,
    /// Other ways there and back, which it may turn to.
    others: Vec<(Way, Way)>,
    /// Completed requests of its user since the measurement started.
    pub seen: Seen,
    /// Figures of a video at the start of the measurement.
    video: Option<Watched>,
}

impl Host {
    /// Numbers of its connections, by channel.
    pub fn channels(&self) -> &[usize] {
        &self.channels
    }
    /// True if it will write no more.
    pub fn is_over(&self) -> bool {
        self.application.is_over()
    }
}

/// Totals of the earlier connections in a connection's place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    acknowledged: u64,
    delivered: u64,
    received: u64,
    stats: SenderStats,
}

impl Connection {
    /// Payload that has arrived in order, including earlier connections in the same place.
    pub fn received(&self) -> u64 {
        self.before.received + self.receiver.received()
    }
    /// Bytes acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.before.acknowledged + self.sender.acknowledged()
    }
    /// Bytes delivered in order so far.
    pub fn delivered(&self) -> u64 {
        self.before.delivered + self.sender.delivered()
    }
    /// Counters of the sender.
    pub fn stats(&self) -> SenderStats {
        self.before.stats + self.sender.stats()
    }
    /// True if its data goes from the far host to the near one.
    pub fn is_back(&self) -> bool {
        self.opening.back
    }
}

impl Network {
    /// Adds an application with one end at the start of `there` and the other at the start of `back`. Returns its
    /// number.
    pub fn add_application(
        &mut self,
        settings: &Settings,
        there: &[super::LinkIndex],
        back: &[super::LinkIndex],
        application: Box<dyn Application>,
        streams: &Streams,
    ) -> usize {
        let number = self.hosts.len();
        let due = application.next_wakeup();
        let place = (!application.is_alone()).then(|| self.agenda.add());
        if let Some(place) = place {
            self.actors.push(tag(kind::APPLICATION, number));
            self.agenda.set(place, due);
        }
        // Both routes are laid once; connections use copies of them.
        let first = self.connections.len();
        let (sender, receiver) = (tag(kind::SENDER, first), tag(kind::RECEIVER, first));
        let (near, far) = match place {
            None => (sender, receiver),
            // Several connections will send.
            Some(_) => (
                tag(kind::APPLICATION, number),
                tag(kind::APPLICATION, number),
            ),
        };
        let ways = [
            self.way(near, there, receiver, settings.dscp),
            self.way(far, back, sender, settings.dscp),
        ];
        let openings = application.openings();
        if *self.settings != *settings {
            self.settings = Arc::new(settings.clone());
        }
        self.hosts.push(Host {
            application,
            place,
            settings: self.settings.clone(),
            streams: *streams,
            channels: Vec::new(),
            there: ways[0],
            back: ways[1],
            others: Vec::new(),
            seen: Seen::default(),
            video: None,
        });
        for (channel, opening) in openings.into_iter().enumerate() {
            self.add_channel(number, opening, channel == 0);
        }
        if place.is_none() {
            let connection = &mut self.connections[first];
            connection.write_due = due;
            self.agenda.set(connection.place, due);
        }
        number
    }

    /// Lays another way there and back for an application, before the first packet. It begins with the same links.
    pub fn lay(
        &mut self,
        application: usize,
        there: &[super::LinkIndex],
        back: &[super::LinkIndex],
    ) {
        let host = &self.hosts[application];
        let first = host.channels[0];
        let (sender, receiver) = (tag(kind::SENDER, first), tag(kind::RECEIVER, first));
        let (near, far) = match host.place {
            None => (sender, receiver),
            Some(_) => (
                tag(kind::APPLICATION, application),
                tag(kind::APPLICATION, application),
            ),
        };
        let dscp = host.there.dscp;
        let ways = (
            self.way(near, there, receiver, dscp),
            self.way(far, back, sender, dscp),
        );
        self.hosts[application].others.push(ways);
    }

    /// Lets an application's packets that leave from now on take the way that was laid as number `other`.
    pub fn turn(&mut self, application: usize, other: usize) {
        let (there, back) = self.hosts[application].others[other];
        (
            self.hosts[application].there.position,
            self.hosts[application].back.position,
        ) = (there.position, back.position);
        for number in self.hosts[application].channels.clone() {
            let (near, far) = match self.connections[number].opening.back {
                false => (there, back),
                true => (back, there),
            };
            let forward = self.way_like(near, tag(kind::RECEIVER, number)).position;
            let answers = self.way_like(far, tag(kind::SENDER, number)).position;
            let connection = &mut self.connections[number];
            (connection.forward.position, connection.back.position) = (forward, answers);
        }
    }

    /// Host of an application.
    pub fn host(&self, application: usize) -> &Host {
        &self.hosts[application]
    }
    /// Figures of a video since the measurement started.
    pub fn video(&self, application: usize) -> Option<Watched> {
        let host = &self.hosts[application];
        let now = host.application.video(self.now)?;
        Some(now.since(&host.video.unwrap_or_default()))
    }

    pub(super) fn begin_measuring_applications(&mut self) {
        for host in &mut self.hosts {
            host.seen = Seen::default();
            host.video = host.application.video(self.now);
        }
    }

    /// Copies a route with another end, for packets of a flow of their own.
    fn way_like(&mut self, way: Way, end: u32) -> Way {
        let mut from = way.position as usize;
        let position = u32::try_from(self.routes.len()).expect("fewer than 2^32 hops");
        while self.routes[from] >> kind::BITS == kind::LINK {
            let hop = self.routes[from];
            self.routes.push(hop);
            from += 1;
        }
        self.routes.push(end);
        Way {
            position,
            flow: self.new_flow(end),
            dscp: way.dscp,
        }
    }

    /// Adds an application's next connection. The first uses the routes that were laid for all.
    fn add_channel(&mut self, application: usize, opening: Opening, first: bool) {
        let number = self.connections.len();
        let host = &self.hosts[application];
        let (near, far) = match opening.back {
            false => (host.there, host.back),
            true => (host.back, host.there),
        };
        let settings = if opening.handshake || !host.settings.handshake {
            host.settings.clone()
        } else {
            Arc::new(Settings {
                handshake: false,
                ..(*host.settings).clone()
            })
        };
        let sender = Sender::new(settings, &host.streams, &format!("connection/{number}"));
        let receiver = Receiver::new(&host.settings);
        let channel = host.channels.len() as u32;
        let (forward, back) = match first && !opening.back {
            true => (near, far),
            false => (
                self.way_like(near, tag(kind::RECEIVER, number)),
                self.way_like(far, tag(kind::SENDER, number)),
            ),
        };
        let full = sender.settings().mss + sender.settings().header;
        let delay = Summary::around(self.idle_delay(forward, full));
        let place = self.agenda.add();
        self.actors.push(tag(kind::CONNECTION, number));
        self.connections.push(Connection {
            forward_ecn: sender.ecn(),
            sender,
            receiver,
            application: application as u32,
            channel,
            opening,
            messages: VecDeque::new(),
            message_at: u64::MAX,
            idle: true,
            before: Before::default(),
            opened: 1,
            alone: self.hosts[application].place.is_none(),
            write_due: None,
            forward,
            back,
            place,
            lost: 0,
            delay,
        });
        self.hosts[application].channels.push(number);
    }

    /// Opens a new connection, in the place of an old one if there is one. Packets of the old one still in flight
    /// belong to another flow and are ignored. Returns true if the place is new.
    fn open(&mut self, application: usize, channel: Channel, opening: Opening) -> bool {
        let Some(number) = self.hosts[application].channels.get(channel).copied() else {
            self.add_channel(application, opening, false);
            return true;
        };
        let owners = (tag(kind::RECEIVER, number), tag(kind::SENDER, number));
        let connection = &self.connections[number];
        if connection.sender.is_closed() {
            return false;
        }
        let (forward, back) = (self.new_flow(owners.0), self.new_flow(owners.1));
        let host = &self.hosts[application];
        let connection = &mut self.connections[number];
        let name = format!("connection/{number}/{}", connection.opened);
        let settings = connection.sender.settings().clone();
        connection.before = Before {
            acknowledged: connection.acknowledged(),
            delivered: connection.delivered(),
            received: connection.received(),
            stats: connection.stats(),
        };
        connection.sender = Sender::new(settings, &host.streams, &name);
        connection.receiver = Receiver::new(&host.settings);
        connection.opened += 1;
        connection.messages.clear();
        connection.message_at = u64::MAX;
        connection.idle = true;
        connection.forward.flow = forward;
        connection.back.flow = back;
        true
    }

    /// Handles a wake-up that an application asked for.
    pub(super) fn serve_application<O: Observer>(&mut self, number: usize, observer: &mut O) {
        self.events += 1;
        self.tell(number, Told::Due, self.now, observer);
    }

    /// Handles data that has arrived up to the end of a message.
    pub(super) fn message_arrived<O: Observer>(
        &mut self,
        number: usize,
        now: Time,
        observer: &mut O,
    ) {
        loop {
            let connection = &mut self.connections[number];
            if connection.receiver.received() < connection.message_at {
                return;
            }
            connection.messages.pop_front();
            connection.message_at = connection.messages.front().copied().unwrap_or(u64::MAX);
            let told = Told::Arrived(connection.channel as usize);
            let application = connection.application as usize;
            self.tell(application, told, now, observer);
        }
    }

    /// Handles the acknowledgement of everything written.
    pub(super) fn all_acknowledged<O: Observer>(
        &mut self,
        number: usize,
        now: Time,
        observer: &mut O,
    ) {
        let connection = &mut self.connections[number];
        connection.idle = true;
        let told = Told::Acknowledged(connection.channel as usize);
        let application = connection.application as usize;
        self.tell(application, told, now, observer);
    }

    pub(super) fn tell<O: Observer>(
        &mut self,
        number: usize,
        told: Told,
        now: Time,
        observer: &mut O,
    ) {
        let mut asks = std::mem::take(&mut self.asks);
        let host = &mut self.hosts[number];
        let done = host.application.told(now, told, &mut asks);
        if let Some(done) = done {
            host.seen.add(now, &done);
            observer.done(now, number, &done);
        }
        let due = host.application.next_wakeup();
        match host.place {
            Some(place) => self.agenda.set(place, due),
            None => self.connections[host.channels[0]].write_due = due,
        }
        for ask in asks.drain(..) {
            match ask {
                Ask::Open(channel, opening) => {
                    if self.open(number, channel, opening) {
                        let connection = self.hosts[number].channels[channel];
                        observer.opened(number, &self.connections[connection]);
                    }
                }
                Ask::Write(channel, bytes) => self.write(number, channel, bytes, now, observer),
                Ask::Close(channel) => {
                    let connection = self.hosts[number].channels[channel];
                    self.connections[connection].sender.close();
                }
                Ask::Stop(channel) => {
                    let connection = self.hosts[number].channels[channel];
                    self.connections[connection].sender.withdraw();
                }
            }
        }
        self.asks = asks;
    }

    fn write<O: Observer>(
        &mut self,
        application: usize,
        channel: Channel,
        bytes: u64,
        now: Time,
        observer: &mut O,
    ) {
        let number = self.hosts[application].channels[channel];
        let connection = &mut self.connections[number];
        connection.idle = false;
        connection.sender.write(bytes);
        if connection.alone {
            // The caller asks its sender for segments.
            return;
        }
        let end = connection.sender.written();
        connection.messages.push_back(end);
        connection.message_at = connection.message_at.min(end);
        self.after_sender(number, now, observer);
        self.expect(tag(kind::SENDER, number));
    }
}
