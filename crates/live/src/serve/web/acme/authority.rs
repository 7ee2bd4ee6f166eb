//! Conversation with the authority: account, order, proof, certificate.

use super::challenge::Challenges;
use super::config::{AcmeConfig, SiteName};
use super::error::{AcmeError, quoted};
use super::kept::{self, Certificate};
use crate::trust;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use instant_acme::{
    Account, AuthorizationStatus, BodyWrapper, BytesResponse, ChallengeType, HttpClient,
    Identifier, NewAccount, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Patience with one answer, and with the check of the names or the signing.
const PATIENCE: Duration = Duration::from_secs(30);
const CHECKED_WITHIN: Duration = Duration::from_secs(180);
/// Largest answer.
const MOST: usize = 1 << 20;
/// Profile of certificates for addresses at Let's Encrypt, valid for six days.
const SHORT: &str = "shortlived";

/// Connections to the authority, one for each request: there are a dozen in two months.
struct Http {
    tls: Arc<ClientConfig>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Answer = Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>>;

impl HttpClient for Http {
    fn request(&self, request: Request<BodyWrapper<Bytes>>) -> Answer {
        let tls = self.tls.clone();
        Box::pin(async move {
            let uri = request.uri().clone();
            let failed =
                |e: Failure| instant_acme::Error::Other(format!("cannot ask {uri}: {e}").into());
            match timeout(PATIENCE, exchange(tls, request)).await {
                Ok(done) => done.map(BytesResponse::from).map_err(failed),
                Err(_) => Err(failed(
                    format!("no answer within {} s", PATIENCE.as_secs()).into(),
                )),
            }
        })
    }
}

async fn exchange(
    tls: Arc<ClientConfig>,
    mut request: Request<BodyWrapper<Bytes>>,
) -> Result<Response<Full<Bytes>>, Failure> {
    let uri = request.uri().clone();
    let (Some("https"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err("the authority names an address that is not https".into());
    };
    let host = authority.host().trim_matches(['[', ']']).to_owned();
    let name = ServerName::try_from(host.clone())?;
    let stream = TcpStream::connect((host, authority.port_u16().unwrap_or(443))).await?;
    let stream = TlsConnector::from(tls).connect(name, stream).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let host = HeaderValue::from_str(authority.as_str())?;
    request.headers_mut().insert(HOST, host);
    let path = uri.path_and_query().map_or("/", |p| p.as_str());
    *request.uri_mut() = Uri::try_from(path)?;
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, MOST).collect().await?.to_bytes();
    Ok(Response::from_parts(parts, Full::new(body)))
}

/// Obtains a certificate, and keeps it.
///
/// # Errors
/// An authority that does not answer, or refuses; a name that was not proven; a disk that fails.
pub(super) async fn obtain(
    config: &AcmeConfig,
    challenges: &Challenges,
    say: &dyn Fn(String),
) -> Result<Certificate, AcmeError> {
    let account = account(config, say).await?;
    let identifiers: Vec<Identifier> = config.names.iter().map(identifier).collect();
    let mut order = NewOrder::new(&identifiers);
    let has_address = config.names.iter().any(|n| n.ip().is_some());
    if has_address && account.profiles().any(|p| p.name == SHORT) {
        order = order.profile(SHORT);
    }
    let mut order = account.new_order(&order).await?;
    prove(&mut order, challenges).await?;
    let unusable = |e: rcgen::Error| AcmeError::Unusable(e.to_string());
    let key = KeyPair::generate().map_err(unusable)?;
    let names: Vec<String> = config.names.iter().map(SiteName::to_string).collect();
    let mut params = CertificateParams::new(names).map_err(unusable)?;
    params.distinguished_name = DistinguishedName::new();
    let asked = params.serialize_request(&key).map_err(unusable)?;
    order.finalize_csr(asked.der()).await?;
    let chain = order.poll_certificate(&patience()).await?;
    let key = key.serialize_pem();
    let certificate = Certificate::read(key.as_bytes(), chain.as_bytes())?;
    kept::keep_certificate(&config.state, &key, &chain)?;
    Ok(certificate)
}

fn patience() -> RetryPolicy {
    RetryPolicy::new().timeout(CHECKED_WITHIN)
}

fn identifier(name: &SiteName) -> Identifier {
    match name.ip() {
        Some(ip) => Identifier::Ip(ip),
        None => Identifier::Dns(name.to_string()),
    }
}

/// The account that was kept, or a new one.
async fn account(config: &AcmeConfig, say: &dyn Fn(String)) -> Result<Account, AcmeError> {
    let url = config.authority.url();
    let http = Http {
        tls: trust::client(config.ca.as_deref(), &[b"http/1.1"])?,
    };
    if let Some(kept) = kept::account(&config.state, url) {
        let builder = Account::builder_with_http(Box::new(http));
        return Ok(builder.from_credentials(kept.credentials).await?);
    }
    if let Some(terms) = terms(&http, url).await? {
        say(format!(
            "agreed to the terms of service of {}, as --acme-agree says: {}",
            config.authority,
            quoted(&terms)
        ));
    }
    let contact: Vec<&str> = config.contact.iter().map(String::as_str).collect();
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let builder = Account::builder_with_http(Box::new(http));
    let (account, credentials) = builder.create(&new, url.to_owned(), None).await?;
    let kept = kept::Account {
        authority: url.to_owned(),
        credentials,
    };
    kept::keep_account(&config.state, &kept)?;
    Ok(account)
}

/// Address of the terms of service, from the directory.
async fn terms(http: &Http, url: &str) -> Result<Option<String>, AcmeError> {
    let request = Request::get(url).body(BodyWrapper::default());
    let mut answer = http
        .request(request.map_err(instant_acme::Error::from)?)
        .await?;
    let body = answer.body.into_bytes().await;
    let body = body.map_err(instant_acme::Error::Other)?;
    let directory: serde_json::Value =
        serde_json::from_slice(&body).map_err(instant_acme::Error::from)?;
    let terms = &directory["meta"]["termsOfService"];
    Ok(terms.as_str().map(str::to_owned))
}

/// Answers the challenge for each name that is not proven yet, and waits until the authority has checked them.
async fn prove(order: &mut Order, challenges: &Challenges) -> Result<(), AcmeError> {
    let mut all = order.authorizations();
    while let Some(authorization) = all.next().await {
        let mut authorization = authorization?;
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let name = authorization.identifier().to_string();
        let Some(mut challenge) = authorization.challenge(ChallengeType::TlsAlpn01) else {
            return Err(AcmeError::NoChallenge(name));
        };
        let site: SiteName = name.parse().map_err(AcmeError::Unusable)?;
        let digest = challenge.key_authorization().digest();
        challenges.open(&site, digest.as_ref())?;
        challenge.set_ready().await?;
    }
    let ready = order.poll_ready(&patience()).await;
    if let Ok(OrderStatus::Ready | OrderStatus::Valid) = ready {
        return Ok(());
    }
    // The reason stands in the authorizations.
    let mut all = order.authorizations();
    while let Some(authorization) = all.next().await {
        let mut authorization = authorization?;
        let name = authorization.identifier().to_string();
        let state = authorization.refresh().await?;
        if let Some(problem) = state.challenges.iter().find_map(|c| c.error.as_ref()) {
            let why = problem.detail.clone();
            let why = why.unwrap_or_else(|| problem.to_string());
            return Err(AcmeError::NotProven { name, why });
        }
    }
    match ready {
        Err(e) => Err(e.into()),
        Ok(_) => Err(AcmeError::Unusable("the authority gave no reason".into())),
    }
}
