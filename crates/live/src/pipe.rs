//! The bytes of a control connection, plain or inside TLS 1.3 (RFC 8446, The Transport Layer Security (TLS) Protocol
//! Version 1.3).
//!
//! The client knows the server by the pin of its public key alone: names and dates of the certificate are not checked.
//! TLS covers messages. The bytes of a load follow them plain on the same connection, so records are read one at a time
//! and never beyond their end. `docs/decisions/0011-keys-and-tls.md` says why.

use measure::keys::Pin;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, Error, ServerConfig,
    ServerConnection, SignatureScheme,
};
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// First byte of a connection that speaks TLS: the type of a handshake record (RFC 8446 section 5.1).
pub const TLS_FIRST: u8 = 22;
/// Name that clients ask for. The server has one certificate, for any name.
pub const NAME: &str = "tailback.invalid";
const RECORD_HEADER: usize = 5;

/// End of a connection, plain or TLS.
pub struct Pipe {
    tls: Option<Box<Connection>>,
    records: Records,
    seen: Option<Arc<Mutex<Option<Pin>>>>,
}

/// Position of the reader within a record.
#[derive(Default)]
struct Records {
    header: [u8; RECORD_HEADER],
    have: usize,
    left: usize,
}

/// Reader that stops at the end of the record.
struct Bounded<'a, S> {
    records: &'a mut Records,
    stream: &'a mut S,
}

impl<S: Read> Read for Bounded<'_, S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let r = &mut *self.records;
        if r.left > 0 {
            let most = r.left.min(buf.len());
            let n = self.stream.read(&mut buf[..most])?;
            r.left -= n;
            return Ok(n);
        }
        let most = (RECORD_HEADER - r.have).min(buf.len());
        let n = self.stream.read(&mut buf[..most])?;
        r.header[r.have..r.have + n].copy_from_slice(&buf[..n]);
        r.have += n;
        if r.have == RECORD_HEADER {
            r.left = usize::from(u16::from_be_bytes([r.header[3], r.header[4]]));
            r.have = 0;
        }
        Ok(n)
    }
}

impl Pipe {
    pub fn plain() -> Pipe {
        Pipe {
            tls: None,
            records: Records::default(),
            seen: None,
        }
    }

    /// Client's end, towards the server with this pin.
    ///
    /// # Errors
    /// Errors of the TLS library.
    pub fn client(pin: Pin) -> io::Result<Pipe> {
        let seen = Arc::default();
        let mut config = pinned(pin, &seen)?;
        config.resumption = Resumption::disabled();
        let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
        let tls = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        Ok(Pipe::over(tls.into(), Some(seen)))
    }

    /// Server's end.
    ///
    /// # Errors
    /// Errors of the TLS library.
    pub fn server(config: &Arc<ServerConfig>) -> io::Result<Pipe> {
        let tls = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        Ok(Pipe::over(tls.into(), None))
    }

    fn over(mut tls: Connection, seen: Option<Arc<Mutex<Option<Pin>>>>) -> Pipe {
        // A report is larger than the usual bound, and written whole.
        tls.set_buffer_limit(None);
        Pipe {
            tls: Some(Box::new(tls)),
            records: Records::default(),
            seen,
        }
    }

    /// Pin of the server that has answered, if it is not the expected one.
    pub fn wrong_pin(&self) -> Option<Pin> {
        let seen = self.seen.as_ref()?;
        *seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if messages travel inside TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// True during the TLS handshake.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|t| t.is_handshaking())
    }

    /// Bytes to write to the socket so that these arrive: all of them, or the begin of a handshake, after which
    /// [`Pipe::read`] writes them itself.
    ///
    /// # Errors
    /// Errors of the TLS library.
    pub fn seal(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let Some(tls) = &mut self.tls else {
            return Ok(bytes.to_vec());
        };
        tls.writer().write_all(bytes)?;
        let mut out = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut out)?;
        }
        Ok(out)
    }

    /// Reads data from the far end: `Ok(0)` is the end of the connection.
    ///
    /// # Errors
    /// `WouldBlock` or `TimedOut` while nothing has come; a fault of the far end or the network.
    pub fn read<S: Read + Write>(&mut self, stream: &mut S, buf: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return stream.read(buf);
        };
        loop {
            while tls.wants_write() {
                tls.write_tls(stream)?;
            }
            match tls.reader().read(buf) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            let got = tls.read_tls(&mut Bounded {
                records: &mut self.records,
                stream,
            })?;
            let told = tls.process_new_packets();
            if told.is_err() {
                // The alert that says why; whether it arrives is no matter.
                let _ = tls.write_tls(stream);
            }
            told.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
            if got == 0 && tls.is_handshaking() {
                return Ok(0);
            }
        }
    }
}

/// Settings of a client that accepts the one server whose public key has the pin, whatever its certificate's names and
/// dates. `seen` keeps the pin of another server that answers.
///
/// # Errors
/// Errors of the TLS library.
pub fn pinned(pin: Pin, seen: &Arc<Mutex<Option<Pin>>>) -> io::Result<ClientConfig> {
    client(Some(pin), seen)
}

/// Settings of a client that accepts any server: for loads that carry no messages, of a server that has no pin.
///
/// # Errors
/// Errors of the TLS library.
pub fn unchecked() -> io::Result<ClientConfig> {
    client(None, &Arc::default())
}

fn client(pin: Option<Pin>, seen: &Arc<Mutex<Option<Pin>>>) -> io::Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Pinned {
        pin,
        seen: Arc::clone(seen),
        provider: provider.clone(),
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.enable_sni = false;
    Ok(config)
}

/// Verifier that accepts the one server whose public key has the pin; any without one.
#[derive(Debug)]
struct Pinned {
    pin: Option<Pin>,
    seen: Arc<Mutex<Option<Pin>>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let pin = pin_of(certificate)?;
        if self.pin.is_none_or(|own| own == pin) {
            return Ok(ServerCertVerified::assertion());
        }
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(pin);
        Err(Error::General(
            "another public key than the pinned one".into(),
        ))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken here".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Pin of a certificate's public key.
///
/// # Errors
/// Bytes that are no certificate.
pub fn pin_of(certificate: &CertificateDer<'_>) -> Result<Pin, Error> {
    let parsed = ParsedCertificate::try_from(certificate)?;
    Ok(Pin::of(parsed.subject_public_key_info().as_ref()))
}
