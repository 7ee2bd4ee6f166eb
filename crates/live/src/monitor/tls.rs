//! TLS around a connection of an `https://` target. A probe sends nothing secret and trusts nothing that it reads, so
//! the server's certificate is not checked. A router whose clock begins in 1970, or a self-signed name, has delays like
//! any other. No session is resumed: each probe is a whole handshake and costs as much as the last.

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// TLS settings for one server.
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// # Errors
    /// A host that is neither a name nor an address.
    pub fn new(host: &str) -> io::Result<Tls> {
        let wrong =
            |e: &dyn std::error::Error| io::Error::new(io::ErrorKind::InvalidInput, e.to_string());
        let provider = Arc::new(ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| wrong(&e))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(Tls {
            config: Arc::new(config),
            name: ServerName::try_from(host.to_owned()).map_err(|e| wrong(&e))?,
        })
    }

    /// Starts a handshake that sends `request` as soon as it may.
    ///
    /// # Errors
    /// Errors of the TLS library, which sends nothing yet.
    pub fn begin(&self, request: &str) -> io::Result<Session> {
        let connection = ClientConnection::new(self.config.clone(), self.name.clone());
        let mut connection = connection.map_err(io::Error::other)?;
        connection.writer().write_all(request.as_bytes())?;
        Ok(Session(Box::new(connection)))
    }
}

/// Client's side of the protocol on one connection.
pub struct Session(Box<ClientConnection>);

impl Session {
    /// True if the protocol waits to write rather than to read.
    pub fn wants_write(&self) -> bool {
        self.0.wants_write()
    }

    /// Advances the protocol as far as the socket allows. Returns the number of bytes of the answer that came, at most
    /// one; `Ok(0)` is the end of the connection.
    ///
    /// # Errors
    /// `WouldBlock` while neither answer nor end has come; a fault of the server or the network.
    pub fn read(&mut self, stream: &mut TcpStream) -> io::Result<usize> {
        loop {
            while self.0.wants_write() {
                self.0.write_tls(stream)?;
            }
            match self.0.reader().read(&mut [0]) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            let got = self.0.read_tls(stream)?;
            let told = self.0.process_new_packets();
            if told.is_err() {
                // The alert that says why; whether it arrives is no matter.
                let _ = self.0.write_tls(stream);
            }
            told.map_err(io::Error::other)?;
            if got == 0 && self.0.is_handshaking() {
                return Ok(0);
            }
        }
    }
}

/// Verifier that accepts any certificate.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ServerConfig, ServerConnection};
    use std::net::TcpListener;
    use std::thread::spawn;

    /// Serves one connection with a self-signed certificate of another name that was valid for a day.
    fn server(answer: &'static str) -> std::net::SocketAddr {
        let certificate = CertificateDer::from(include_bytes!("tls_test/cert.der").to_vec());
        let key = PrivateKeyDer::try_from(include_bytes!("tls_test/key.der").to_vec()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut tls = ServerConnection::new(Arc::new(config)).unwrap();
            let mut stream = rustls::Stream::new(&mut tls, &mut stream);
            let mut asked = [0; 64];
            let n = stream.read(&mut asked).unwrap();
            assert_eq!(&asked[..n], b"GET / HTTP/1.1\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
            stream.conn.send_close_notify();
            let _ = stream.flush();
        });
        address
    }

    /// Sends the request. Returns the number of bytes, the end of the connection, or the error.
    fn ask(address: std::net::SocketAddr) -> io::Result<usize> {
        let mut session = Tls::new("far.example")?.begin("GET / HTTP/1.1\r\n\r\n")?;
        // A blocking socket: `WouldBlock` cannot be.
        session.read(&mut TcpStream::connect(address)?)
    }

    #[test]
    fn an_answer_counts_whoever_signed_the_certificate() {
        assert_eq!(ask(server("HTTP/1.1 200 OK\r\n\r\n")).unwrap(), 1);
    }

    #[test]
    fn a_server_that_hangs_up_or_speaks_no_tls_gave_no_answer() {
        assert_eq!(ask(server("")).unwrap(), 0);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let plain = spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut hello = [0; 16];
            stream.read_exact(&mut hello).unwrap();
            stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .unwrap();
            // Read on, so that the end is no reset that overtakes the answer.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let e = ask(address).unwrap_err();
        assert!(e.to_string().contains("corrupt message"), "{e}");
        plain.join().unwrap();
    }
}
