//! A network that asks for a log-in: the gateway answers all plain HTTP itself, and refuses the rest until somebody has
//! fetched `/login`.

use super::impostor::{Box, repeated};
use super::network::{rules, sh};
use live::emulate::NetNs;
use std::io::{Read, Write};
use std::net::Ipv4Addr;

/// Port of the gateway's own web server.
const PORT: u16 = 8080;

/// Answer of the gateway to whoever has not logged in.
#[derive(Clone, Copy, Debug)]
pub enum Style {
    /// Redirects to a page of its own (HTTP 302).
    Redirect,
    /// HTTP 511, RFC 6585 section 6.
    Required,
    /// Its own page in place of the one that was asked for.
    Rewritten,
}

impl Style {
    fn answer(self, login: &str) -> String {
        let page = format!("<html><a href=\"{login}\">log in</a></html>");
        let head = match self {
            Style::Redirect => format!("302 Found\r\nLocation: {login}"),
            Style::Required => "511 Network Authentication Required".into(),
            Style::Rewritten => "200 OK\r\nContent-Type: text/html".into(),
        };
        let length = page.len();
        format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{page}")
    }
}

/// Address of the log-in page of a gateway.
pub fn login(gateway: Ipv4Addr) -> String {
    format!("http://{gateway}:{PORT}/login")
}

/// Starts the gateway in `ns`, where the server is; nothing but plain HTTP passes it.
pub fn start(ns: &NetNs, gateway: Ipv4Addr, style: Style) -> Box {
    let listener = super::impostor::listener(ns, PORT);
    rules(
        ns,
        &format!(
            "chain portal {{ type nat hook prerouting priority dstnat; tcp dport 80 redirect to :{PORT}; }}
             chain closed {{ type filter hook input priority filter; tcp dport {PORT} accept;
                 ip protocol icmp accept; tcp flags & (syn | ack) == syn reject with tcp reset; meta l4proto udp drop; }}"
        ),
    );
    let inside = ns.clone();
    let answer = style.answer(&login(gateway));
    let serve = move |stream: &mut std::net::TcpStream| {
        let mut head = [0; 2000];
        let n = stream.read(&mut head)?;
        if head[..n].starts_with(b"GET /login") {
            sh(&inside, "nft flush ruleset");
            return stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        }
        stream.write_all(answer.as_bytes())
    };
    repeated(ns, listener, serve)
}
