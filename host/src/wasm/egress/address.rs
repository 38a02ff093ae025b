//! Which addresses a granted *name* must not lead to: whoever controls a name's DNS would else
//! choose what of the host's own networks a guest reaches.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether the address is one of the public internet.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let is_special = match address.octets() {
        [0, ..] => true,
        [100, 64..=127, ..] => true, // carrier-grade NAT, and a cloud's metadata
        [192, 0, 0, _] => true,      // protocol assignments
        [192, 88, 99, _] => true,    // 6to4 relays
        [198, 18..=19, ..] => true,  // benchmarks
        [168, 63, 129, 16] => true,  // a cloud's metadata on a public address
        [240..=255, ..] => true,     // reserved, broadcast
        _ => false,
    };
    !(is_special
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let [_, _, _, _, _, _, high, low] = segments;
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // An IPv4 address in IPv6's clothes: nobody but an evader resolves to it.
        [0, 0, 0, 0, 0, 0xffff | 0, ..] => false,
        // NAT64, the well-known prefix: how a host without IPv4 reaches all of it.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => embedded(high, low),
        // 6to4
        [0x2002, high, low, ..] => embedded(high, low),
        // Teredo, ORCHID and other assignments; documentation
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Global unicast is 2000::/3; all else is local, multicast or not assigned.
        [0x2000..=0x3fff, ..] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_hosts_own_networks_are_not_public() {
        for text in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.100.100.200",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "198.18.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "fec0::1",
            "ff02::1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a00:1::",
            "2001::1",
            "2001:db8::1",
            "100::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn addresses_of_the_internet_are_public() {
        for text in [
            "8.8.8.8",
            "1.1.1.1",
            "172.32.0.1",
            "100.63.0.1",
            "192.0.1.1",
            "2606:4700::1111",
            "2a00:1450::1",
            "64:ff9b::808:808",
            "2002:808:808::",
            "2001:4860:4860::8888",
        ] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }
}
