// Parsers around keys: key files, signed messages of both protocols, TLS. A message that was changed is never taken for true.

use super::{Target, arrival, client, encoded, end, feed, scratch, strings, target, text};
use base::Time;
use live::pipe::Pipe;
use live::serve::{Tls, TlsKey};
use measure::control::seal::{ClientEnd, RequestReader, Transcript};
use measure::control::{
    GREETING_LEN, Greeting, HELLO_LEN, Hello, Refusal, Request, Response, SessionId,
};
use measure::keys::{Credential, KeyFile, Pin, Reload, Secret, Tickets, UserKey, Users};
use measure::reflector::{Budget, Reflector};
use measure::wire::{Ask, ClientMessage, Key, MAX_LEN, ServerMessage, session_keys};
use std::io::{self, Read, Write};
use std::sync::Arc;

pub const TARGETS: &[Target] = &[
    target("key_file", key_file, key_files, 1),
    target("signed_request", signed_request, signed_requests, 1),
    target("signed_response", signed_response, signed_responses, 1),
    target("signed_probe", signed_probe, signed_probes, 1),
    target("signed_answer", signed_answer, signed_answers, 1),
    target("tls_server", tls_server, client_hellos, 5),
    target("tls_client", tls_client, server_hellos, 50),
    target("tls_files", tls_files, pem_files, 200),
];

fn key_file(bytes: &[u8]) {
    let text = text(bytes);
    let (file, fault) = KeyFile::parse_what_can_be_read(&text);
    assert_eq!(KeyFile::parse(&text).is_err(), fault.is_some());
    if let Some(fault) = &fault {
        assert!((1..=text.lines().count()).contains(&fault.line), "{fault}");
    }
    let mut reload = Reload::new(KeyFile::default());
    reload.take(Time::ZERO, file.clone(), fault.map(|f| f.to_string()));
    assert!(reload.valid().lines.len() >= file.lines.len());
    // Passphrases would be stretched, which takes long.
    if !file
        .lines
        .iter()
        .any(|l| matches!(l.secret, Secret::Passphrase(_)))
    {
        let _ = Users::new(&file, [7; 48], None).names();
    }
    let _ = file.single();
    if let Ok(pin) = text.parse::<Pin>() {
        assert_eq!(pin.to_string().parse(), Ok(pin));
    }
}

fn key_files() -> Vec<Vec<u8>> {
    let key = "1f".repeat(32);
    strings(&[
        &format!(
            "# users\n@salt {}\nanna {key}\nanna {key} until=2027-01-31 # old\nbert stretched:{key}\n",
            "0f".repeat(16)
        ),
        &format!("anna {key} pin=sha256:{key}\n"),
        "anna \"correct horse battery\" until=2028-02-29\n",
        &format!("sha256:{key}"),
    ])
}

fn anna() -> Credential {
    Credential::new("anna", Secret::Key(UserKey([0x11; 32])))
}

fn users() -> Arc<Users> {
    thread_local! {
        static USERS: Arc<Users> = {
            let file = KeyFile::parse(&format!("anna {}", "11".repeat(32))).expect("a good line");
            Arc::new(Users::new(&file, [7; 48], None))
        };
    }
    USERS.with(Clone::clone)
}

fn keyed() -> ([u8; HELLO_LEN], [u8; GREETING_LEN]) {
    let greeting = Greeting {
        key_needed: true,
        nonce: [5; 16],
        salt: users().salt(),
    };
    (Hello { nonce: [6; 16] }.encode(), greeting.encode())
}

fn anna_end() -> ClientEnd {
    let (hello, greeting) = keyed();
    ClientEnd::new(&hello, &greeting, Some(&anna())).expect("she has a key")
}

/// A request whose signature holds is one that was signed.
fn signed_request(bytes: &[u8]) {
    let (hello, greeting) = keyed();
    let mut reader = RequestReader::default();
    let mut taken = 0;
    feed(bytes, &mut |now| {
        taken += now.map_or(0, <[u8]>::len);
        match now.map(|b| reader.push(b)) {
            None | Some(Ok(None)) => Some(reader.wants()),
            Some(Ok(Some(asked))) => {
                let transcript = Transcript::new(&hello, &greeting);
                if asked.admit(&transcript, Some(&users()), 0).is_ok() {
                    assert!(signed_requests().iter().any(|s| s[..] == bytes[..taken]));
                }
                None
            }
            Some(Err(_)) => None,
        }
    });
}

fn signed_requests() -> Vec<Vec<u8>> {
    let session = SessionId([9; 16]);
    let all = [Request::Ping, Request::Ticket, Request::Report { session }];
    all.iter().map(|r| anna_end().request(r)).collect()
}

/// A client with a key takes nothing from others but that it is turned away.
fn signed_response(bytes: &[u8]) {
    let mut reader = anna_end();
    let mut taken = 0;
    feed(bytes, &mut |now| {
        taken += now.map_or(0, <[u8]>::len);
        match now.map(|b| reader.push(b)) {
            None | Some(Ok(None)) => Some(reader.wants()),
            Some(Ok(Some(Response::Refused { .. }))) | Some(Err(_)) => None,
            Some(Ok(Some(_))) => {
                assert!(signed_responses().iter().any(|s| s[..] == bytes[..taken]));
                None
            }
        }
    });
    // Neither does one without a key take what is signed.
    let mut open = end();
    let _ = open.push(bytes);
}

fn signed_responses() -> Vec<Vec<u8>> {
    let (hello, greeting) = keyed();
    let sealed = |response: &Response| {
        let request = anna_end().request(&Request::Ping);
        let mut reader = RequestReader::default();
        let mut admitted = None;
        feed(&request, &mut |now| match now.map(|b| reader.push(b)) {
            Some(Ok(Some(asked))) => {
                let transcript = Transcript::new(&hello, &greeting);
                admitted = asked.admit(&transcript, Some(&users()), 0).ok();
                None
            }
            Some(Err(_)) => None,
            _ => Some(reader.wants()),
        });
        admitted.expect("anna may ask").end.response(response)
    };
    let refused = Response::Refused {
        why: Refusal::Loaded,
        text: "try again".into(),
    };
    let ticket = Response::Ticket(Tickets::new(b"secret").ticket([3; 16]));
    [Response::Pong, Response::Ready, refused, ticket]
        .iter()
        .map(sealed)
        .collect()
}

const NONCE: u64 = 5;

fn ask() -> Ask {
    Ask {
        interval_ns: 10_000_000,
        duration_s: 0,
        tos: 0,
        boot_proof: 0,
    }
}

fn tickets() -> Tickets {
    Tickets::new(b"secret")
}

/// A server with users, or one with tickets, and what its client needs.
struct Served {
    reflector: Reflector,
    cookie: [u8; 16],
    key: UserKey,
    /// Request that opens a session.
    open: Vec<u8>,
}

fn signed(message: &ClientMessage, key: &Key) -> Vec<u8> {
    let mut out = [0; MAX_LEN];
    let len = message.encode(&mut out, 0, Some(key));
    out[..len].to_vec()
}

impl Served {
    fn new(with_users: bool) -> Served {
        let users = with_users.then(users);
        let salt = users.as_ref().map_or([0; 16], |u| u.salt());
        let mut reflector = Reflector::new(Budget::default(), users, [7; 32], b"boot", 0)
            .with_tickets(Some(tickets()));
        let hello = encoded(&ClientMessage::Hello { nonce: NONCE });
        reflector.handle_datagram(Time::ZERO, arrival(client()), &hello);
        let mut out = [0; MAX_LEN];
        let sent = reflector.poll_transmit(0, &mut out).expect("a challenge");
        let challenge = ServerMessage::decode(&out[..sent.len], None);
        let Ok(ServerMessage::Challenge { cookie, .. }) = challenge else {
            panic!("no challenge");
        };
        let credential = match with_users {
            true => anna(),
            false => Credential::of_ticket(tickets().ticket([3; 16])),
        };
        let key = credential.key(&salt);
        let open = ClientMessage::Open {
            nonce: NONCE,
            cookie,
            ask: ask(),
            user: Some(credential.id(&salt)),
        };
        Served {
            reflector,
            cookie,
            key,
            open: signed(&open, &key.opening()),
        }
    }

    /// Hands it a datagram. Returns the answers.
    fn take(&mut self, message: &[u8]) -> Vec<Vec<u8>> {
        let at = arrival(client());
        self.reflector.handle_datagram(Time::ZERO, at, message);
        let (mut out, mut answers) = ([0; MAX_LEN], Vec::new());
        while let Some(o) = self.reflector.poll_transmit(0, &mut out) {
            answers.push(out[..o.len].to_vec());
        }
        answers
    }
}

/// Bit 0 of the first byte says to which server, bit 1 whether there is a session. Who opens one has signed the request, and
/// who is answered within it has signed the probe.
fn signed_probe(bytes: &[u8]) {
    let Some((first, message)) = bytes.split_first() else {
        return;
    };
    let mut served = Served::new(first & 1 == 0);
    if first & 2 != 0 {
        let open = served.open.clone();
        assert_eq!(served.take(&open).len(), 1, "the session opens");
    }
    let before = served.reflector.stats();
    for answer in served.take(message) {
        assert!(answer.len() <= message.len());
    }
    let after = served.reflector.stats();
    // Without users, whoever leaves the signature away has a session without one.
    let plain = first & 1 != 0 && message.get(3).is_some_and(|kind| kind & 0x80 == 0);
    let opened = after.opened > before.opened && !plain;
    if opened || after.answered > before.answered {
        let known = signed_probes();
        assert!(known.iter().any(|s| s[1..] == *message), "a forgery");
    }
}

fn signed_probes() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for first in [0u8, 1] {
        let mut served = Served::new(first == 0);
        all.push([&[first], &served.open[..]].concat());
        let open = served.open.clone();
        let opened = served.take(&open).pop().expect("a grant");
        let token = measure::wire::granted_token(&opened).expect("a token");
        let up = session_keys(&served.key, NONCE, &served.cookie, token).up;
        let request = ClientMessage::Request {
            token,
            seq: 1,
            sent_ns: 1,
        };
        for message in [request, ClientMessage::Close { token }] {
            all.push([&[first | 2], &signed(&message, &up)[..]].concat());
        }
    }
    all
}

/// A client with a key takes a datagram only if the server has signed it.
fn signed_answer(bytes: &[u8]) {
    let keys = session_keys(&UserKey([0x11; 32]), NONCE, &[6; 16], 7);
    if ServerMessage::decode(bytes, Some(&keys.down)).is_ok() {
        let refused = bytes.len() > 3 && bytes[3] == 5;
        assert!(refused || signed_answers().iter().any(|s| s == bytes));
    }
    let _ = measure::wire::front(bytes);
    let _ = measure::wire::opening_user(bytes);
    let _ = measure::wire::granted_token(bytes);
}

fn signed_answers() -> Vec<Vec<u8>> {
    let keys = session_keys(&UserKey([0x11; 32]), NONCE, &[6; 16], 7);
    let reply = ServerMessage::TrainReply {
        token: 7,
        train: 1,
        index: 0,
        count: 3,
        rx_ns: 1_700_000_000_000_000_000,
    };
    let refused = ServerMessage::Refused {
        id: 7,
        seq: 1,
        reason: measure::wire::Refusal::Spent,
    };
    let sign = |message: &ServerMessage| {
        let mut out = [0; MAX_LEN];
        let len = message.encode(&mut out, 0, Some(&keys.down));
        out[..len].to_vec()
    };
    [reply, refused].iter().map(sign).collect()
}

/// What the far end has said, and what it hears.
struct Wire<'a>(&'a [u8], Vec<u8>);

impl Read for Wire<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads all that there is; what the other end then hears.
fn read_all(mut pipe: Pipe, bytes: &[u8]) -> Vec<u8> {
    let mut wire = Wire(bytes, Vec::new());
    let mut buf = [0; 512];
    for _ in 0..64 {
        match pipe.read(&mut wire, &mut buf) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    wire.1
}

fn tls() -> (Arc<Tls>, Pin) {
    thread_local! {
        static TLS: Arc<Tls> = Arc::new(Tls::new(&TlsKey::Fresh).expect("a key").expect("TLS"));
    }
    let tls = TLS.with(Clone::clone);
    let pin = tls.pin;
    (tls, pin)
}

fn tls_server(bytes: &[u8]) {
    let pipe = Pipe::server(&tls().0.config).expect("a fresh end");
    read_all(pipe, bytes);
}

fn client_hellos() -> Vec<Vec<u8>> {
    let mut pipe = Pipe::client(tls().1).expect("a fresh end");
    vec![pipe.seal(b"hello").expect("to memory")]
}

fn tls_client(bytes: &[u8]) {
    let mut pipe = Pipe::client(tls().1).expect("a fresh end");
    let _ = pipe.seal(b"hello");
    read_all(pipe, bytes);
}

fn server_hellos() -> Vec<Vec<u8>> {
    let pipe = Pipe::server(&tls().0.config).expect("a fresh end");
    vec![read_all(pipe, &client_hellos()[0])]
}

/// A certificate and a key of the operator, in one file.
fn tls_files(bytes: &[u8]) {
    let dir = scratch();
    std::fs::create_dir_all(&dir).expect("it is ours");
    let path = dir.join("tls.pem");
    std::fs::write(&path, bytes).expect("it is ours");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, mode).expect("it is ours");
    let _ = Tls::new(&TlsKey::Own {
        certificate: path.clone(),
        key: path.clone(),
    });
    // The server's own key, as it keeps it.
    let kept = dir.join("tls-key.der");
    std::fs::rename(&path, &kept).expect("it is ours");
    let _ = Tls::new(&TlsKey::KeptIn(dir));
    std::fs::remove_file(&kept).expect("it is ours");
}

fn pem_files() -> Vec<Vec<u8>> {
    super::files("fuzz/corpus/tls_files", &[".pem", ".der"])
}
