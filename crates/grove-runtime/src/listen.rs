//! The addresses that a service listens on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Context;
use tokio::net::TcpListener;

/// The name of a flag, and its value if it is set.
type Flag<'a> = (&'a str, Option<SocketAddr>);
/// The key of an address in the configuration, its value, and the default.
type Configured<'a> = (&'a str, SocketAddr, SocketAddr);

/// The address of `flag`, or that of the configuration. A flag that overrides another configured address causes a warning.
pub fn address(flag: Flag<'_>, configured: Configured<'_>) -> SocketAddr {
    if let Some(warning) = override_warning(flag, configured) {
        tracing::warn!("{warning}");
    }
    flag.1.unwrap_or(configured.1)
}

/// The warning about a flag that overrides a configured address.
fn override_warning((name, flag): Flag<'_>, (key, configured, default): Configured<'_>) -> Option<String> {
    let flag = flag.filter(|flag| configured != default && configured != *flag)?;
    Some(format!("{name} {flag} overrides {key} of the configuration, which is {configured}"))
}

/// Listens on the address. `[::]` means all addresses of both families, and those of IPv4 on a node without IPv6.
///
/// # Errors
/// If the address is in use, or the node does not have it.
pub async fn bind(address: SocketAddr, purpose: &str) -> anyhow::Result<TcpListener> {
    let bound = match TcpListener::bind(address).await {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && !is_in_use(&error) => {
            TcpListener::bind((IpAddr::from(Ipv4Addr::UNSPECIFIED), address.port())).await
        }
        bound => bound,
    };
    let listener = bound.with_context(|| format!("could not listen on {address} for {purpose}"))?;
    tracing::info!(%address, "serving {purpose}");
    Ok(listener)
}

fn is_in_use(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::AddrInUse
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn all_addresses_include_those_of_ipv4() {
        let listener = bind((Ipv6Addr::UNSPECIFIED, 0).into(), "tests").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let error = bind((Ipv6Addr::UNSPECIFIED, port).into(), "tests").await.unwrap_err();
        assert_eq!(error.to_string(), format!("could not listen on [::]:{port} for tests"));
    }

    #[test]
    fn a_flag_has_precedence() {
        let [flag, configured, default] = [1, 2, 3].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let key = ("server.metrics", configured, default);
        assert_eq!(address(("--metrics-address", Some(flag)), key), flag);
        assert_eq!(address(("--metrics-address", None), key), configured);
    }

    #[test]
    fn a_flag_overrides_a_configured_address_with_a_warning() {
        let [flag, other] = [1, 2].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let warning = |flag, configured| override_warning(("--a", flag), ("server.a", configured, other));
        let expected = "--a 127.0.0.1:2 overrides server.a of the configuration, which is 127.0.0.1:1";
        assert_eq!(warning(Some(other), flag).as_deref(), Some(expected));
        for (flag, configured) in [(None, flag), (Some(flag), flag), (Some(flag), other)] {
            assert_eq!(warning(flag, configured), None, "{flag:?} {configured}");
        }
    }
}
