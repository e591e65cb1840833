//! IP addresses and blocks of them (upstream's `library/ip.go` and `library/cidr.go`).

use std::net::IpAddr;

use cel::common::types::{CelBool, CelInt, CelString};
use cel::{DeclarationError, Env, ExecutionError, add_member_overload, add_overload};

use super::{failed, getters, opaque};

/// An address without a zone.
#[derive(Clone, Debug, PartialEq)]
struct Ip(IpAddr);

/// A block of addresses. The address can have bits after the prefix.
#[derive(Clone, Debug, PartialEq)]
struct Cidr {
    address: IpAddr,
    bits: u8,
}

opaque!(Ip, "net.IP");
opaque!(Cidr, "net.CIDR");

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    add_overload!(env, fn ip: (CelString) -> Result<Ip>, name = "ip")?;
    add_overload!(env, fn is_ip: (CelString) -> CelBool, name = "isIP")?;
    add_overload!(env, fn is_canonical: (CelString) -> Result<CelBool>, name = "ip.isCanonical")?;
    add_overload!(env, fn ip_text: (Ip) -> CelString, name = "string")?;
    getters!(env, Ip => CelInt: "family" = |ip| CelInt::from(if ip.0.is_ipv4() { 4 } else { 6 }););
    getters!(env, Ip => CelBool:
        "isUnspecified" = |ip| ip.0.is_unspecified().into();
        "isLoopback" = |ip| ip.0.is_loopback().into();
    );
    add_member_overload!(env, fn is_link_local_multicast: (Ip) -> CelBool)?;
    add_member_overload!(env, fn is_link_local_unicast: (Ip) -> CelBool)?;
    add_member_overload!(env, fn is_global_unicast: (Ip) -> CelBool)?;
    add_overload!(env, fn cidr: (CelString) -> Result<Cidr>, name = "cidr")?;
    add_overload!(env, fn is_cidr: (CelString) -> CelBool, name = "isCIDR")?;
    add_overload!(env, fn cidr_text: (Cidr) -> CelString, name = "string")?;
    add_member_overload!(env, fn contains_ip_text: (Cidr, CelString) -> Result<CelBool>,
        name = "containsIP")?;
    add_member_overload!(env, fn contains_ip: (Cidr, Ip) -> CelBool, name = "containsIP")?;
    add_member_overload!(env, fn contains_cidr_text: (Cidr, CelString) -> Result<CelBool>,
        name = "containsCIDR")?;
    add_member_overload!(env, fn contains_cidr: (Cidr, Cidr) -> CelBool, name = "containsCIDR")?;
    getters!(env, Cidr => Ip: "ip" = |cidr| Ip(cidr.address););
    getters!(env, Cidr => CelInt: "prefixLength" = |cidr| CelInt::from(i64::from(cidr.bits)););
    add_member_overload!(env, fn masked: (Cidr) -> Cidr)?;
    Ok(())
}

fn parse_ip(text: &str) -> Result<Ip, String> {
    let address: IpAddr = text.parse().map_err(|_| {
        format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): \
             unable to parse IP"
        )
    })?;
    if is_mapped(address) {
        return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
    }
    Ok(Ip(address))
}

fn parse_cidr(text: &str) -> Result<Cidr, String> {
    let wrong = || {
        format!(
            "network address parse error during conversion from string: network address parse \
             error during conversion from string: netip.ParsePrefix({text:?}): no '/'"
        )
    };
    let (address, bits) = text.rsplit_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    if is_mapped(address) {
        return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
    }
    let is_number = bits.bytes().all(|byte| byte.is_ascii_digit());
    let is_canonical = bits == "0" || !bits.starts_with('0');
    let bits =
        bits.parse().ok().filter(|bits| is_number && is_canonical && *bits <= width(address));
    Ok(Cidr { address, bits: bits.ok_or_else(wrong)? })
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

/// The number of bits of an address.
fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The address as a number whose first bit is that of the address.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mask(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

impl Cidr {
    fn contains(&self, address: IpAddr) -> bool {
        let differing = number(self.address) ^ number(address);
        width(self.address) == width(address) && differing & mask(self.bits) == 0
    }
}

fn ip(text: &CelString<'_>) -> Result<Ip, ExecutionError> {
    parse_ip(text.inner()).map_err(|error| failed("ip", error))
}

fn is_ip(text: &CelString<'_>) -> CelBool {
    parse_ip(text.inner()).is_ok().into()
}

fn is_canonical(text: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    Ok((ip(text)?.0.to_string() == text.inner()).into())
}

fn ip_text(ip: &Ip) -> CelString<'static> {
    ip.0.to_string().into()
}

fn is_link_local_multicast(ip: &Ip) -> CelBool {
    match ip.0 {
        IpAddr::V4(address) => address.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
    .into()
}

fn is_link_local_unicast(ip: &Ip) -> CelBool {
    match ip.0 {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
    .into()
}

fn is_global_unicast(ip: &Ip) -> CelBool {
    let is_broadcast = matches!(ip.0, IpAddr::V4(address) if address.is_broadcast());
    let is_local = *is_link_local_unicast(ip).inner();
    (!is_broadcast
        && !is_local
        && !ip.0.is_unspecified()
        && !ip.0.is_loopback()
        && !ip.0.is_multicast())
    .into()
}

fn cidr(text: &CelString<'_>) -> Result<Cidr, ExecutionError> {
    parse_cidr(text.inner()).map_err(|error| failed("cidr", error))
}

fn is_cidr(text: &CelString<'_>) -> CelBool {
    parse_cidr(text.inner()).is_ok().into()
}

fn cidr_text(cidr: &Cidr) -> CelString<'static> {
    format!("{}/{}", cidr.address, cidr.bits).into()
}

fn contains_ip_text(cidr: &Cidr, text: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    Ok(contains_ip(cidr, &ip(text)?))
}

fn contains_ip(cidr: &Cidr, ip: &Ip) -> CelBool {
    cidr.contains(ip.0).into()
}

fn contains_cidr_text(of: &Cidr, text: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    Ok(contains_cidr(of, &cidr(text)?))
}

fn contains_cidr(cidr: &Cidr, other: &Cidr) -> CelBool {
    (cidr.contains(other.address) && cidr.bits <= other.bits).into()
}

fn masked(cidr: &Cidr) -> Cidr {
    let number = number(cidr.address) & mask(cidr.bits);
    let address = match cidr.address {
        IpAddr::V4(_) => IpAddr::V4(((number >> 96) as u32).into()),
        IpAddr::V6(_) => IpAddr::V6(number.into()),
    };
    Cidr { address, bits: cidr.bits }
}
