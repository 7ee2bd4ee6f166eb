//! Networks whose clients a server serves.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Network, written as `192.0.2.0/24`, `2001:db8::/32`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// Address as a number whose first bits are those of the network, and its number of bits.
fn number(ip: IpAddr) -> (u128, u8) {
    match ip {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()) << 96, 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    }
}

impl Network {
    pub fn contains(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let ((own, width), (its, other)) = (number(self.address), number(ip));
        let shift = 128 - u32::from(self.bits);
        width == other && own.checked_shr(shift).unwrap_or(0) == its.checked_shr(shift).unwrap_or(0)
    }
}

/// True if a server that serves these networks serves that address; without any it serves all.
pub fn allows(networks: &[Network], ip: IpAddr) -> bool {
    networks.is_empty() || networks.iter().any(|n| n.contains(ip))
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let wrong = || {
            format!(
                "{text:?} is no network: write it as 192.0.2.0/24, 2001:db8::/32, or one address"
            )
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let address = address.to_canonical();
        let (_, width) = number(address);
        let bits = match bits {
            Some(bits) => bits.trim().parse().map_err(|_| wrong())?,
            None => width,
        };
        if bits > width {
            return Err(wrong());
        }
        Ok(Network { address, bits })
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Network, String> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(it: Network) -> String {
        it.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_its_addresses_and_no_others() {
        let holds = |network: &str, ip: &str| {
            let network: Network = network.parse().expect(network);
            network.contains(ip.parse().expect(ip))
        };
        assert!(holds("192.0.2.0/24", "192.0.2.255"));
        assert!(holds("192.0.2.0/24", "::ffff:192.0.2.9"));
        assert!(!holds("192.0.2.0/24", "192.0.3.0"));
        assert!(holds("192.0.2.7", "192.0.2.7"));
        assert!(!holds("192.0.2.7", "192.0.2.8"));
        assert!(holds("0.0.0.0/0", "203.0.113.1"));
        assert!(!holds("0.0.0.0/0", "2001:db8::1"));
        assert!(holds("2001:db8::/32", "2001:db8:ffff::1"));
        assert!(!holds("2001:db8::/32", "2001:db9::1"));
        assert!(!holds("::/0", "192.0.2.1"));
        for wrong in [
            "",
            "192.0.2.0/33",
            "::/129",
            "example.org",
            "1.2.3/8",
            "1.2.3.4/x",
        ] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
        assert!(allows(&[], "192.0.2.1".parse().expect("an address")));
    }
}
